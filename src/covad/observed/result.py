"""What `covad test` finds, as frozen results that become JSON as they are."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from covad.inference.nuisances import Compatibility, NuisanceFit
from covad.inference.significance import Significance
from covad.observed.excess import Excess

OBSERVATION_SCHEMA = 1


@dataclass(frozen=True)
class ObservedSignificance(Significance):
    """Of the observed events against one null."""

    extrapolated: bool  # the null is a law, and z is beyond what the run's toys have tested of it


@dataclass(frozen=True)
class TestResult:
    """One test of the study on the observed events; a failed fit has a status and nothing else."""

    __test__ = False

    test: str
    status: str
    t: float | None
    tau: float | None
    delta: float | None
    nu_tau: tuple[float, ...]
    significances: tuple[ObservedSignificance, ...]  # one per null
    excess: Excess | None


@dataclass(frozen=True)
class Observation:
    """One observed file in one configuration of a run."""

    name: str
    file: str
    sha256: str
    configuration: str
    expected: float
    n_file: int
    n_selected: int
    n_reference: int
    nuisances: tuple[NuisanceFit, ...]
    compatibility: Compatibility | None
    tests: tuple[TestResult, ...]
    warnings: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {"schema": OBSERVATION_SCHEMA, **asdict(self)}
