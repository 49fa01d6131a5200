"""Goodness of fit of samples of t: against a law known exactly, and of one sample against another.

The four families of the paper's tables, each a function of the sample that is distribution-free under its
null: Kolmogorov-Smirnov, Anderson-Darling, Cramer-von Mises and Pearson's chi2 in equiprobable bins (d
degrees of freedom are d + 1 bins). One-sample tests see the law only through u = F(t), which is uniform when
it is right.

Anderson-Darling has no p-value in closed form for finite samples: it is (1 + exceeding)/(1 + B) over B seeded
repetitions, uniform samples for one sample, permuted labels for two. Its smallest value is the resolution
1/(1 + B).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from covad.errors import InferenceError
from covad.inference.intervals import finite_sample, repetition_blocks
from covad.nplm.dataset import Float64
from covad.storage.records import Record

#: Degrees of freedom of Pearson's chi2 in the paper's tables, and in its table of the quadratic response.
PEARSON_DOF = (10, 25)
PEARSON_DOF_QUADRATIC = (10, 14, 17, 20, 25)
#: Repetitions of the Anderson-Darling tests: p >= 1e-4, as in the paper's tables.
REPETITIONS = 9_999
#: Expected events per bin, below which the chi2 law of Pearson's sum cannot be trusted.
FEWEST_PER_BIN = 2.0
#: Smaller p-values of Cramer-von Mises are lost in one minus the truncated cumulative series.
_CVM_RESOLUTION = 1e-6
_SMALLEST_P = 1e-300


class Law(Protocol):
    """A continuous law of t: a frozen scipy distribution, or the generalised chi2 of the convex test."""

    def cdf(self, x: Any) -> Any: ...

    def sf(self, x: Any) -> Any: ...


@dataclass(frozen=True)
class GoodnessOfFit(Record):
    """The p-value of one method (KS, AD, CvM, Pearson's chi2); a bound where it reaches its resolution."""

    method: str
    statistic: float
    p: float
    resolution: float

    @property
    def saturated(self) -> bool:
        return self.p <= self.resolution

    @property
    def text(self) -> str:
        return f"<= {self.resolution:.0e}" if self.saturated else f"{self.p:.4g}"


def chi2_law(dof: float) -> Law:
    """Return the asymptotic law of t."""
    law: Law = stats.chi2(dof)
    return law


def one_sample(
    t: ArrayLike, law: Law, seed: int, pearson_dof: tuple[int, ...] = PEARSON_DOF
) -> tuple[GoodnessOfFit, ...]:
    """Return all one-sample tests of t against a law."""
    sample = finite_sample(t, "the sample", at_least=2)
    return (
        kolmogorov_smirnov(sample, law),
        anderson_darling(sample, law, seed),
        cramer_von_mises(sample, law),
        *(pearson(sample, law, dof) for dof in pearson_dof),
    )


def two_sample(
    t: ArrayLike, other: ArrayLike, seed: int, pearson_dof: tuple[int, ...] = PEARSON_DOF
) -> tuple[GoodnessOfFit, ...]:
    """Return all two-sample tests. The samples must be independent: shared seeds make every p too large."""
    first = finite_sample(t, "the first sample", at_least=2)
    second = finite_sample(other, "the second sample", at_least=2)
    return (
        kolmogorov_smirnov_two(first, second),
        anderson_darling_two(first, second, seed),
        cramer_von_mises_two(first, second),
        *(pearson_two(first, second, dof) for dof in pearson_dof),
    )


def kolmogorov_smirnov(t: Float64, law: Law) -> GoodnessOfFit:
    """Test the largest distance of the empirical and the true cumulative function; p is exact."""
    result = stats.kstest(law.cdf(t), "uniform")
    return _result("KS", result.statistic, result.pvalue, _SMALLEST_P)


def anderson_darling(t: Float64, law: Law, seed: int, repetitions: int = REPETITIONS) -> GoodnessOfFit:
    """Test A2 = -n - 1/n sum_i (2i - 1) [log u_(i) + log(1 - u_(n+1-i))], with weight on the tails."""
    ordered = np.sort(t)
    observed = _anderson_darling(law.cdf(ordered), law.sf(ordered)[::-1])
    repeated = _repeated_anderson_darling(len(t), repetitions, seed)
    return _monte_carlo("AD", float(observed), int(np.count_nonzero(repeated >= observed)), repetitions)


def cramer_von_mises(t: Float64, law: Law) -> GoodnessOfFit:
    """Test the integrated squared distance of the cumulative functions."""
    result = stats.cramervonmises(law.cdf(t), "uniform")
    return _result("CvM", result.statistic, result.pvalue, _CVM_RESOLUTION)


def pearson(t: Float64, law: Law, dof: int) -> GoodnessOfFit:
    """Test Pearson's chi2 in dof + 1 bins that are equally probable under the law."""
    _check_bins(len(t), dof)
    bins = np.minimum((law.cdf(t) * (dof + 1)).astype(int), dof)
    expected = len(t) / (dof + 1)
    statistic = float(np.square(np.bincount(bins, minlength=dof + 1) - expected).sum() / expected)
    return _result(_pearson_name(dof), statistic, stats.chi2.sf(statistic, dof), _SMALLEST_P)


def kolmogorov_smirnov_two(t: Float64, other: Float64) -> GoodnessOfFit:
    """Test the largest distance of two empirical cumulative functions; p is exact up to 10 000 toys."""
    result = stats.ks_2samp(t, other)
    return _result("KS", result.statistic, result.pvalue, _SMALLEST_P)


def anderson_darling_two(
    t: Float64, other: Float64, seed: int, repetitions: int = REPETITIONS
) -> GoodnessOfFit:
    """Test the two-sample statistic, with permuted labels.

    A2 = 1/(n m) sum_j f_j (N M_j - n B_j)^2 / (B_j (N - B_j)) over the distinct values of the pooled sample
    but the largest: f_j of them are equal, B_j of the N = n + m and M_j of the first n are not above them.
    """
    values, counts = np.unique(np.concatenate([t, other]), return_counts=True)
    n, below = len(t), tuple(np.cumsum(counts).tolist())
    not_above = np.searchsorted(np.sort(t), values[:-1], side="right").astype(np.float64)
    observed = float(_anderson_darling_two(not_above, n, below))
    repeated = _permuted_anderson_darling(n, below, repetitions, seed)
    exceeding = int(np.count_nonzero(repeated >= observed * (1.0 - 1e-12)))
    return _monte_carlo("AD", observed / (n * len(other)), exceeding, repetitions)


def cramer_von_mises_two(t: Float64, other: Float64) -> GoodnessOfFit:
    """Test the integrated squared distance of two empirical cumulative functions."""
    result = stats.cramervonmises_2samp(t, other)
    return _result("CvM", result.statistic, result.pvalue, _CVM_RESOLUTION)


def pearson_two(t: Float64, other: Float64, dof: int) -> GoodnessOfFit:
    """Test Pearson's chi2 of homogeneity in dof + 1 bins that hold equal numbers of the pooled sample."""
    _check_bins(min(len(t), len(other)), dof)
    pooled = np.concatenate([t, other])
    edges = np.quantile(pooled, np.arange(1, dof + 1) / (dof + 1), method="inverted_cdf")
    table = np.array([np.bincount(np.searchsorted(edges, x), minlength=dof + 1) for x in (t, other)])
    if (table.sum(axis=0) == 0).any():
        raise InferenceError(f"the values of t are tied too often for {dof + 1} bins of equal content")
    result = stats.chi2_contingency(table, correction=False)
    return _result(_pearson_name(dof), float(result.statistic), float(result.pvalue), _SMALLEST_P)


def _anderson_darling(cdf: Float64, reversed_sf: Float64) -> Any:
    """Return A2 along the last axis, where u is ascending and 1 - u is given in the opposite order."""
    n = cdf.shape[-1]
    odd = 2.0 * np.arange(1, n + 1) - 1.0
    tiny = np.finfo(np.float64).tiny
    return -n - (np.log(np.maximum(cdf, tiny)) + np.log(np.maximum(reversed_sf, tiny))) @ odd / n


@lru_cache(maxsize=8)
def _repeated_anderson_darling(n: int, repetitions: int, seed: int) -> Float64:
    """Return A2 of uniform samples, the same for every ensemble of n toys."""
    rng, parts = np.random.default_rng(seed), []
    for rows in repetition_blocks(repetitions, n):
        arrivals = np.cumsum(rng.standard_exponential((rows, n + 1)), axis=1)
        u = arrivals[:, :-1] / arrivals[:, -1:]  # sorted, from exponential spacings
        parts.append(_anderson_darling(u, 1.0 - u[:, ::-1]))
    return np.concatenate(parts)


def _anderson_darling_two(not_above: Float64, n: int, below: tuple[int, ...]) -> Any:
    """Return n m A2 along the last axis, from M_j, with B_j = `below`, whose last is N."""
    total, ends = below[-1], np.array(below[:-1], dtype=np.intp)
    multiplicity = np.diff(ends, prepend=0)
    return ((total * not_above - n * ends) ** 2 / (ends * (total - ends))) @ multiplicity


@lru_cache(maxsize=8)
def _permuted_anderson_darling(n: int, below: tuple[int, ...], repetitions: int, seed: int) -> Float64:
    """Return n m A2 with permuted labels, the same for all pairs of ensembles of these sizes without ties."""
    total, ends = below[-1], np.array(below[:-1], dtype=np.intp)
    rng, parts, is_first = np.random.default_rng(seed), [], np.arange(total) < n
    for rows in repetition_blocks(repetitions, total):
        permuted = rng.permuted(np.broadcast_to(is_first, (rows, total)), axis=1)
        not_above = np.cumsum(permuted, axis=1, dtype=np.float64)[:, ends - 1]
        parts.append(_anderson_darling_two(not_above, n, below))
    return np.concatenate(parts)


def _check_bins(n: int, dof: int) -> None:
    if dof < 1 or n < FEWEST_PER_BIN * (dof + 1):
        raise InferenceError(
            f"{n} toys are too few for Pearson's chi2 with {dof} degrees of freedom: "
            f"{FEWEST_PER_BIN:g} in each of the {dof + 1} bins are needed"
        )


def _pearson_name(dof: int) -> str:
    return f"chi2 ({dof} dof)"


def _monte_carlo(method: str, statistic: float, exceeding: int, repetitions: int) -> GoodnessOfFit:
    return _result(method, statistic, (1 + exceeding) / (1 + repetitions), 1.0 / (1 + repetitions))


def _result(method: str, statistic: Any, p: Any, resolution: float) -> GoodnessOfFit:
    """Return the result with its p-value held at or above the resolution: it is never zero."""
    return GoodnessOfFit(method, float(statistic), min(max(float(p), resolution), 1.0), resolution)
