"""p-values and significances against a null, with what their finite samples leave uncertain (eq:pvalue).

An empirical null of n toys gives p = (k+1)/(n+1), where k toys reach t or more: the rank of the dataset among
n+1 that are exchangeable under the null, so that P(p <= alpha) <= alpha without approximation, and p is never
zero. Its smallest value 1/(n+1) is a bound, not a measurement: 400 toys say Z >= 2.81 and no more.

The uncertainty of p is that of the true tail probability of which k/n is the estimate: the Clopper-Pearson
interval of k in n, turned into Z = Phi^-1(1 - p). p itself is not k/n, hence the interval is not symmetric
about Z even in the bulk: k = 55 of 400 is 1.08 +0.09 -0.07, as in the paper's tables. At k = 0 the interval
has no upper end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import beta, chi2, norm

from covad.errors import InferenceError
from covad.inference.intervals import LEVEL, Interval, clopper_pearson, finite_sample, median_interval
from covad.nplm.dataset import Float64
from covad.nplm.nulls import LawOfT
from covad.storage.records import Record

#: What marks a Z that is `extrapolated`, wherever it is printed, and what the mark says.
MARK = "†"
MEANING = "beyond what toys of this study have tested"
#: Below this an analytic tail probability leaves the range of double precision: Z = 37.0.
SMALLEST_ANALYTIC_P = 1e-300
#: The nearest that p comes to 1 in double precision: Z = -8.2.
_ROUNDING = 2.0**-53
#: p and alpha that differ by less are equal: ranks over n + 1 are not exact in binary.
_TIE = 1e-12
#: Nodes that stand for the unknown true rate behind an empirical threshold.
_RATE_NODES = 400


class Null(ABC):
    """The law of t without a signal, from toys or from a formula."""

    name: str

    @property
    @abstractmethod
    def smallest_p(self) -> float:
        """Return the smallest p that this null can tell; beyond it Z is a bound."""

    @abstractmethod
    def p(self, t: ArrayLike) -> Float64:
        """Return P(t' >= t) under the null, never below `smallest_p`."""

    def p_bounds(self, t: ArrayLike, level: float = LEVEL) -> tuple[Float64, Float64]:  # noqa: ARG002
        """Return the interval of p that finitely many toys leave; a formula leaves none, up to its floor."""
        p = self.p(t)
        return np.where(p <= self.smallest_p, 0.0, p), p

    def z(self, t: ArrayLike) -> Float64:
        """Return Z = Phi^-1(1 - p), held within what the null can tell, so that it is always finite."""
        p = self.p(t)
        return np.asarray(norm.isf(np.clip(p, self.smallest_p, self._largest_p)))

    def z_bounds(self, t: ArrayLike, level: float = LEVEL) -> tuple[Float64, Float64]:
        """Return `p_bounds` as Z; an end is infinite where the toys give no bound."""
        low, high = self.p_bounds(t, level)
        return np.asarray(norm.isf(high)), np.asarray(norm.isf(low))

    def saturated(self, t: ArrayLike) -> Any:
        """Return whether Z is only a bound, because t lies where the null tells no more."""
        p = self.p(t)
        return (p <= self.smallest_p) | (p >= self._largest_p)

    def interval(self, t: float, level: float = LEVEL) -> Interval:
        """Return the interval of Z at one t that the finite null leaves."""
        low, high = self.z_bounds(t, level)
        return Interval.of(float(low), float(high))

    def rejects(self, t: ArrayLike, alpha: ArrayLike) -> Any:
        """Return whether p <= alpha, rounding aside."""
        return self.p(t) <= np.asarray(alpha) * (1.0 + _TIE)

    def resolves(self, alpha: ArrayLike) -> Any:
        """Return whether the null can tell p <= alpha at all."""
        return np.asarray(alpha) * (1.0 + _TIE) >= self.smallest_p

    def true_rates(self, alpha: float) -> Float64:
        """Return equally probable values of the true rate of p <= alpha; none where alpha is not resolved."""
        return np.array([alpha]) if self.resolves(alpha) else np.empty(0)

    def extrapolates(self, z: float) -> bool:  # noqa: ARG002
        """Return whether Z rests on a formula that no toys have tested so far; toys give a bound there."""
        return False

    @property
    def _largest_p(self) -> float:
        return 1.0 - max(self.smallest_p, _ROUNDING)


@dataclass(frozen=True, eq=False)
class EmpiricalNull(Null):
    """The null as an ensemble of toys, e.g. those of R_0 or of R_nu at +-1 sigma."""

    t: Float64 = field(repr=False)
    name: str = "R_0"

    def __post_init__(self) -> None:
        object.__setattr__(self, "t", np.sort(finite_sample(self.t, f"the null {self.name}")))

    @property
    def smallest_p(self) -> float:
        return 1.0 / (len(self.t) + 1)

    def count(self, t: ArrayLike) -> Any:
        """Count toys with t_null >= t; a tie counts against the discovery."""
        return len(self.t) - np.searchsorted(self.t, _finite(t), side="left")

    def p(self, t: ArrayLike) -> Float64:
        return np.asarray((self.count(t) + 1) / (len(self.t) + 1), dtype=np.float64)

    def saturated(self, t: ArrayLike) -> Any:
        """t beyond all toys, or below all of them."""
        k = self.count(t)
        return (k == 0) | (k == len(self.t))

    def p_bounds(self, t: ArrayLike, level: float = LEVEL) -> tuple[Float64, Float64]:
        """Clopper-Pearson of k in n."""
        return clopper_pearson(self.count(t), len(self.t), level)

    def true_rates(self, alpha: float) -> Float64:
        """p <= alpha means t above the r-th largest toy, r = floor(alpha (n+1)): a Beta(r, n+1-r) rate."""
        rank = int(np.floor(alpha * (len(self.t) + 1) * (1.0 + _TIE)))
        if rank < 1:
            return np.empty(0)
        middles = (np.arange(_RATE_NODES) + 0.5) / _RATE_NODES
        return np.asarray(beta.ppf(middles, rank, len(self.t) + 1 - rank))


@dataclass(frozen=True)
class AnalyticNull(Null):
    """The null as a survival function P(t' > t), e.g. that of the convex test's generalised chi2.

    `n_toys` is the number of toys that it was compared with; None where there are none to compare with.
    `relative_error` is that of p where it is computed from random draws; None where it is exact.
    """

    survival: Callable[[Float64], ArrayLike]
    name: str = "analytic"
    n_toys: int | None = None
    relative_error: Callable[[Float64], ArrayLike] | None = None

    @classmethod
    def of(cls, law: LawOfT, n_toys: int | None = None) -> AnalyticNull:
        """Return the null of a law of t."""
        return cls(law.sf, n_toys=n_toys, relative_error=getattr(law, "relative_error", None))

    def p_bounds(self, t: ArrayLike, level: float = LEVEL) -> tuple[Float64, Float64]:
        """Return p twice, or with the error of its draws."""
        low, high = super().p_bounds(t, level)
        if self.relative_error is None:
            return low, high
        error = norm.isf(0.5 * (1.0 - level)) * np.asarray(self.relative_error(_finite(t)))
        return low * np.exp(-error), np.minimum(high * np.exp(error), 1.0)

    @property
    def smallest_p(self) -> float:
        return SMALLEST_ANALYTIC_P

    def p(self, t: ArrayLike) -> Float64:
        p = np.asarray(self.survival(_finite(t)), dtype=np.float64)
        if not ((p >= 0.0) & (p <= 1.0)).all():
            raise InferenceError(f"the survival function of {self.name} left the range from 0 to 1")
        return np.asarray(np.maximum(p, self.smallest_p))

    def extrapolates(self, z: float) -> bool:
        return self.n_toys is not None and z > largest_resolved_z(self.n_toys)


class Chi2Null(AnalyticNull):
    """The asymptotic null, chi2 with the number of parameters of h as degrees of freedom."""

    def __init__(self, dof: float, n_toys: int | None = None) -> None:
        if not dof > 0:
            raise InferenceError(f"a chi2 needs a positive number of degrees of freedom, not {dof}")
        super().__init__(survival=chi2(dof).sf, name="chi2", n_toys=n_toys)


def largest_resolved_z(n_toys: int) -> float:
    """Return the largest Z that a null of n toys can tell, Phi^-1(1 - 1/(n+1)): 2.81 for 400."""
    return float(norm.isf(1.0 / (n_toys + 1)))


@dataclass(frozen=True)
class Significance(Record):
    """Z of one dataset, or of the median of an ensemble, against one null."""

    null: str
    t: float
    p: float
    z: float
    saturated: bool  # z is a bound: the null resolves no more
    null_interval: Interval  # from the finite null: what the paper's tables show
    median_interval: Interval | None  # from the ensemble's own median; None for one dataset
    interval: Interval  # both, their distances to z added in quadrature
    extrapolated: bool  # the null is a formula, and z is beyond what toys have tested of it

    @property
    def text(self) -> str:
        """Return Z with its whole uncertainty: '1.08 +0.11 -0.10', or a bound: '>= 2.81'."""
        interval = self.interval
        if self.saturated:
            return f"{'>=' if self.z > 0 else '<='} {self.z:.2f}"
        if interval.low == interval.high:
            return f"{self.z:.2f}"
        ends = (interval.high, interval.low)
        up, down = ("open" if end is None else f"{_distance(self.z, end):.2f}" for end in ends)
        return f"{self.z:.2f} +{up} -{down}"


def observed_z(t_observed: float, null: Null, level: float = LEVEL) -> Significance:
    """Return the significance of one dataset."""
    return _significance(t_observed, null, None, level)


def median_z(t_signal: ArrayLike, null: Null, level: float = LEVEL) -> Significance:
    """Return the significance of the median of an ensemble: the expected one of a dataset with this signal.

    The error of the median itself is its order-statistics interval, read through the null.
    """
    sample = finite_sample(t_signal, "the signal ensemble")
    of_t = median_interval(sample, level)
    # an end beyond what the null resolves is no bound
    ends = (None if t is None or null.saturated(t) else float(null.z(t)) for t in (of_t.low, of_t.high))
    return _significance(float(np.median(sample)), null, Interval(*ends), level)


def _significance(t: float, null: Null, of_median: Interval | None, level: float) -> Significance:
    z = float(null.z(t))
    of_null = null.interval(t, level)
    both = of_null
    if of_median is not None:
        down = np.hypot(_distance(z, of_null.low), _distance(z, of_median.low))
        up = np.hypot(_distance(z, of_null.high), _distance(z, of_median.high))
        both = Interval.of(z - down, z + up)
    return Significance(
        null=null.name,
        t=float(t),
        p=float(null.p(t)),
        z=z,
        saturated=bool(null.saturated(t)),
        null_interval=of_null,
        median_interval=of_median,
        interval=both,
        extrapolated=null.extrapolates(z),
    )


def _distance(z: float, end: float | None) -> float:
    return np.inf if end is None else abs(end - z)


def _finite(t: ArrayLike) -> Float64:
    values = np.asarray(t, dtype=np.float64)
    if not np.isfinite(values).all():
        raise InferenceError("a significance was asked for at a t that is not finite: the fit failed")
    return values
