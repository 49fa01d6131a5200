"""The smaller p of two tests as one test: its law comes from toys that both have seen.

Two tests of one dataset depend on each other, so that neither p nor 2 min(p) is right. Toys know: the joint p
is the rank of the smaller p among those of background toys. Where it is smaller than that of all toys, 2
min(p) is taken, which is never too small.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from covad.inference.intervals import LEVEL
from covad.inference.significance import SMALLEST_ANALYTIC_P, EmpiricalNull, largest_resolved_z
from covad.nplm.dataset import Float64


class JointNull(EmpiricalNull):
    """The null of t = -log(smaller p)."""

    def __init__(self, first: ArrayLike, second: ArrayLike) -> None:
        """Take the p-values of two tests for the same background toys, toy by toy."""
        super().__init__(smaller_p(first, second), "joint")

    @property
    def smallest_p(self) -> float:
        return SMALLEST_ANALYTIC_P

    @property
    def _largest_p(self) -> float:
        return len(self.t) / (len(self.t) + 1)

    def extrapolates(self, z: float) -> bool:
        """Return whether 2 min(p) stands for toys: a law that none of them have tested may be in it."""
        return z > largest_resolved_z(len(self.t))

    def p(self, t: ArrayLike) -> Float64:
        ranked = super().p(t)
        beyond = np.minimum(2.0 * np.exp(-np.asarray(t, dtype=np.float64)), ranked)
        return np.asarray(np.where(self.count(t) == 0, np.maximum(beyond, self.smallest_p), ranked))

    def p_bounds(self, t: ArrayLike, level: float = LEVEL) -> tuple[Float64, Float64]:
        """Clopper-Pearson of k in n; where toys end, p is a bound itself."""
        low, high = super().p_bounds(t, level)
        return low, np.where(self.count(t) == 0, self.p(t), high)


def smaller_p(first: ArrayLike, second: ArrayLike) -> Float64:
    """Return -log of the smaller p, which is large where one of the tests objects."""
    return np.asarray(-np.log(np.minimum(np.asarray(first), np.asarray(second))), dtype=np.float64)
