"""Statements on the points of closure: each is shown to be tolerated, shown not to be, or neither."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from scipy.stats import norm

from covad.inference.closure import (
    DETECTION,
    SHOWN_LEVEL,
    FalsePositives,
    MedianShift,
    detectable_ratio,
    ratio_interval,
)
from covad.inference.coverage import Dependence, PriorDependence
from covad.inference.significance import EmpiricalNull, Null
from covad.nplm.dataset import Float64
from covad.toys.truths import point_text

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
#: A dependence of t on the truth that chance makes this rarely is told, also where it is tolerated.
NOTABLE_P = 0.01
#: Numbers of toys among which the one that would tell is sought: 100 to 100 000, in steps of 5 %.
_TOY_NUMBERS = np.geomspace(100, 1e5, 143).round().astype(int)
LARGEST_ADVICE = float(_TOY_NUMBERS[-1])


def can_tell(rate: FalsePositives) -> bool:
    """Return whether these toys tell a rate that is right from one that is not tolerated."""
    return rate.detectable_ratio is not None and rate.detectable_ratio <= TOLERATED_RATIO


@dataclass(frozen=True)
class Statement(ABC):
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
class ShiftOfMedian(Statement):
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
class Rate(Statement):
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


@dataclass(frozen=True)
class SlopeOverPrior(Statement):
    """How t changes with the truth of the prior ensemble, per unit of each term of its regression."""

    dependence: PriorDependence
    corrected_level: float

    @property
    def has_say(self) -> bool:
        """Return whether these toys show with DETECTION that t depends on no term, if it does not."""
        terms = self.dependence.terms
        if not terms:
            return False
        needed = norm.isf(ERROR_RATE) + norm.isf(0.5 * (1.0 - DETECTION) / len(terms))
        return bool(needed * max(term.error for term in terms) <= TOLERATED_SHIFT)

    @property
    def within(self) -> bool:
        z = float(norm.isf(ERROR_RATE))
        return all(abs(term.slope) + z * term.error < TOLERATED_SHIFT for term in self.dependence.terms)

    @property
    def outside(self) -> bool:
        """Return whether one is too large, the number of terms considered too."""
        terms = self.dependence.terms
        z = float(norm.isf(0.5 * (1.0 - self.corrected_level) / max(len(terms), 1)))
        return any(abs(term.slope) - z * term.error > TOLERATED_SHIFT for term in terms)

    @property
    def worst(self) -> Dependence:
        """Return the term whose slope may be largest."""
        z = float(norm.isf(ERROR_RATE))
        return max(self.dependence.terms, key=lambda term: abs(term.slope) + z * term.error)

    @property
    def size(self) -> float:
        return abs(self.worst.slope) / TOLERATED_SHIFT

    @property
    def toys_to_tell(self) -> float:
        left = abs(TOLERATED_SHIFT - abs(self.worst.slope))
        if left == 0.0:
            return np.inf
        return self.dependence.n_toys * (float(norm.isf(ERROR_RATE)) * self.worst.error / left) ** 2

    @property
    def found(self) -> str:
        return (
            f"over the prior t moves by {self.worst.slope:+.2f} standard deviations per unit of "
            f"{self.worst.term}, {TOLERATED_SHIFT:g} are tolerated"
        )

    @property
    def feared(self) -> str:
        high = abs(self.worst.slope) + float(norm.isf(ERROR_RATE)) * self.worst.error
        return (
            f"over the prior t may still move by {high:.2f} standard deviations per unit of {self.worst.term}"
        )

    @property
    def told(self) -> str:
        """Say what t depends on although that is tolerated, or what the toys cannot tell; else nothing."""
        found = self.dependence
        if not self.has_say:
            return "toys of the prior are too few to tell whether t depends on one of the nuisances"
        if found.p < NOTABLE_P and found.strongest is not None:
            strongest = found.strongest
            return (
                f"over the prior t depends on {strongest.term} by {strongest.slope:+.2f} standard deviations "
                f"per unit, which is tolerated (p = {found.p:.1g} of no dependence)"
            )
        return ""


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
