"""Intervals of counts and of quantiles, and the check that every sample of t passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta, binom

from covad.errors import InferenceError
from covad.nplm.dataset import Float64
from covad.storage.records import Record

#: Numbers that repetitions hold in memory at once.
_BLOCK = 1 << 20
#: The confidence level of the paper's tables: 16 % on either side.
LEVEL = 0.68


@dataclass(frozen=True)
class Interval(Record):
    """A confidence interval; None is an end that the sample does not bound."""

    low: float | None
    high: float | None

    @classmethod
    def of(cls, low: float, high: float) -> Interval:
        """Make an interval of two numbers; an infinite one means that there is no bound."""
        return cls(*(float(end) if np.isfinite(end) else None for end in (low, high)))

    def __contains__(self, value: float) -> bool:
        return (self.low is None or self.low <= value) and (self.high is None or value <= self.high)


def finite_sample(t: ArrayLike, what: str, at_least: int = 1) -> Float64:
    """Return the sample as float64; raise if it holds anything but finite numbers or is too small."""
    sample = np.asarray(t, dtype=np.float64)
    if sample.ndim != 1:
        raise InferenceError(f"{what} must be one list of t, not an array of shape {sample.shape}")
    if len(sample) < at_least:
        raise InferenceError(f"{what} has {len(sample)} toys: at least {at_least} are needed")
    bad = int(np.count_nonzero(~np.isfinite(sample)))
    if bad:
        raise InferenceError(
            f"{what} has {bad} values of t that are not finite: failed toys are counted, not used"
        )
    return sample


def check_level(level: float) -> None:
    if not 0.0 < level < 1.0:
        raise InferenceError(f"a confidence level lies between 0 and 1, not at {level}")


def clopper_pearson(k: ArrayLike, n: int, level: float = LEVEL) -> tuple[Float64, Float64]:
    """Return the exact central interval of a probability of which k successes in n trials were seen.

    Its ends solve P(K >= k | low) = P(K <= k | high) = (1 - level)/2; they are 0 at k = 0 and 1 at k = n.
    """
    check_level(level)
    count = np.asarray(k)
    if n < 1 or (count < 0).any() or (count > n).any():
        raise InferenceError(f"a count between 0 and the {n} trials is needed for its interval")
    tail = 0.5 * (1.0 - level)
    low = np.where(count > 0, beta.ppf(tail, np.maximum(count, 1), n - count + 1), 0.0)
    high = np.where(count < n, beta.isf(tail, count + 1, np.maximum(n - count, 1)), 1.0)
    return low, high


def proportion_interval(k: int, n: int, level: float = LEVEL) -> Interval:
    """Return `clopper_pearson` of one count."""
    low, high = clopper_pearson(k, n, level)
    return Interval(float(low), float(high))


def median_interval(sample: Float64, level: float = LEVEL) -> Interval:
    """Return the interval of the median between two order statistics, free of any assumption on the shape.

    The number of values below the true median is binomial (n, 1/2), so that [x_(r), x_(n+1-r)] covers it with
    probability 1 - 2 P(B <= r - 1); r is the largest rank that keeps this at or above the level.
    """
    n, rank = len(sample), median_rank(len(sample), level)
    if rank == 0:
        raise InferenceError(f"{n} toys are too few for a {100 * level:g} % interval of their median")
    ordered = np.sort(sample)
    return Interval(float(ordered[rank - 1]), float(ordered[n - rank]))


def median_rank(n: int, level: float) -> int:
    """Return the r of `median_interval` for n values, 0 where they are too few for the level."""
    check_level(level)
    ranks: NDArray[Any] = np.arange(1, n // 2 + 1)
    return int(np.count_nonzero(binom.cdf(ranks - 1, n, 0.5) <= 0.5 * (1.0 - level)))


def repetition_blocks(repetitions: int, width: int) -> Iterator[int]:
    """Divide repetitions into blocks of rows such that a block of rows of this width stays small."""
    most = max(_BLOCK // width, 1)
    for start in range(0, repetitions, most):
        yield min(most, repetitions - start)
