"""The answer for an observed file: what `covad test` prints, a run keeps as JSON, and a notebook reads."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from covad.errors import FileFormatError, UnknownNameError
from covad.inference.nuisances import Compatibility, NuisanceFit
from covad.inference.significance import Significance
from covad.nplm.fit import Status
from covad.runs.directory import RunDirectory
from covad.storage.records import Record, plain, restore
from covad.storage.sealed import read_sealed

#: Version of the JSON form.
SCHEMA = 2


@dataclass(frozen=True)
class RankedEvent(Record):
    """An observed event by its number in the file, from 0."""

    event: int
    h: float
    observables: dict[str, float]


@dataclass(frozen=True)
class ObservableComparison(Record):
    """One observable of the top events, beside the background expected in their region and everywhere.

    Histograms are numbers of events; those of the background are expectations at the fitted nuisances.
    """

    name: str
    top_mean: float
    top_error: float
    region_mean: float | None  # None where the background sample has no event in the region
    everywhere_mean: float
    edges: tuple[float, ...] = field(repr=False)
    top: tuple[float, ...] = field(repr=False)
    region: tuple[float, ...] = field(repr=False)
    observed: tuple[float, ...] = field(repr=False)
    everywhere: tuple[float, ...] = field(repr=False)


@dataclass(frozen=True)
class Excess(Record):
    """The observed events of largest h, and the background that is expected in their region."""

    h_threshold: float
    n_top: int
    expected: float  # background in the region h >= h_threshold, at the fitted nuisances
    expected_error: float  # of the finite background sample
    ranked: tuple[RankedEvent, ...] = field(repr=False)
    observables: tuple[ObservableComparison, ...]


@dataclass(frozen=True)
class ObservedTest(Record):
    """What one test of the study says about the observed events; a failed fit has a status only."""

    test: str
    status: Status
    t: float | None
    tau: float | None
    delta: float | None
    nu_with_h: tuple[float, ...]  # nuisances of the fit with h, in sigma, ordered as those without h
    significances: tuple[Significance, ...]  # one per null
    excess: Excess | None

    @property
    def significance(self) -> Significance | None:
        """Return the one to quote: that of the largest p over the nulls of toys, since nobody knows nu."""
        toys = [found for found in self.significances if found.null.startswith("R_")]
        return max(toys, key=lambda found: found.p, default=None)

    @property
    def p(self) -> float | None:
        return None if self.significance is None else self.significance.p

    @property
    def z(self) -> float | None:
        """Z of the same null as p; a bound where `significance.saturated`."""
        return None if self.significance is None else self.significance.z


@dataclass(frozen=True)
class Observation(Record):
    """One observed file in one configuration of a run, by every test of the study.

    `t`, `p` and `z` are those of the study's first test. `p` is the largest over the nulls of toys; the
    significances against every null are in `result("network").significances`.
    """

    name: str  # of the answer in the run, one per question
    file: str
    sha256: str
    configuration: str  # its slug
    label: str  # of the configuration, for people
    expected: float  # yield after the selection at nu = 0
    n_file: int
    n_selected: int
    n_reference: int
    nuisances: tuple[NuisanceFit, ...]
    compatibility: Compatibility | None  # None where the test has no nuisances
    tests: tuple[ObservedTest, ...]
    warnings: tuple[str, ...]

    def result(self, test: str) -> ObservedTest:
        """Return what one test says."""
        for found in self.tests:
            if found.test == test:
                return found
        known = ", ".join(found.test for found in self.tests)
        raise UnknownNameError(f"{self.file} was not tested by '{test}' (it was by: {known})")

    @property
    def t(self) -> float | None:
        return self.tests[0].t

    @property
    def p(self) -> float | None:
        return self.tests[0].p

    @property
    def z(self) -> float | None:
        return self.tests[0].z

    def to_json(self) -> str:
        """Return the text that `from_json` reads."""
        return json.dumps(self.plain(), indent=2) + "\n"

    def plain(self) -> dict[str, Any]:
        """Return plain data for a JSON file."""
        return {"schema": SCHEMA, **plain(self)}

    @classmethod
    def from_json(cls, text: str, where: str = "the observation") -> Observation:
        """Read what `to_json` wrote; raise FileFormatError, which names `where`, if it is not that."""
        try:
            content: Any = json.loads(text)
        except (ValueError, RecursionError) as failure:
            raise FileFormatError(f"{where}: is not JSON ({failure})") from failure
        return cls.from_plain(content, where)

    @classmethod
    def from_plain(cls, content: Any, where: str) -> Observation:
        """Check plain data as `from_json` does."""
        version = content.pop("schema", None) if isinstance(content, dict) else None
        if version != SCHEMA:
            raise FileFormatError(
                f"{where}: is no observation of schema {SCHEMA} (it has {version}); "
                "test the observed file again, or remove the answer"
            )
        return restore(cls, content, where)


def read_observations(directory: RunDirectory) -> tuple[Observation, ...]:
    """Return the answers that a run keeps, in the order of their names."""
    paths = sorted(directory.observed.glob("*.json"))
    return tuple(Observation.from_plain(read_sealed(path), str(path)) for path in paths)
