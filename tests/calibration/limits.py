"""The law of what the suite counts: toys with p <= alpha, and the mean of p, if all is right.

Against a law of t the count is binomial. Against n toys of a null it is a mixture over the true rate that the
rank of the threshold leaves open, Beta(r, n + 1 - r), which makes it beta-binomial. The network takes from
toys also how its null moves with the yield (`NullMoments.of_toys`), which adds to that: here the whole of it
is simulated many times, with t a scaled chi2 of the mean and variance that the real toys have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from calibration.ensembles import SEED
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.stats import binom, chi2, norm

from covad.errors import InferenceError
from covad.inference.significance import EmpiricalNull
from covad.inference.yields import NullMoments

Float64 = NDArray[np.float64]
#: Nulls that are simulated, and the toys at each truth that they judge.
REPLICAS = 400
NODES = 2000


@dataclass(frozen=True)
class CountLaw:
    """The number of toys with p <= alpha among n; the true rate is one of `rates`, equally probable."""

    n: int
    rates: Float64

    @property
    def mean_rate(self) -> float:
        return float(self.rates.mean())

    def two_sided(self, k: int) -> float:
        """Return the chance of a count as far out as k."""
        below = binom.cdf(k, self.n, self.rates).mean()
        return float(min(1.0, 2.0 * min(below, self.at_least(k))))

    def at_least(self, k: int) -> float:
        return float(binom.sf(k - 1, self.n, self.rates).mean())


@dataclass(frozen=True)
class Normal:
    """A mean over many toys: its expectation and standard error."""

    mean: float
    error: float

    def limits(self, level: float) -> tuple[float, float]:
        reach = self.error * float(norm.isf(0.5 * level))
        return self.mean - reach, self.mean + reach

    def power_to_notice(self, fault: Normal, level: float) -> float:
        low, high = self.limits(level)
        return float(norm.cdf(low, fault.mean, fault.error) + norm.sf(high, fault.mean, fault.error))


@dataclass(frozen=True)
class SimulatedNull:
    """The null of t at any yield: chi2 of `dof`, scaled to `moments`; toys of it by log yield."""

    moments: NullMoments
    dof: float
    toys: Mapping[float, int]

    def t(self, standard: Float64, log_yield: Float64) -> Float64:
        """Return t of standardised values where the true yields are these, within those that are known."""
        table = self.moments
        where = np.clip(log_yield, table.log_yield[0], table.log_yield[-1])
        mean, std = (CubicSpline(table.log_yield, values)(where) for values in (table.mean, table.std))
        return np.asarray(mean + std * standard)

    @cached_property
    def _nodes(self) -> Float64:
        """Return quantiles of the standardised chi2, in a random order that pairs them with thrown yields."""
        middles = (np.arange(NODES) + 0.5) / NODES
        values = (chi2(self.dof).ppf(middles) - self.dof) / np.sqrt(2.0 * self.dof)
        return np.random.default_rng(SEED).permutation(values)

    def p_of_product(self, log_yield: Float64) -> Float64:
        """Return p of NODES toys at these yields, against every simulated null (null, toy)."""
        judged = self.t(self._nodes, log_yield)

        def p(t: Float64, yields: Float64) -> Float64:
            moments = NullMoments.of_toys(t, yields, len(self.toys))
            return EmpiricalNull(moments.at_nominal(t, yields)).p(moments.at_nominal(judged, log_yield))

        return self._replicas(p)

    def p_of_raw(self, log_yield: Float64) -> Float64:
        """Return the same where nobody corrects t for the yield."""
        judged = self.t(self._nodes, log_yield)
        return self._replicas(lambda t, _: EmpiricalNull(t).p(judged))

    def _replicas(self, p: Callable[[Float64, Float64], Float64]) -> Float64:
        rng = np.random.default_rng(SEED)
        yields = np.repeat(list(self.toys), list(self.toys.values()))
        found: list[Float64] = []
        while len(found) < REPLICAS:
            standard = (rng.chisquare(self.dof, len(yields)) - self.dof) / np.sqrt(2.0 * self.dof)
            try:
                found.append(p(self.t(standard, yields), yields))
            except InferenceError:  # the product refuses such toys, and those of the suite were not refused
                continue
        return np.array(found)


def mean_of_p(p: Float64, n: int) -> Normal:
    """Return the law of the mean of n p-values, given p of many toys against many nulls (null, toy)."""
    spread = p.mean(axis=1).var() + p.var(axis=1).mean() / n
    return Normal(float(p.mean()), float(np.sqrt(spread)))


def true_rates(p: Float64, alpha: float) -> Float64:
    """Return the rate of p <= alpha against each null, from p of many toys (null, toy)."""
    return np.asarray((p <= alpha * (1.0 + 1e-12)).mean(axis=1))
