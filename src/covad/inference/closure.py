"""What closure is measured by: P(t | R_nu) does not depend on nu (sec:closure).

Three measures stand beside each other: the shift of the median of t in standard deviations of the null, with
its interval; the rates of false positives as ratios to what they should be, with their intervals and the
smallest inflation that this number of toys would have shown; and the goodness-of-fit tests of the paper's
tables, with a correction for their number. `verdict.py` concludes from the first two.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import betainc
from scipy.stats import norm

from covad.errors import InferenceError
from covad.inference.goodness import PEARSON_DOF, GoodnessOfFit, two_sample
from covad.inference.intervals import LEVEL, Interval, finite_sample, median_rank, proportion_interval
from covad.inference.significance import EmpiricalNull, Null
from covad.nplm.dataset import Float64
from covad.storage.records import Record

#: Confidence level of the intervals of shifts and of ratios: 5 % on either side, for one-sided statements.
SHOWN_LEVEL = 0.90
#: Thresholds at which false positives are counted.
Z_ALPHA = (1.0, 2.0, 3.0)
#: An inflation is detectable if a test with this rate of false alarms sees it with this probability.
DETECTION = 0.95
FALSE_ALARM = 0.05
#: The standard deviation of a law is integrated so far from its median, in units of its 68 % interval.
_REACH = 10.0
_NODES = 64


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
    """(median of an ensemble - median of the null) / standard deviation of the null."""

    shift: float
    spread: float  # that standard deviation, in units of t
    interval: Interval  # at SHOWN_LEVEL


@dataclass(frozen=True)
class Centre:
    """Where a null lies: its median, with the toys that it was found from, and its standard deviation."""

    median: float
    spread: float
    toys: Float64 | None  # None for a law, which is known exactly

    @classmethod
    def of(cls, null: Null, about: ArrayLike = (0.0, 1.0)) -> Centre:
        """Find the centre of a null; that of a law is sought from some values of t on."""
        if not isinstance(null, EmpiricalNull):
            return cls(*_moments(null, float(np.min(about)), float(np.max(about))), None)
        t = finite_sample(null.t, f"the null {null.name}", 10)
        spread = float(t.std(ddof=1))
        if spread == 0.0:
            raise InferenceError(
                f"all toys of {null.name} have the same t: there is no spread to measure a shift by"
            )
        return cls(float(np.median(t)), spread, t)


def median_shift(
    t: ArrayLike, centre: Centre, name: str, level: float = SHOWN_LEVEL, failed: int = 0
) -> MedianShift:
    """Return the shift of the median with its interval, free of any assumption on the shapes.

    Each median has an interval between order statistics; their distances to the medians are added in
    quadrature. A law has no interval, and that of the shift is then exact. The error of the standard
    deviation of the null is left out: at the tolerated shift it is 1 % of the whole. `failed` toys have a t
    that nobody knows: the interval holds wherever theirs lies.
    """
    sample = finite_sample(t, f"the ensemble {name}", 10)
    middle = float(np.median(sample))
    down, up = median_distances(sample, level, failed)
    if centre.toys is not None:
        null_down, null_up = median_distances(centre.toys, level)
        down, up = np.hypot(down, null_up), np.hypot(up, null_down)
    shift = middle - centre.median
    ends = ((shift - down) / centre.spread, (shift + up) / centre.spread)
    return MedianShift(shift / centre.spread, centre.spread, Interval.of(*ends))


def median_distances(sample: Float64, level: float, unknown: int = 0) -> tuple[float, float]:
    """Return how far below and above the median its interval ends; infinite where toys are too few.

    Any number of `unknown` values besides lie below all others for the lower end, and above for the upper.
    """
    rank = median_rank(len(sample) + unknown, level) - unknown
    if rank <= 0:
        return np.inf, np.inf
    ordered = np.sort(sample)
    middle = float(np.median(ordered))
    return middle - float(ordered[rank - 1]), float(ordered[-rank]) - middle


def _moments(null: Null, low: float, high: float) -> tuple[float, float]:
    """Return median and standard deviation of a law, from its survival function alone.

    With Q the tail on either side of the median m, E|t - m| and E(t - m)^2 are the integrals of Q and of
    2 |t - m| Q.
    """

    def quantile(p: float) -> float:
        return float(brentq(lambda t: float(null.p(t)) - p, low, high, xtol=1e-10))

    step = max(high - low, 1e-3 * max(abs(low), abs(high), 1.0))
    while float(null.p(high)) > 0.1:
        high, step = high + step, 2.0 * step
    while float(null.p(low)) < 0.9:
        low, step = low - step, 2.0 * step
    median, one_sigma = quantile(0.5), [quantile(float(norm.sf(z))) for z in (-1.0, 1.0)]
    reach = _REACH * max(abs(t - median) for t in one_sigma)
    nodes, weights = leggauss(_NODES)
    distance, weights = 0.5 * reach * (nodes + 1.0), 0.5 * reach * weights
    above = np.array([float(null.p(median + x)) for x in distance])
    below = np.array([1.0 - float(null.p(median - x)) for x in distance])
    mean, square = weights @ (above - below), 2.0 * (weights * distance) @ (above + below)
    return median, float(np.sqrt(square - mean**2))


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
    ratio: float | None  # rate / what the null has above the same threshold, which is alpha for a law
    ratio_interval: Interval | None  # at SHOWN_LEVEL, the finite null included


def false_positives(
    t: ArrayLike,
    null: Null,
    ensemble: str,
    z_alpha: tuple[float, ...] = Z_ALPHA,
    level: float = LEVEL,
    failed: int = 0,
) -> tuple[FalsePositives, ...]:
    """Count p <= alpha in a background-only ensemble that is independent of the null, at each threshold.

    `failed` toys have a p that nobody knows: for the upper end of the ratio they all exceed, for the lower
    end none does.
    """
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
                ratio=k / n / float(rates.mean()) if known else None,
                ratio_interval=ratio_interval(k, n, rates, failed=failed) if known else None,
            )
        )
    return tuple(found)


def ratio_interval(k: int, n: int, rates: Float64, level: float = SHOWN_LEVEL, failed: int = 0) -> Interval:
    """Return the interval of the inflation r of a true rate, of which k toys of n were seen.

    Its ends solve P(K >= k | low) = P(K <= k | high) = (1 - level)/2, as those of Clopper and Pearson do,
    averaged over the equally probable `rates` that the null has without inflation. Further toys, which
    failed, count against either end.
    """
    n, most_seen = n + failed, k + failed
    tail, most = 0.5 * (1.0 - level), float(-np.log(rates.min()))

    def end(chance: Callable[[float], float]) -> float:
        return float(np.exp(brentq(lambda log_ratio: chance(np.exp(log_ratio)) - tail, -50.0, most)))

    low = 0.0 if k == 0 else end(lambda ratio: _probability_of(k, n, ratio * rates))
    high = (
        None if most_seen == n else end(lambda ratio: 1.0 - _probability_of(most_seen + 1, n, ratio * rates))
    )
    return Interval(low, high)


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
    if k <= 0 or k > n:
        return float(k <= 0)
    return float(betainc(k, n - k + 1, np.minimum(rates, 1.0)).mean())
