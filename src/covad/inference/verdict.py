"""Does a test close? A verdict by equivalence, with stated error rates, and the sentence that says why.

Every point (R_nu, R_0 where the null is a law, any other ensemble of background) is compared with the null in
what users of a p-value feel: the shift of the median of t and the false-positive rate at 2 and 3 sigma. A
test closes if all are shown to lie within tolerances, it does not if one is shown to lie outside. A high
p-value shows neither: it is uniform if the test closes, and high also if there are too few toys.
Goodness-of-fit tests have therefore no say.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from covad.errors import InferenceError
from covad.inference.closure import (
    SHOWN_LEVEL,
    Centre,
    FalsePositives,
    MedianShift,
    detectable_ratio,
    false_positives,
    median_shift,
    ratio_interval,
)
from covad.inference.significance import EmpiricalNull, Null
from covad.nplm.dataset import Float64

#: The largest chance of a wrong "closes", and of a wrong "does not close".
ERROR_RATE = 0.5 * (1.0 - SHOWN_LEVEL)
#: A shift of the median, in standard deviations of the null, that closure tolerates.
TOLERATED_SHIFT = 0.35
#: A false-positive rate, in units of its nominal value, that closure tolerates. There is no lower tolerance:
#: a rate that is too low claims too little, and the shift of the median bounds what that costs.
TOLERATED_RATIO = 2.0
#: A rate that is shown to be lower than this, in units of its nominal value, is called conservative.
CONSERVATIVE_RATIO = 0.5
#: The rate at this threshold has a say in every verdict.
ALWAYS_JUDGED_Z = 2.0
#: The rate at this one has a say where the toys can tell a rate that is right from one that is not tolerated.
JUDGED_Z = 3.0
#: Points with fewer toys say nothing yet.
FEWEST_TOYS = 10
#: Numbers of toys among which the one that would tell is sought: 100 to 100 000, in steps of 5 %.
_TOY_NUMBERS = np.geomspace(100, 1e5, 143).round().astype(int)


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
    obstacle: str = "",
) -> Closure:
    """Compare t of every planned point with the null, and say whether the test closes.

    Yes: at every point the shift of the median and the rate at 2 sigma, and at 3 where the toys can tell, are
    shown to lie within their tolerances by one-sided tests at ERROR_RATE. As all of them have to pass, a
    wrong yes is no more probable than that, however many they are. No: one of them is shown to lie outside,
    at ERROR_RATE divided by their number, so that a wrong no is no more probable than ERROR_RATE. The points
    must be independent of the null; where the null is a law, R_0 should be one of them.

    A point with fewer than FEWEST_TOYS toys, or an `obstacle` in words, leaves no yes. `failed` toys of a
    point, whose t nobody knows, count against yes and no. `own_nulls` are those of points whose toys are a
    part of `null`.
    """
    if not points:
        raise InferenceError("closure needs at least one ensemble to compare with the null")
    samples = {name: np.asarray(t, dtype=np.float64) for name, t in points.items()}
    told = {name: t for name, t in samples.items() if len(t) >= FEWEST_TOYS}
    nulls = {name: (own_nulls or {}).get(name, null) for name in samples}
    n_statements = sum(statements_per_point(null) for null in nulls.values())
    corrected_level = 1.0 - 2.0 * ERROR_RATE / n_statements
    found: dict[str, ClosurePoint] = {}
    statements: list[_Statement] = []
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
    few = [f"{point_text(name)} has only {len(t)} toys" for name, t in samples.items() if name not in told]
    return Closure(*_conclude(statements, [*few, *filter(None, [obstacle])]), found)


def _point(
    name: str, t: Float64, null: Null, centre: Centre, corrected_level: float, failed: int
) -> tuple[ClosurePoint, list[_Statement]]:
    """Return what is found at one point, and the statements on it."""
    shift = median_shift(t, centre, name, failed=failed)
    rates = false_positives(t, null, name, failed=failed)
    corrected = median_shift(t, centre, name, corrected_level, failed=failed)
    statements = [_Shift(name, failed, shift, corrected, len(t))]
    judged = [rate for rate in rates if rate.z_alpha in (ALWAYS_JUDGED_Z, JUDGED_Z)]
    return ClosurePoint(shift, rates), [
        *statements,
        *(_Rate(name, failed, rate, null, corrected_level) for rate in judged),
    ]


def statements_per_point(null: Null) -> int:
    """Return how many statements a point makes: its shift, and the rates that the null resolves."""
    return 1 + sum(bool(null.resolves(norm.sf(z))) for z in (ALWAYS_JUDGED_Z, JUDGED_Z))


def can_tell(rate: FalsePositives) -> bool:
    """Return whether these toys tell a rate that is right from one that is not tolerated."""
    return rate.detectable_ratio is not None and rate.detectable_ratio <= TOLERATED_RATIO


@dataclass(frozen=True)
class _Statement(ABC):
    """Something about one point that is shown to be tolerated, shown not to be, or neither."""

    point: str
    failed: int  # toys of the point that count against it
    blamed: bool = field(default=False, kw_only=True)  # without those it would be shown to be tolerated

    @property
    @abstractmethod
    def has_say(self) -> bool:
        """Return whether a yes depends on it."""

    @property
    @abstractmethod
    def within(self) -> bool:
        """Return whether it is shown to be tolerated."""

    @property
    @abstractmethod
    def outside(self) -> bool:
        """Return whether it is shown not to be tolerated, the number of statements considered."""

    @property
    @abstractmethod
    def size(self) -> float:
        """Return what was found in units of what is tolerated."""

    @property
    @abstractmethod
    def toys_to_tell(self) -> float:
        """Return how many toys per ensemble would tell; infinite if it lies too near to what is tolerated.

        While toys are too few to show it of a test that closes, as many as show it with DETECTION; then as
        many as would tell if they find the same.
        """

    @property
    @abstractmethod
    def found(self) -> str: ...

    @property
    @abstractmethod
    def feared(self) -> str: ...

    @property
    def where(self) -> str:
        return f"at {point_text(self.point)}"


@dataclass(frozen=True)
class _Shift(_Statement):
    shift: MedianShift
    corrected: MedianShift  # its interval has the level of all statements together
    n_toys: int

    @property
    def has_say(self) -> bool:
        return True

    @property
    def within(self) -> bool:
        low, high = self.shift.interval.low, self.shift.interval.high
        return low is not None and high is not None and max(-low, high) < TOLERATED_SHIFT

    @property
    def outside(self) -> bool:
        low, high = self.corrected.interval.low, self.corrected.interval.high
        return (low is not None and low > TOLERATED_SHIFT) or (high is not None and high < -TOLERATED_SHIFT)

    @property
    def size(self) -> float:
        return abs(self.shift.shift) / TOLERATED_SHIFT

    @property
    def toys_to_tell(self) -> float:
        interval = self.shift.interval if self.size < 1.0 else self.corrected.interval
        left = abs(TOLERATED_SHIFT - abs(self.shift.shift))
        if interval.low is None or interval.high is None or left == 0.0:
            return np.inf
        error = 0.5 * (interval.high - interval.low)  # it falls with the root of the number
        without_shift = self.n_toys * (2.0 * error / TOLERATED_SHIFT) ** 2
        return without_shift if without_shift > self.n_toys else self.n_toys * (error / left) ** 2

    @property
    def found(self) -> str:
        return (
            f"the median moves by {self.shift.shift:+.2f} standard deviations {self.where}, "
            f"{TOLERATED_SHIFT:g} are tolerated"
        )

    @property
    def feared(self) -> str:
        low, high = self.shift.interval.low, self.shift.interval.high
        if low is None or high is None:
            return f"toys are too few for the shift of the median {self.where}"
        return f"the median may still move by {max(low, high, key=abs):+.2f} standard deviations {self.where}"


@dataclass(frozen=True)
class _Rate(_Statement):
    rate: FalsePositives
    null: Null
    corrected_level: float

    @property
    def has_say(self) -> bool:
        return self.rate.z_alpha == ALWAYS_JUDGED_Z or can_tell(self.rate)

    @property
    def within(self) -> bool:
        high = None if self.rate.ratio_interval is None else self.rate.ratio_interval.high
        return high is not None and high < TOLERATED_RATIO

    @property
    def outside(self) -> bool:
        rates = self.null.true_rates(self.rate.alpha)
        return self._outside(self.rate.exceeding, self.rate.n_toys, rates, self.failed)

    def _outside(self, k: int, n: int, rates: Float64, failed: int = 0) -> bool:
        if len(rates) == 0:
            return False
        return (ratio_interval(k, n, rates, self.corrected_level, failed).low or 0.0) > TOLERATED_RATIO

    @property
    def conservative(self) -> bool:
        high = None if self.rate.ratio_interval is None else self.rate.ratio_interval.high
        return high is not None and high < CONSERVATIVE_RATIO

    @property
    def size(self) -> float:
        return (self.rate.ratio or 0.0) / TOLERATED_RATIO

    @property
    def toys_to_tell(self) -> float:
        if not can_tell(self.rate):
            return self.toys_that_can_tell

        def told(n: int) -> bool:
            rates = _rates(self.null_size, self.rate.alpha, n)
            k = min(round((self.rate.ratio or 0.0) * n * float(rates.mean())), n)
            high = ratio_interval(k, n, rates).high
            return (high is not None and high < TOLERATED_RATIO) or self._outside(k, n, rates)

        return _first(told)

    @property
    def null_size(self) -> float | None:
        """Return the toys of the null per toy of this point, at least one, or None for a law.

        Whoever asks for more toys per ensemble gets as many for the null.
        """
        if not isinstance(self.null, EmpiricalNull):
            return None
        return max(len(self.null.t) / self.rate.n_toys, 1.0)

    @property
    def toys_that_can_tell(self) -> float:
        return toys_that_can_tell(self.null_size, self.rate.z_alpha)

    @property
    def name(self) -> str:
        return f"the rate at {self.rate.z_alpha:g} sigma"

    @property
    def found(self) -> str:
        return (
            f"{self.name} is {self.rate.ratio or 0.0:.1f} times nominal {self.where}, "
            f"{TOLERATED_RATIO:g} times are tolerated"
        )

    @property
    def feared(self) -> str:
        interval = self.rate.ratio_interval
        if interval is None or interval.high is None:
            few = "the toys of the null" if interval is None else "toys"
            return f"{few} are too few for {self.name} {self.where}"
        return f"{self.name} may still be {interval.high:.1f} times nominal {self.where}"


def _conclude(statements: Sequence[_Statement], obstacles: Sequence[str]) -> tuple[Verdict, str]:
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
    return Verdict.CLOSES, _what_closes([rate for rate in statements if isinstance(rate, _Rate)])


def _advice(toys: float) -> str:
    if toys > _TOY_NUMBERS[-1]:
        return "this lies so near to what is tolerated that more toys may not tell"
    return f"about {rounded_up(toys)} toys per ensemble would tell"


def _what_closes(rates: Sequence[_Rate]) -> str:
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


def point_text(name: str) -> str:
    """Return how a point is called in a sentence: 'nu = +1' for R_+1; any other name is its own."""
    return f"nu = {', '.join(name.removeprefix('R_').split(','))}" if name.startswith("R_") else name


@lru_cache(maxsize=64)
def toys_that_can_tell(null_size: float | None, z_alpha: float) -> float:
    """Return the toys per ensemble from which on `can_tell` holds.

    The null has `null_size` toys for every toy of an ensemble, five where R_0 has the toys of five yields;
    None stands for a law.
    """
    alpha = float(norm.sf(z_alpha))

    def tells(n: int) -> bool:
        rates = _rates(null_size, alpha, n)
        ratio = detectable_ratio(n, rates) if len(rates) else None
        return ratio is not None and ratio <= TOLERATED_RATIO

    return _first(tells)


def _rates(null_size: float | None, alpha: float, n: int) -> Float64:
    """Return the true rates behind alpha of a null of `null_size` times n toys, or of a law."""
    if null_size is None:
        return np.array([alpha])
    return EmpiricalNull(np.arange(round(null_size * n), dtype=np.float64)).true_rates(alpha)


def _first(holds: Callable[[int], bool]) -> float:
    """Return the first number of toys from which on something holds; infinite if it never does."""
    position = bisect_left(_TOY_NUMBERS, True, key=lambda n: holds(int(n)))
    return float(_TOY_NUMBERS[position]) if position < len(_TOY_NUMBERS) else np.inf


def rounded_up(n: float) -> str:
    """Return two digits, thousands apart."""
    step = 10.0 ** (np.floor(np.log10(n)) - 1.0)
    return f"{np.ceil(n / step) * step:,.0f}".replace(",", " ")
