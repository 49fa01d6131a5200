"""The numbers of a run as frozen classes, and summary.json, which keeps them (docs/reference/summary.md).

A configuration is named by its slug in every line; `Summary.configurations` has its label for people.
`nu` has one number per systematic, in units of its sigma.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import numpy as np
from scipy.stats import chi2, norm

from covad.errors import FileFormatError
from covad.inference.clip import ClipPoint
from covad.inference.closure import CorrectedGoodness, FalsePositives, MedianShift
from covad.inference.coverage import PriorDependence
from covad.inference.frontier import Frontier
from covad.inference.goodness import GoodnessOfFit, Law
from covad.inference.histograms import density_curve
from covad.inference.nuisances import NuisanceToys
from covad.inference.significance import Significance
from covad.inference.signs import SignOffset
from covad.inference.verdict import Verdict
from covad.nplm.adaptive.smallest_p import TabulatedLaw
from covad.nplm.convex.generalised_chi2 import GeneralisedChi2
from covad.nplm.dataset import Float64
from covad.results.manifest import Manifest, ToyVersions
from covad.results.spaces import SpaceSummary, TrainingSummary
from covad.runs.yields import YieldTable
from covad.settings import Nu
from covad.storage.records import Record, plain, restore
from covad.storage.sealed import read_sealed
from covad.study import TESTS, Study, find_slug
from covad.study.plan import shape_names
from covad.toys.ensembles import Treatment

SUMMARY = "summary.json"
#: Layout of summary.json and meaning of its numbers: raise it when either changes.
SUMMARY_SCHEMA = 12
T = TypeVar("T")


@dataclass(frozen=True)
class ProcessShare(Record):
    """A background process: selected events of the samples, and those that the study expects."""

    process: str
    events: int
    expected: float


@dataclass(frozen=True)
class ConfigurationSummary(Record):
    """What a test is given. `kind` says what its space is; None where the study does not say."""

    configuration: str  # its slug
    label: str
    space: str
    treatment: Treatment
    order: int
    expected: float
    reference: int
    kind: Literal["contrastive", "covariant", "observables", "joined"] | None
    own_sizes: bool  # other sizes than those of the study


@dataclass(frozen=True)
class ClipSummary(Record):
    """W of the network; a W that the study gives has neither error nor scan."""

    configuration: str
    clip: float
    error: float | None
    scan: tuple[ClipPoint, ...]


@dataclass(frozen=True)
class ToyCounts(Record):
    """requested = done + failed + missing."""

    requested: int
    done: int
    failed: int
    missing: int

    @property
    def complete(self) -> bool:
        return self.failed == self.missing == 0


@dataclass(frozen=True)
class EnsembleSummary(ToyCounts):
    """One ensemble: what was drawn and tested, its toys, and t. Without toys there are no moments."""

    test: str
    configuration: str
    space: str
    treatment: Treatment
    order: int
    expected: float
    reference: int
    nu: Nu
    nu_norm: float  # true nuisance of the normalisation, in units of its sigma
    prior: bool  # every toy has a truth of its own
    along_worst: float  # sigma of nu along the worst direction; 0 if it does not lie there for that
    signal: str | None
    injected: float
    identity: str | None
    unconverged: int
    mean: float | None
    std: float | None
    median: float | None
    seconds_per_toy: float | None


@dataclass(frozen=True)
class NullLaw(Record):
    """The law that t of R_0 should follow: chi2 (network), or an analytic one.

    That of the convex test is a generalised chi2, that of the adaptive test a table of (t, log P).
    """

    name: Literal["chi2", "analytic"]
    mean: float
    std: float
    effective_dof: float
    weights: tuple[float, ...]  # of the chi2_1 in the generalised chi2; none for other laws
    goodness: tuple[GoodnessOfFit, ...]
    false_positives: tuple[FalsePositives, ...]
    table: tuple[tuple[float, float], ...] = ()  # t and log P(t' > t) of the adaptive test

    @property
    def distribution(self) -> Law:
        if self.name == "chi2":
            law: Law = chi2(self.effective_dof)
            return law
        if self.table:
            return TabulatedLaw(*np.array(self.table).T)
        return GeneralisedChi2(np.array(self.weights))

    @property
    def curve(self) -> tuple[Float64, Float64]:
        """Return (t, density) where the law has something to show."""
        if self.name == "chi2":
            low, high = (float(chi2.ppf(p, self.effective_dof)) for p in (1e-4, 0.9999))
        else:
            low, high = max(self.mean - 3.5 * self.std, 0.0), self.mean + 5.0 * self.std
        return density_curve(self.distribution, low, high)


@dataclass(frozen=True)
class NullSummary(Record):
    """The toys of R_0 of one test in one configuration, and how well they follow their law."""

    test: str
    configuration: str
    capacity: float  # the mean of t that the test is tuned to; of the adaptive test the largest of its scales
    n_toys: int
    mean: float
    std: float
    law: NullLaw
    signs: SignOffset | None = None  # of toys against observed data; None if no weight is negative


@dataclass(frozen=True)
class ClosureSummary(Record):
    """One ensemble of background against the null: R_0 for the network, the analytic law for other tests.

    R_0 is a point of its own where the null is a law. The verdict and its reason are those of all points of
    a test and configuration; goodness of fit has no say in them.
    """

    test: str
    configuration: str
    point: str  # 'R_+1', or another name
    n_toys: int
    verdict: Verdict
    reason: str
    against_null: tuple[CorrectedGoodness, ...]  # against the toys of R_0; none for R_0 itself
    against_chi2: tuple[CorrectedGoodness, ...]  # of the network, whose clip was tuned to that law
    median_shift: MedianShift
    false_positives: tuple[FalsePositives, ...]

    def false_positives_at(self, z_alpha: float) -> FalsePositives | None:
        return next((rate for rate in self.false_positives if rate.z_alpha == z_alpha), None)


@dataclass(frozen=True)
class PriorSummary(Record):
    """Background toys at truths thrown from the prior: which nuisances t depends on, if any."""

    test: str
    configuration: str
    dependence: PriorDependence


@dataclass(frozen=True)
class NuisanceSummary(Record):
    """The fitted nuisances of background toys of one test in one configuration, at nu = 0 or of the prior."""

    test: str
    configuration: str
    prior: bool
    nuisances: tuple[NuisanceToys, ...]


@dataclass(frozen=True)
class SignalSignificance(Significance):
    """The median significance of one ensemble with a signal, against one null."""

    test: str
    configuration: str
    nu: Nu
    signal: str
    injected: float
    n_toys: int


@dataclass(frozen=True)
class SignalPower(Record):
    """The power of one test to find a signal against Z_alpha, with its band.

    Power is None where the toys of the null do not resolve the threshold.
    """

    test: str
    configuration: str
    nu: Nu
    signal: str
    injected: float
    n_toys: int
    null: str
    z_alpha: tuple[float, ...]
    power: tuple[float | None, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def false_alarms(self) -> Float64:
        """Return the rate of false alarms of a calibrated test at each threshold."""
        return np.asarray(norm.sf(np.array(self.z_alpha)))


@dataclass(frozen=True)
class Summary(Record):
    """Everything that the toys and checks of a run say, but the answers for observed files."""

    schema: int
    covad: str
    made_of: str  # digest of versions and files; as long as it holds, the summary is kept
    study: Study
    manifest: Manifest | None
    processes: tuple[ProcessShare, ...]  # the largest first; none where no events were selected
    yields: YieldTable | None  # where the study or its files say what counts
    main_configuration: str
    configurations: tuple[ConfigurationSummary, ...]
    trainings: tuple[TrainingSummary, ...]
    spaces: tuple[SpaceSummary, ...]
    frontier: Frontier | None  # where the study lists several alphas
    clips: tuple[ClipSummary, ...]
    ensembles: tuple[EnsembleSummary, ...]
    nulls: tuple[NullSummary, ...]
    closure: tuple[ClosureSummary, ...]
    prior: tuple[PriorSummary, ...]
    nuisances: tuple[NuisanceSummary, ...]  # where the test fits them
    significance: tuple[SignalSignificance, ...]
    power: tuple[SignalPower, ...]
    toys: ToyCounts
    toy_versions: tuple[ToyVersions, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain data for a JSON file."""
        return plain(self)

    @classmethod
    def from_json(cls, content: Any, where: str) -> Self:
        """Check plain data; `where` is for the message.

        Raise FileFormatError if a key is missing, unknown or of a wrong type, or for another layout.
        """
        if not isinstance(content, dict):
            raise FileFormatError(f"{where}: cannot be read, a JSON object was expected")
        if content.get("schema") != SUMMARY_SCHEMA:
            raise FileFormatError(
                f"{where}: has the layout {content.get('schema')} of another version of covad, not "
                f"{SUMMARY_SCHEMA}: `covad report` writes it anew"
            )
        return restore(cls, content, where)

    def configuration(self, name: str) -> ConfigurationSummary:
        """Return the configuration of this slug or label (`covad.study.find_slug`)."""
        known = {found.configuration: found for found in self.configurations}
        return known[find_slug(name, {slug: found.label for slug, found in known.items()})]

    @property
    def main(self) -> ConfigurationSummary:
        return self.configuration(self.main_configuration)

    @property
    def tests(self) -> tuple[str, ...]:
        return _in_order(self.ensembles)

    def tests_of(self, configuration: str) -> tuple[str, ...]:
        """Return the tests that run in a configuration."""
        return _in_order(select(self.ensembles, configuration=configuration))

    @property
    def shape_names(self) -> tuple[str, ...]:
        """Return what the nuisances of nu are called."""
        return shape_names(self.study)

    @property
    def points(self) -> tuple[Nu, ...]:
        """Return all nu of toys that the study names, the central one first."""
        named = (line.nu for line in self.ensembles if not line.along_worst)
        return tuple(sorted(dict.fromkeys(named), key=any))

    @property
    def core_hours(self) -> float:
        """Return the time of all toys, also of those that ran elsewhere or in calls that were interrupted."""
        return sum(line.done * (line.seconds_per_toy or 0.0) for line in self.ensembles) / 3600

    def injections(self, configuration: str) -> tuple[tuple[str, float], ...]:
        """Return (signal, injected events) that were asked for in a configuration."""
        mine = select(self.ensembles, configuration=configuration)
        return tuple(dict.fromkeys((line.signal, line.injected) for line in mine if line.signal is not None))


def _in_order(lines: Iterable[EnsembleSummary]) -> tuple[str, ...]:
    """Return the tests of some ensembles, in the order of tables."""
    there = {line.test for line in lines}
    return tuple(test for test in TESTS if test in there)


def select(lines: Iterable[T], **values: Any) -> list[T]:
    """Return the lines whose attributes have these values: select(summary.power, test="convex")."""
    return [line for line in lines if all(getattr(line, key) == value for key, value in values.items())]


def read_summary(run: Path) -> Summary:
    """Read the summary of a run directory."""
    path = run / SUMMARY
    content = read_sealed(path, "`covad report` writes it anew")
    if content is None:
        raise FileFormatError(f"{path}: cannot be read, the run has no summary; `covad report` writes it")
    return Summary.from_json(content, str(path))
