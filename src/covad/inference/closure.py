"""Closure: P(t | R_nu) does not depend on nu (sec:closure), and how much dependence toys could have missed.

A high p-value is no evidence of closure: it is uniform if the test closes, and high also if there are too few
toys. Three statements stand beside each other here: the tests of the paper's tables with a correction for
their number; the shift of the median in units of the null's spread, with its interval; and the rates of false
positives with their intervals and the smallest inflation that this number of toys would have shown.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.stats import binom, norm

from covad.errors import InferenceError
from covad.inference.goodness import PEARSON_DOF, GoodnessOfFit, two_sample
from covad.inference.intervals import LEVEL, Interval, finite_sample, proportion_interval, repetition_blocks
from covad.inference.significance import Null
from covad.nplm.dataset import Float64
from covad.storage.records import Record

#: At or below this, after correction for the number of tests, a p-value says that the test does not close.
CLOSURE_LEVEL = 0.01
#: A shift of the median, in standard deviations of the null, that closure tolerates.
TOLERATED_SHIFT = 0.35
#: Thresholds at which false positives are counted.
Z_ALPHA = (1.0, 2.0, 3.0)
#: An inflation is detectable if a test with this rate of false alarms sees it with this probability.
DETECTION = 0.95
FALSE_ALARM = 0.05
_BOOTSTRAPS = 2000


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
class CorrectedGoodness(GoodnessOfFit):
    """Goodness of one shifted ensemble by one method, with its p corrected for the number in its table."""

    corrected_p: float  # Holm's


#: The tests of every shifted ensemble, by its name.
ClosureTests = Mapping[str, tuple[CorrectedGoodness, ...]]


def closure_tests(
    shifted: Mapping[str, ArrayLike],
    nominal: ArrayLike,
    seed: int,
    pearson_dof: tuple[int, ...] = PEARSON_DOF,
) -> ClosureTests:
    """Test each shifted ensemble against the nominal one (tab:validation_A and its kin).

    All ensembles must have independent seeds.
    """
    if not shifted:
        raise InferenceError("a closure table needs at least one shifted ensemble")
    return corrected({name: two_sample(t, nominal, seed, pearson_dof) for name, t in shifted.items()})


def corrected(tests: Mapping[str, Sequence[GoodnessOfFit]]) -> ClosureTests:
    """Correct all p-values of a table for their number.

    Holm's correction holds however much the tests depend on each other, as five tests of one pair of samples
    do.
    """
    p = iter(holm([result.p for results in tests.values() for result in results]))
    return {
        name: tuple(CorrectedGoodness(**vars(result), corrected_p=float(next(p))) for result in results)
        for name, results in tests.items()
    }


def holm(p_values: ArrayLike) -> Float64:
    """Apply Holm's correction: the i-th smallest of m times m + 1 - i, made monotonic, at most 1."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected


@dataclass(frozen=True)
class MedianShift(Record):
    """(median of the shifted ensemble - median of the nominal one) / spread of the nominal one."""

    shift: float
    spread: float  # in units of t
    interval_68: Interval
    interval_95: Interval

    def within(self, bound: float) -> bool:
        """Return whether the 95 % interval lies inside +-bound."""
        low, high = self.interval_95.low, self.interval_95.high
        return low is not None and high is not None and -bound <= low and high <= bound

    def beyond(self, bound: float) -> bool:
        """Return whether the 95 % interval lies outside +-bound."""
        low, high = self.interval_95.low, self.interval_95.high
        return (low is not None and low > bound) or (high is not None and high < -bound)


def judge(table: ClosureTests, shifts: Iterable[MedianShift]) -> Verdict:
    """Return the verdict of the tests against R_0 and of the shifts of the median.

    No: a corrected p is at or below CLOSURE_LEVEL, which is the largest chance of a false alarm, or a median
    is known to have moved by more than is tolerated. Yes: all medians are known to have moved by less.
    """
    moved = list(shifts)
    objects = any(test.corrected_p <= CLOSURE_LEVEL for tests in table.values() for test in tests)
    if objects or any(shift.beyond(TOLERATED_SHIFT) for shift in moved):
        return Verdict.DOES_NOT_CLOSE
    within = all(shift.within(TOLERATED_SHIFT) for shift in moved)
    return Verdict.CLOSES if within else Verdict.CANNOT_TELL


