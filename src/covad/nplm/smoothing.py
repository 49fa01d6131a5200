"""Signed weights made positive, without a change of what a test sees.

A test sees an event through z alone. A weight may therefore be replaced by its conditional mean given z,
which has the same density in z and is positive where the expectation is. With a = |w| and columns x(z), the
smoothed weight is a e^{f(z)}, f = x.theta, where theta maximises

    sum w f - sum a (e^f - 1) - 1/2 sum_j ridge_j theta_j^2.

This is concave. Where it is stationary, the sums of the columns are those of the signed weights:
sum a e^f x_j = sum w x_j - ridge_j theta_j. The ridge keeps f finite where a sum is negative by chance.

The sums keep their fluctuation, too: that of sum w x, and not the smaller one of sum a e^f x. For data that
do not come from the same sample, `smoothing_variance` is what the law of t has in addition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, ndtri

from covad.errors import DatasetError, NegativeExpectationError
from covad.nplm.convex.basis import GaussianBasis, StackedBasis, evaluate
from covad.nplm.dataset import Float32, Float64
from covad.nplm.fit import Status
from covad.nplm.likelihood import ColumnLikelihood, GaussianPenalty
from covad.nplm.maximise import maximise

#: Errors by which a sum may be off, and by which it may be negative.
TOLERATED_RESIDUAL, TOLERATED_NEGATIVE = 0.1, 3.0
#: Chance that of many places where nothing is expected one is said to be negative.
_FALSE_STOP = 1e-3
#: The ridge is lowered tenfold, for each column by itself, until the residual is as small as this, unless a
#: lower one does not help: the residual has to shrink to so much of what it was.
_AIM, _LOWER, _SHRINKS, _FITS = 0.01, 0.1, 0.5, 20
#: Gain at which a fit ends, in units of one half of a squared error.
_GAIN = 1e-3
#: Share of the variance of a signed sum below which its difference to the smoothed one is decided by the fit.
_DECIDED = 1e-3
#: Rows of a block.
_BLOCK = 4096


@dataclass(frozen=True)
class Smoothing:
    """Smoothed weights, and how well they keep the sums of the columns.

    `residuals` are smoothed minus signed sums, in units of the error sqrt(sum w^2 x^2) of the latter;
    `negative` counts columns that are nowhere negative, but whose sum is, within its error.
    """

    weights: Float64
    theta: Float64
    ridge: Float64  # in units where sum w^2 = sum |w|
    residuals: Float64
    negative: int

    @property
    def unmatched(self) -> int:
        """Return how many sums are off by more than is tolerated."""
        return int((np.abs(self.residuals) > TOLERATED_RESIDUAL).sum())


def tolerated_negative(n_places: int) -> float:
    """Return the errors by which sums at many places may be negative: at least as many as at one.

    Where nothing is expected at any of them, one in a thousand such samples has a sum beyond.
    """
    return max(TOLERATED_NEGATIVE, float(-ndtri(_FALSE_STOP / n_places)))


def smooth(
    columns: Float32, weights: Float64, names: Sequence[str] = (), tolerated: float = TOLERATED_NEGATIVE
) -> Smoothing:
    """Smooth signed weights by the columns, one of them constant; `names` of the columns are for messages.

    Weights of which none is negative stay as they are. Raise NegativeExpectationError if the sum over a
    column that is nowhere negative is negative by more errors than are `tolerated`.
    """
    n_events, n_columns = columns.shape
    if weights.shape != (n_events,) or not np.isfinite(weights).all():
        raise DatasetError(f"{n_events} events need as many finite weights, of shape {weights.shape}")
    if (weights >= 0).all():
        nothing = np.zeros(n_columns)
        return Smoothing(weights, nothing, nothing, nothing, 0)
    sums, errors = _sums(columns, weights)
    positive = columns.min(axis=0) >= 0
    _refuse_negative(sums, errors, positive, names or [f"column {j}" for j in range(n_columns)], tolerated)

    base, unit = np.abs(weights), _unit(weights)
    filled = errors > 0
    scale = np.where(filled, unit * errors, 1.0)
    ridge = np.where(filled, TOLERATED_RESIDUAL * scale * np.abs(columns).max(axis=0), 1.0)
    theta, left = np.zeros(n_columns), np.full(n_columns, np.inf)
    lowered = stuck = np.zeros(n_columns, dtype=bool)
    for _ in range(_FITS):
        penalty = GaussianPenalty(np.zeros(n_columns), ridge)
        best = maximise(ColumnLikelihood(columns, unit * base, unit * sums, penalty), theta, tolerance=_GAIN)
        if best.status is Status.FAILED:
            raise DatasetError("the signed weights cannot be smoothed: their likelihood is not finite")
        before, theta = left, best.theta
        left = np.abs(ridge * theta) / scale
        vain = lowered & (left > _SHRINKS * before)
        stuck = stuck | vain
        lowered = ~stuck & (left > _AIM)
        if not (lowered | vain).any():
            break
        ridge = ridge * np.where(lowered, _LOWER, np.where(vain, 1.0 / _LOWER, 1.0))
    smoothed = base * np.exp(_f(columns, theta))
    residuals = np.where(filled, _sums(columns, smoothed - weights)[0], 0.0) / np.where(filled, errors, 1.0)
    return Smoothing(smoothed, theta, ridge, residuals, int((positive & (sums < 0)).sum()))


def smoothing_variance(columns: Float32, signed: Float64, smoothed: Float64, expected: float) -> Float64:
    """Return what signs add to the variance of the reference's score, in these columns.

    (N / sum w)^2 sum (w^2 - wbar^2)(x - m)(x - m)^T, with w the signed and wbar the smoothed weights, N the
    `expected` yield and m the mean of the columns: sums over the whole sample fluctuate as those of w, and a
    reference drawn from it as wbar says, around them. It does not depend on the size of that reference.
    """
    excess = np.square(signed) - np.square(smoothed)
    total = smoothed.sum()
    mean = _sums(columns, smoothed)[0] / total
    n_columns = columns.shape[1]
    variance = np.zeros((n_columns, n_columns))
    for rows in _blocks(len(signed)):
        x = columns[rows].astype(np.float64) - mean
        variance += (x * excess[rows, None]).T @ x
    return np.asarray(variance * (expected / total) ** 2)


@dataclass(frozen=True)
class Functions:
    """Functions of the events of a sample, block by block, with the places where they are."""

    places: tuple[str, ...]
    at: Callable[[slice], Float32]

    @classmethod
    def none(cls, z: Float32) -> Functions:
        return cls((), lambda rows: np.empty((len(z[rows]), 0), dtype=np.float32))

    @classmethod
    def of_bumps(cls, basis: GaussianBasis | StackedBasis, z: Float32) -> Functions:
        """Return the bumps of a basis, and its constant if it has one."""
        return cls(bump_places(basis), lambda rows: evaluate(basis, z[rows]))

    @classmethod
    def of_cells(cls, cells: NDArray[np.integer[Any]], z: Float32) -> Functions:
        """Return a function for each cell, 1 within and 0 outside; `cells` has the cell of every event."""
        number, count = np.arange(int(cells.max()) + 1), np.bincount(cells)
        centres = [np.bincount(cells, column) / np.maximum(count, 1) for column in z.T]
        places = tuple(f"the cell around z = {_point(z)}" for z in np.transpose(centres))
        return cls(places, lambda rows: (cells[rows, None] == number).astype(np.float32))


def bump_places(basis: GaussianBasis | StackedBasis) -> tuple[str, ...]:
    """Return a name for each column of a basis, for messages: a bump has its centre in z."""
    places: list[str] = []
    for bumps in basis.by_width:
        seen = list(bumps.seen)
        centres = bumps.scale.location[seen] + bumps.scale.scale[seen] * bumps.centres
        part = "" if bumps.dimensions is None else f" of dimensions {', '.join(map(str, seen))}"
        places += [f"the bump at z = {_point(z)}{part}" for z in centres]
    return (*places, *(["all of z"] * basis.constant))


@dataclass(frozen=True)
class SmoothingClosure:
    """Sums of functions that the smoothing did not know, by signed and by smoothed weights.

    `covariance` is that of their difference, to first order: the fit takes away what its columns can follow.
    """

    signed: Float64
    smoothed: Float64
    errors: Float64  # of the signed sums, sqrt(sum w^2 phi^2)
    covariance: Float64

    @classmethod
    def of(
        cls,
        smoothing: Smoothing,
        columns: Float32,
        weights: Float64,
        functions: Functions,
        tolerated: float = TOLERATED_NEGATIVE,
    ) -> SmoothingClosure:
        """Compare the sums over a sample whose signed `weights` were smoothed by these columns.

        Raise NegativeExpectationError if one of the signed sums is negative by more errors than `tolerated`.
        """
        n, k = len(functions.places), columns.shape[1]
        unit = _unit(weights)
        before, after = unit * weights, unit * smoothing.weights
        sums = np.zeros((3, n))  # signed, smoothed, squared error
        information, mixed = np.zeros((k, k)), np.zeros((n, k))
        for rows in _blocks(len(weights)):
            x, phi = columns[rows], functions.at(rows)
            exact = phi.astype(np.float64)
            sums += before[rows] @ exact, after[rows] @ exact, np.square(before[rows]) @ np.square(exact)
            weighted = x * after[rows, None].astype(np.float32)
            information += weighted.T @ x
            mixed += phi.T @ weighted
        signed, smoothed, errors = sums[0], sums[1], np.sqrt(sums[2])
        _refuse_negative(signed, errors, np.ones(n, dtype=bool), functions.places, tolerated)
        followed = np.linalg.solve(information + np.diag(smoothing.ridge), mixed.T).astype(np.float32)
        covariance = np.zeros((n, n))
        for rows in _blocks(len(weights)):
            rest = functions.at(rows) - columns[rows] @ followed
            rest *= (before[rows] - after[rows])[:, None].astype(np.float32)
            covariance += rest.T @ rest
        return cls(signed / unit, smoothed / unit, errors / unit, covariance / unit**2)

    @property
    def pulls(self) -> Float64:
        """Return smoothed minus signed sums over the standard deviation of that."""
        spread = np.sqrt(np.diag(self.covariance))
        told = spread > _DECIDED * self.errors
        return np.where(told, self.smoothed - self.signed, 0.0) / np.where(told, spread, 1.0)

    @property
    def chi2(self) -> float:
        return float(np.sum(self._independent**2))

    @property
    def dof(self) -> int:
        """Return the number of combinations of the sums that the smoothing has not decided."""
        return len(self._independent)

    @property
    def p_value(self) -> float:
        return float(chdtrc(self.dof, self.chi2)) if self.dof else 1.0

    @property
    def _independent(self) -> Float64:
        """Return independent differences, each of unit variance."""
        unit = 1.0 / np.where(self.errors > 0, self.errors, 1.0)
        values, vectors = np.linalg.eigh(self.covariance * np.outer(unit, unit))
        told = values > _DECIDED
        difference = vectors.T @ (unit * (self.smoothed - self.signed))
        return np.asarray(difference[told] / np.sqrt(values[told]))


def _refuse_negative(
    sums: Float64, errors: Float64, positive: NDArray[np.bool_], names: Sequence[str], tolerated: float
) -> None:
    """Raise if the sum of a function that is nowhere negative is, by more errors than are tolerated."""
    depth = np.where(positive & (errors > 0), -sums / np.where(errors > 0, errors, 1.0), 0.0)
    beyond = int((depth > tolerated).sum())
    if beyond:
        worst = int(depth.argmax())
        others = f", one of {beyond} such places" if beyond > 1 else ""
        raise NegativeExpectationError(
            f"{names[worst]}: the weights sum to {sums[worst]:.3g} +- {errors[worst]:.2g}, as no expectation "
            f"can{others}: check their signs, and whether a selection removes events of one sign there"
        )


def _unit(weights: Float64) -> float:
    """Return the factor that makes a sum over n events of like weight n +- sqrt(n)."""
    return float(np.abs(weights).sum() / np.square(weights).sum())


def _sums(columns: Float32, weights: Float64) -> tuple[Float64, Float64]:
    """Return the weighted sums of the columns, and their errors sqrt(sum w^2 x^2)."""
    sums, squares = np.zeros((2, columns.shape[1]))
    for rows in _blocks(len(weights)):
        x = columns[rows].astype(np.float64)
        sums += weights[rows] @ x
        squares += np.square(weights[rows]) @ np.square(x)
    return sums, np.sqrt(squares)


def _f(columns: Float32, theta: Float64) -> Float64:
    return np.concatenate([columns[rows].astype(np.float64) @ theta for rows in _blocks(len(columns))])


def _blocks(n_events: int) -> list[slice]:
    return [slice(start, start + _BLOCK) for start in range(0, n_events, _BLOCK)]


def _point(z: Float64) -> str:
    return f"({', '.join(f'{x:.2g}' for x in z)})"
