"""Coverage averaged over the prior of all nuisances, and where it fails.

Every toy of the prior ensemble has a truth of its own. The share of them with p <= alpha is the
false-positive rate averaged over everything that can float; a regression of t on the truth shows which
nuisance, or which pair, t depends on although it should not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import f as f_law
from scipy.stats import t as student

from covad.errors import InferenceError
from covad.inference.closure import holm
from covad.inference.intervals import Interval, finite_sample
from covad.nplm.dataset import Float64
from covad.storage.records import Record

#: Toys per term of the regression, below which its errors are not to be trusted.
_TOYS_PER_TERM = 10
#: Smallest singular value of the normalised terms at which their slopes can be told apart.
_SMALLEST_SINGULAR = 0.05


@dataclass(frozen=True)
class Dependence(Record):
    """How t changes with one term of the truth, in standard deviations of the null per unit of the term."""

    term: str  # 'jes', 'jes^2' or 'jes nu_N'
    slope: float
    error: float
    p: float  # Holm's, over all terms

    @property
    def interval(self) -> Interval:
        """Return the 68 % interval of the slope."""
        return Interval(self.slope - self.error, self.slope + self.error)


@dataclass(frozen=True)
class PriorDependence(Record):
    """The regression of t of the prior ensemble on its truth: terms in nu, their squares and products."""

    n_toys: int
    shift: float  # of the mean over the prior, from the mean of the null, in its standard deviations
    shift_error: float
    p: float  # chance of slopes as large together if t depends on no term
    terms: tuple[Dependence, ...]
    left_out: str  # which terms were too many for the toys, in words; empty if none

    @property
    def strongest(self) -> Dependence | None:
        """Return the term of smallest p, None without terms."""
        return min(self.terms, key=lambda term: term.p, default=None)


@dataclass(frozen=True)
class SharedPools:
    """What toys of one pool have in common: `pool` numbers those of every toy."""

    pool: NDArray[np.intp]
    share: float  # standard deviation of the offset of a pool, in those of the null

    def transformed(self, columns: Float64) -> Float64:
        """Return columns whose ordinary least squares are the generalised ones of toys with such offsets.

        Of n toys with a common offset of variance f^2, the share 1 - 1 / sqrt(1 + n f^2) of the mean is
        subtracted.
        """
        n = np.bincount(self.pool)
        part = 1.0 - 1.0 / np.sqrt(1.0 + n * self.share**2)
        sums = np.zeros((len(n), columns.shape[1]))
        np.add.at(sums, self.pool, columns)
        return np.asarray(columns - (part / np.maximum(n, 1))[self.pool, None] * sums[self.pool])


def prior_dependence(
    t: ArrayLike,
    truth: ArrayLike,
    names: Sequence[str],
    null_mean: float,
    null_std: float,
    shared: SharedPools | None = None,
) -> PriorDependence:
    """Regress t on the true nuisances, (toys, nuisances) in units of sigma, that are named in this order.

    Squares are taken less one, their mean over the prior, so that the constant is the average over it. Errors
    are those of ordinary least squares, p-values those of Student's t and Fisher's F: they hold for as few
    toys as there are, and, within 1 % of 5 %, where the spread of t changes by 15 % per sigma of a nuisance.
    Toys at one point of the prior may be `shared`: by their offset they would look like a dependence on the
    truth, if many toys have few points.
    """
    sample = finite_sample(t, "the prior ensemble", at_least=_TOYS_PER_TERM)
    nu = np.asarray(truth, dtype=np.float64)
    if nu.shape != (len(sample), len(names)):
        raise InferenceError(f"{len(sample)} toys of {len(names)} nuisances have truths of shape {nu.shape}")
    terms, left_out = _terms(nu, names, len(sample) // _TOYS_PER_TERM - 1)
    design = np.column_stack([np.ones(len(sample)), *terms.values()])
    y = (sample - null_mean) / null_std
    if shared is not None and shared.share > 0.0:
        design, y = shared.transformed(design), shared.transformed(y[:, None])[:, 0]
    inverse = np.linalg.inv(design.T @ design)
    slopes = inverse @ design.T @ y
    left = len(y) - design.shape[1]  # degrees of freedom
    covariance = inverse * float(np.square(y - design @ slopes).sum()) / left
    errors = np.sqrt(np.diag(covariance))
    together = 0.0
    if terms:
        together = float(slopes[1:] @ np.linalg.solve(covariance[1:, 1:], slopes[1:])) / len(terms)
    p = holm(2.0 * student.sf(np.abs(slopes[1:]) / errors[1:], left))
    found = zip(terms, slopes[1:].tolist(), errors[1:].tolist(), p.tolist(), strict=True)
    return PriorDependence(
        n_toys=len(sample),
        shift=float(slopes[0]),
        shift_error=float(errors[0]),
        p=float(f_law.sf(together, len(terms), left)) if terms else 1.0,
        terms=tuple(Dependence(*term) for term in found),
        left_out=left_out,
    )


def _terms(nu: Float64, names: Sequence[str], most: int) -> tuple[dict[str, Float64], str]:
    """Return as many kinds of terms as the toys allow: all of first order, squares, products."""
    terms: dict[str, Float64] = {}
    for kind, columns in _kinds(nu, names):
        if len(terms) + len(columns) > most:
            return terms, f"{kind}: {len(columns)} terms are too many for {len(nu)} toys"
        if not _told_apart([*terms.values(), *columns.values()]):
            return terms, f"{kind}: {len(columns)} terms are too many for the points of the prior"
        terms |= columns
    return terms, ""


def _told_apart(columns: Sequence[Float64]) -> bool:
    """Return whether the truths are different enough for so many terms: pools have some points only."""
    design = np.column_stack([np.ones(len(columns[0])), *columns])
    singular = np.linalg.svd(design / np.linalg.norm(design, axis=0), compute_uv=False)
    return bool(singular[-1] > _SMALLEST_SINGULAR)


def _kinds(nu: Float64, names: Sequence[str]) -> Iterator[tuple[str, dict[str, Float64]]]:
    """Yield the terms by kind; those that are the same for all toys say nothing, as squares of +-1."""
    numbers = [k for k in range(len(names)) if np.ptp(nu[:, k]) > 0.0]
    curved = [k for k in numbers if np.ptp(nu[:, k] ** 2) > 0.0]
    yield "first order", {names[k]: nu[:, k] for k in numbers}
    yield "squares", {f"{names[k]}^2": nu[:, k] ** 2 - 1.0 for k in curved}
    yield "products", {f"{names[k]} {names[m]}": nu[:, k] * nu[:, m] for k, m in combinations(numbers, 2)}
