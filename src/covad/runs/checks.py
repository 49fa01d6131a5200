"""What the stage `checks` leaves in a run for every space and fold: checks/*.json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from covad.embedding.metrics import ProbeResult
from covad.inference.intervals import Interval
from covad.inference.ranking import PriorClosure, TrainingSpread
from covad.inference.reach import Reach
from covad.settings import Nu
from covad.storage.json_files import read_json
from covad.storage.ledger import Product
from covad.storage.records import Record, restore


@dataclass(frozen=True)
class Validation(Record):
    """How well the response predicts the counts of fresh events at nu.

    `where` is a dimension ('z0', 'z1', ..., or the name of an observable) or 'cells', adaptive cells of all
    of them.
    """

    where: str
    nu: Nu
    chi2: float
    dof: int
    p: float
    residual_share: float


@dataclass(frozen=True)
class ValidationCounts(Validation):
    """A validation with its counts per bin; `edges` are the inner ones, none for cells."""

    edges: tuple[float, ...]
    nominal: tuple[float, ...]
    observed: tuple[float, ...]
    predicted: tuple[float, ...]
    uncertainty: tuple[float, ...]  # of observed minus predicted

    @property
    def summary(self) -> Validation:
        """Return the validation without its counts."""
        return Validation(self.where, self.nu, self.chi2, self.dof, self.p, self.residual_share)


@dataclass(frozen=True)
class ReachAt(Reach):
    """The closure reach of the convex test at one nu."""

    nu: Nu


@dataclass(frozen=True)
class YieldAt(Record):
    """The yield at nu relative to nu = 0, and by how much what the response leaves of it moves t."""

    nu: Nu
    observed: float  # N_nu/N_0 of fresh events
    predicted: float  # E_0[e^f] of the response
    uncertainty: float  # of observed minus predicted
    n_events: float  # expected events of the test
    shift: float  # of the mean of t, in standard deviations of the null; noise subtracted
    low: float
    high: float


@dataclass(frozen=True)
class SpaceReach(Record):
    """The closure reach of the convex test in one space: averaged over the prior, and at each nu.

    `average` is what "the reach" means where no nu is named.
    """

    average: Reach
    points: tuple[ReachAt, ...]  # +-1 and +-2 sigma of every nuisance, the others at 0

    @property
    def smallest(self) -> dict[float, Reach]:
        """Return the smallest reach at each distance from nu = 0, in sigma, over signs and nuisances."""
        sizes = sorted({max(map(abs, point.nu)) for point in self.points})
        return {
            size: _smallest([point for point in self.points if max(map(abs, point.nu)) == size])
            for size in sizes
        }


def _smallest(points: Sequence[ReachAt]) -> Reach:
    """Return the smallest estimate; the ends of its interval are the smallest ones, too."""
    known = [point.n_events for point in points if point.n_events is not None]
    highs = [point.interval.high for point in points if point.interval.high is not None]
    low = min(point.interval.low or 0.0 for point in points)
    first = points[0]
    ends = Interval(low, min(highs, default=None))
    return Reach(min(known, default=None), ends, first.at_shift, first.fresh_events)


@dataclass(frozen=True)
class Departure(Record):
    """Departure of log(N_nu/N_0) from linearity along one direction, relative to the effect of the shift."""

    where: str  # cells or marginals
    direction: Nu
    size: float
    effect: float
    departure: float
    low: float
    high: float


@dataclass(frozen=True)
class SpaceChecks(Record):
    """All checks of one space, in one fold."""

    comparisons: tuple[ValidationCounts, ...]
    yields: tuple[YieldAt, ...]
    reach: SpaceReach
    probe: ProbeResult
    linearity: tuple[Departure, ...]
    prior: PriorClosure | None = None  # in runs of older versions
    spread: TrainingSpread | None = None  # also of a response of one head


def read_checks(product: Product) -> SpaceChecks | None:
    """Read the checks of a space, verified; None if they are not there yet."""
    if not product.made:
        return None
    return restore(SpaceChecks, read_json(product.verified()), str(product.path))


def read_ranking(product: Product) -> PriorClosure | None:
    """Read which nuisances matter in a space, verified; None if its checks are not there, or do not tell."""
    return _ranking(product.verified(), product.digest or "") if product.made else None


@lru_cache(maxsize=32)
def _ranking(path: Path, digest: str) -> PriorClosure | None:  # noqa: ARG001, another digest, other checks
    content = read_json(path)
    found = content.get("prior") if isinstance(content, dict) else None
    return None if found is None else restore(PriorClosure, found, str(path))


def direction_text(found: PriorClosure) -> str:
    """Say where the worst direction points: its components beyond a tenth of the largest, largest first."""
    sizes = sorted(enumerate(found.worst_direction), key=lambda pair: -abs(pair[1]))
    largest = abs(sizes[0][1])
    if not largest:
        return "there is none, as no nuisance exists beyond one sigma"
    told = ", ".join(f"{x:+.2f} {found.name(k)}" for k, x in sizes if abs(x) >= 0.1 * largest)
    if found.discrete:
        told += f"; without {', '.join(map(found.name, found.discrete))}, which end at one sigma"
    return told