def median_shift(shifted: ArrayLike, nominal: ArrayLike, seed: int) -> MedianShift:
    """Return the shift of the median with percentile-bootstrap intervals over both ensembles.

    The spread is the standard deviation of the nominal ensemble.
    """
    t, null = (finite_sample(x, what, 10) for x, what in ((shifted, "R_nu"), (nominal, "R_0")))
    spread = float(null.std(ddof=1))
    if spread == 0.0:
        raise InferenceError("all toys of R_0 have the same t: there is no spread to measure a shift by")
    rng, parts = np.random.default_rng(seed), []
    for rows in repetition_blocks(_BOOTSTRAPS, max(len(t), len(null))):
        again, null_again = (x[rng.integers(len(x), size=(rows, len(x)))] for x in (t, null))
        difference = np.median(again, axis=1) - np.median(null_again, axis=1)
        parts.append(difference / null_again.std(axis=1, ddof=1))
    repeated = np.concatenate(parts)

    def central(level: float) -> Interval:
        low, high = np.quantile(repeated, [0.5 * (1.0 - level), 0.5 * (1.0 + level)])
        return Interval(float(low), float(high))

    return MedianShift(
        shift=float(np.median(t) - np.median(null)) / spread,
        spread=spread,
        interval_68=central(0.68),
        interval_95=central(0.95),
    )


@dataclass(frozen=True)
class FalsePositives(Record):
    """How often a background-only ensemble reaches Z_alpha, and what inflation its toys could have shown.

    Where the null does not resolve alpha, nothing was measured: the rate and what follows from it are None.
    """

    null: str
    z_alpha: float
    alpha: float
    n_toys: int
    exceeding: int
    rate: float | None
    interval: Interval | None  # Clopper-Pearson
    excess_p: float | None  # chance of so many or more if the test closes, the finite null included
    detectable_ratio: float | None  # smallest true rate / alpha that is seen with DETECTION at FALSE_ALARM


def false_positives(
    t: ArrayLike, null: Null, ensemble: str, z_alpha: tuple[float, ...] = Z_ALPHA, level: float = LEVEL
) -> tuple[FalsePositives, ...]:
    """Count p <= alpha in a background-only ensemble that is independent of the null, at each threshold."""
    sample = finite_sample(t, f"the ensemble {ensemble}")
    n, found = len(sample), []
    for threshold in z_alpha:
        alpha = float(norm.sf(threshold))
        k = int(np.count_nonzero(null.rejects(sample, alpha)))
        rates = null.true_rates(alpha)
        known = len(rates) > 0
        found.append(
            FalsePositives(
                null=null.name,
                z_alpha=float(threshold),
                alpha=alpha,
                n_toys=n,
                exceeding=k,
                rate=k / n if known else None,
                interval=proportion_interval(k, n, level) if known else None,
                excess_p=_probability_of(k, n, rates) if known else None,
                detectable_ratio=detectable_ratio(n, rates) if known else None,
            )
        )
    return tuple(found)


def detectable_ratio(n_toys: int, rates: Float64) -> float | None:
    """Return the smallest inflation r of the true rate that n toys show with probability DETECTION, if any.

    It is shown if the count reaches k_c, the smallest with P(K >= k_c | r = 1) <= FALSE_ALARM. `rates` are
    equally probable values of the true rate without inflation: one for a formula, those of `Null.true_rates`
    for toys.
    """
    counts = range(n_toys + 2)  # n + 1 is never reached
    critical = bisect_left(counts, True, key=lambda k: _probability_of(k, n_toys, rates) <= FALSE_ALARM)

    def lacking(log_ratio: float) -> float:
        return _probability_of(critical, n_toys, np.exp(log_ratio) * rates) - DETECTION

    most = float(-np.log(rates.min()))
    if critical > n_toys or lacking(most) < 0.0:
        return None
    return float(np.exp(brentq(lacking, 0.0, most, xtol=1e-6)))


def _probability_of(k: int, n: int, rates: Float64) -> float:
    """Return P(K >= k) in n toys, averaged over the possible true rates."""
    return float(np.mean(binom.sf(k - 1, n, np.minimum(rates, 1.0))))
