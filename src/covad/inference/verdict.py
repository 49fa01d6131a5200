"""Does a test close? A verdict by equivalence, with stated error rates, and the sentence that says why.

Every point (R_nu, R_0 where the null is a law, any other ensemble of background) is compared with the null in
what users of a p-value feel: the shift of the median of t and the false-positive rate at 2 and 3 sigma. A
test closes if all are shown to lie within tolerances, it does not if one is shown to lie outside. A high
p-value shows neither: it is uniform if the test closes, and high also if there are too few toys.
Goodness-of-fit tests have therefore no say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from covad.errors import InferenceError
from covad.inference.closure import Centre, FalsePositives, MedianShift, false_positives, median_shift
from covad.inference.coverage import PriorDependence
from covad.inference.significance import Null
from covad.inference.statements import (
    ALWAYS_JUDGED_Z,
    ERROR_RATE,
    JUDGED_Z,
    LARGEST_ADVICE,
    TOLERATED_RATIO,
    TOLERATED_SHIFT,
    Rate,
    ShiftOfMedian,
    SlopeOverPrior,
    Statement,
    rounded_up,
)
from covad.nplm.dataset import Float64
from covad.toys.truths import point_text

#: Points with fewer toys say nothing yet.
FEWEST_TOYS = 10


class Verdict(StrEnum):
    """Does a test close? Yes and no both need evidence."""

    CLOSES = "closes"
    DOES_NOT_CLOSE = "does not close"
    CANNOT_TELL = "cannot tell yet"

    @property
    def good(self) -> bool | None:
        """Return True for yes, False for no, None where the toys are too few to tell."""
        return {Verdict.CLOSES: True, Verdict.DOES_NOT_CLOSE: False}.get(self)

    @classmethod
    def overall(cls, verdicts: Iterable[Verdict]) -> Verdict:
        """Return one verdict for several: a failure decides, then what cannot be told."""
        found = set(verdicts)
        worst_first = (cls.DOES_NOT_CLOSE, cls.CANNOT_TELL)
        return next((verdict for verdict in worst_first if verdict in found), cls.CLOSES)


@dataclass(frozen=True)
class ClosurePoint:
    """One ensemble of background against the null; false positives are counted at 1, 2 and 3 sigma."""

    median_shift: MedianShift
    false_positives: tuple[FalsePositives, ...]


@dataclass(frozen=True)
class Closure:
    """The verdict over all points, why, and what was found at each that has toys, by its name."""

    verdict: Verdict
    reason: str  # which part decided, or what is lacking
    points: Mapping[str, ClosurePoint]


def judge(
    points: Mapping[str, ArrayLike],
    null: Null,
    *,
    failed: Mapping[str, int] | None = None,
    own_nulls: Mapping[str, Null] | None = None,
    dependence: PriorDependence | None = None,
    obstacle: str = "",
) -> Closure:
    """Compare t of every planned point with the null, and say whether the test closes.

    Yes: at every point the shift of the median and the rate at 2 sigma, and at 3 where the toys can tell, are
    shown to lie within their tolerances by one-sided tests at ERROR_RATE. As all of them have to pass, a
    wrong yes is no more probable than that, however many they are. No: one of them is shown to lie outside,
    at ERROR_RATE divided by their number, so that a wrong no is no more probable than ERROR_RATE. The points
    must be independent of the null; where the null is a law, R_0 should be one of them.

    `dependence` is the regression of t on the truth of the prior ensemble. Each of its slopes has the
    tolerance of a shift, per unit of its term, which is one sigma of a nuisance to first order. All slopes
    are one statement, which has a say in a yes where the toys can tell.

    A point with fewer than FEWEST_TOYS toys, or an `obstacle` in words, leaves no yes. `failed` toys of a
    point, whose t nobody knows, count against yes and no. `own_nulls` are those of points whose toys are a
    part of `null`.
    """
    if not points:
        raise InferenceError("closure needs at least one ensemble to compare with the null")
    samples = {name: np.asarray(t, dtype=np.float64) for name, t in points.items()}
    told = {name: t for name, t in samples.items() if len(t) >= FEWEST_TOYS}
    nulls = {name: (own_nulls or {}).get(name, null) for name in samples}
    n_statements = sum(statements_per_point(null) for null in nulls.values()) + (dependence is not None)
    corrected_level = 1.0 - 2.0 * ERROR_RATE / n_statements
    found: dict[str, ClosurePoint] = {}
    statements: list[Statement] = []
    about = np.concatenate([*told.values(), np.zeros(0 if told else 2)])
    centres = {id(each): Centre.of(each, about) for each in nulls.values()}
    for name, t in told.items():
        its_null, lost = nulls[name], (failed or {}).get(name, 0)
        centre = centres[id(its_null)]
        found[name], made = _point(name, t, its_null, centre, corrected_level, lost)
        if lost:
            _, without = _point(name, t, its_null, centre, corrected_level, 0)
            blamed = [other.within and not each.within for each, other in zip(made, without, strict=True)]
            made = [replace(each, blamed=b) for each, b in zip(made, blamed, strict=True)]
        statements += made
    if dependence is not None and dependence.terms:
        statements.append(SlopeOverPrior("prior", 0, dependence, corrected_level))
    few = [f"{point_text(name)} has only {len(t)} toys" for name, t in samples.items() if name not in told]
    return Closure(*_conclude(statements, [*few, *filter(None, [obstacle])]), found)


def _point(
    name: str, t: Float64, null: Null, centre: Centre, corrected_level: float, failed: int
) -> tuple[ClosurePoint, list[Statement]]:
    """Return what is found at one point, and the statements on it."""
    shift = median_shift(t, centre, name, failed=failed)
    rates = false_positives(t, null, name, failed=failed)
    corrected = median_shift(t, centre, name, corrected_level, failed=failed)
    statements = [ShiftOfMedian(name, failed, shift, corrected, len(t))]
    judged = [rate for rate in rates if rate.z_alpha in (ALWAYS_JUDGED_Z, JUDGED_Z)]
    return ClosurePoint(shift, rates), [
        *statements,
        *(Rate(name, failed, rate, null, corrected_level) for rate in judged),
    ]


def statements_per_point(null: Null) -> int:
    """Return how many statements a point makes: its shift, and the rates that the null resolves."""
    return 1 + sum(bool(null.resolves(norm.sf(z))) for z in (ALWAYS_JUDGED_Z, JUDGED_Z))


def _conclude(statements: Sequence[Statement], obstacles: Sequence[str]) -> tuple[Verdict, str]:
    """Return the verdict with its reason: the largest departure, what is not there yet, or what takes the
    most toys.
    """
    outside = [statement for statement in statements if statement.outside]
    if outside:
        return Verdict.DOES_NOT_CLOSE, max(outside, key=lambda statement: statement.size).found
    if obstacles:
        more = f", and {len(obstacles) - 1} more" if len(obstacles) > 1 else ""
        return Verdict.CANNOT_TELL, obstacles[0] + more
    lacking = [statement for statement in statements if statement.has_say and not statement.within]
    if lacking:
        worst = max(lacking, key=lambda statement: (statement.blamed, statement.toys_to_tell, statement.size))
        if worst.blamed:
            told = f"{worst.failed} failed toys count against it, find out why they failed"
            return Verdict.CANNOT_TELL, f"{worst.feared}; {told}"
        return Verdict.CANNOT_TELL, f"{worst.feared}; {_advice(worst.toys_to_tell)}"
    told = _what_closes([rate for rate in statements if isinstance(rate, Rate)])
    slopes = [slope.told for slope in statements if isinstance(slope, SlopeOverPrior)]
    return Verdict.CLOSES, "; ".join([told, *filter(None, slopes)])


def _advice(toys: float) -> str:
    if toys > LARGEST_ADVICE:
        return "this lies so near to what is tolerated that more toys may not tell"
    return f"about {rounded_up(toys)} toys per ensemble would tell"


def _what_closes(rates: Sequence[Rate]) -> str:
    """Say what was shown, what these toys cannot tell, and where the test is conservative."""
    shown = [rate for rate in rates if rate.has_say]
    thresholds = " and ".join(dict.fromkeys(f"{rate.rate.z_alpha:g}" for rate in shown))
    told = (
        f"every median moves by less than {TOLERATED_SHIFT:g} standard deviations, every rate at "
        f"{thresholds} sigma is below {TOLERATED_RATIO:g} times nominal"
    )
    for rate in [rate for rate in rates if not rate.has_say][:1]:
        toys = rounded_up(rate.toys_that_can_tell)
        told += (
            f"; it closes to {thresholds} sigma only, {rate.rate.z_alpha:g} sigma would take about "
            f"{toys} toys per ensemble"
        )
    low = [rate for rate in shown if rate.conservative]
    if low:
        worst = min(low, key=lambda rate: rate.size)
        told += f"; conservative: {worst.name} is {worst.rate.ratio or 0.0:.1f} times nominal {worst.where}"
    return told
