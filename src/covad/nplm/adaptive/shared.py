"""The laws of the members of a toy, from moments that all toys share.

F and C (see `covad.nplm.convex.law`) at nu = 0 come from many events of the source, once. Their change to the
nuisances of a toy comes from some of these events, condensed: drawn in proportion to how much they tell, and
reweighted by e^f. A toy needs no sums over its own reference, whose fluctuations then do not enter the law
that its fit is held against.

A ridge is the same in all rotated columns, so the bumps are rotated to the principal axes of F. A member
keeps the axes that its ridge lets through.

The columns of the nuisances are the slopes g + D.nu of the response. Those of a quadratic response depend on
nu: moments are summed over the entries of g and D, and combined for the slopes at nu.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.nplm.adaptive.law import stretched
from covad.nplm.adaptive.members import Members
from covad.nplm.adaptive.next_order import EventSums, drawn_by, mean_shift
from covad.nplm.convex.convex import columns
from covad.nplm.convex.law import ConvexNull, ScoreMoments
from covad.nplm.dataset import Dataset, Float32, Float64, Response
from covad.nplm.likelihood import BLOCK, Columns, GaussianPenalty, nuisance_shift

#: Events of the source that the moments at nu = 0 are taken from, at most, and those of the condensed sample.
EVENTS, CONDENSED = 100_000, 4_000
#: Axes are left out where their information is less than this share of the ridge.
_NEGLIGIBLE = 1e-3
#: Relative spread of the growth of the density beyond which the condensed sample is too small.
_DEPARTS = 0.15
#: Nuisances of a quadratic response up to which the entries of g and D are columns.
_MOST_QUADRATIC = 6


#: What the columns of a dataset depend on: nuisances, whether their response is quadratic, and a yield.
_Kind = tuple[int, bool, bool]


@dataclass(frozen=True, eq=False)
class ReferenceSample:
    """Many events of the density that references are drawn from; weights None if all count alike."""

    z: Float32
    response: Response
    weights: Float64 | None = None

    def shares(self) -> Float64:
        """Return the weights, with a sum of one."""
        weights = np.ones(len(self.z)) if self.weights is None else self.weights
        return np.asarray(weights / weights.sum(), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _Axes:
    """Some scales in rotated columns (axes, constant, nuisances), at a yield of one.

    `mean` is sum w x, `information` sum w x x^T; `noise_mean`, `noise` are the same with n w^2, and
    `noise_total` is n sum w^2: 1 for equal weights.
    """

    spectrum: Float64  # information along each axis, falling
    mean: Float64
    information: Float64
    noise_mean: Float64
    noise: Float64
    noise_total: float
    drawn: NDArray[np.intp]  # the condensed events, and their columns
    condensed: Float32
    shares: Float64  # weights of the condensed events
    noise_shares: Float64

    @property
    def others(self) -> int:
        """Return the number of columns behind the axes: the constant and the nuisances."""
        return len(self.mean) - len(self.spectrum)

    def kept(self, expected: float, ridge: float) -> NDArray[np.intp]:
        """Return the columns of the axes that a ridge lets through, of the constant and the nuisances."""
        n_kept = int((expected * self.spectrum > _NEGLIGIBLE * ridge).sum())
        return np.append(np.arange(n_kept), np.arange(len(self.spectrum), len(self.mean)))

    def moments(self, growth: Float64, kept: NDArray[np.intp]) -> ScoreMoments:
        """Return F and n C for the columns `kept`, where the density has grown so at the condensed events."""
        x = self.condensed[:, kept]
        change, square = growth - 1.0, np.square(growth) - 1.0
        block = np.ix_(kept, kept)
        information = self.information[block] + _gram(x, self.shares * change)
        noise = self.noise[block] + _gram(x, self.noise_shares * square)
        mean = self.mean[kept] + (self.shares * change).astype(np.float32) @ x
        noise_mean = self.noise_mean[kept] + (self.noise_shares * change).astype(np.float32) @ x
        cross = np.outer(mean, noise_mean)
        variance = noise - cross - cross.T + self.noise_total * np.outer(mean, mean)
        return ScoreMoments(information, variance)


@dataclass(frozen=True, eq=False)
class _Moments:
    """F of the stacked columns at nu = 0 and a yield of one, and what the members of some scales need."""

    information: Float64
    by_scales: dict[tuple[int, ...], _Axes]


@dataclass(frozen=True, eq=False)
class SharedMoments:
    """Laws of the members for toys of one source."""

    members: Members
    sample: ReferenceSample
    _known: dict[_Kind, _Moments] = field(default_factory=dict, repr=False)
    _shifts: dict[tuple[Any, ...], Float64] = field(default_factory=dict, repr=False)

    def log_p(self, t: Float64, dataset: Dataset, nu: Float64) -> Float64 | None:
        """Return log p of every member at `nu`; None where only sums over the toy's own reference will do.

        That is: a quadratic response to many nuisances, a yield that floats freely, and a density that
        changes so much that the condensed sample is too small.
        """
        if not self._serves(dataset):
            return None
        shift = nuisance_shift(self._response(dataset), nu)
        total_growth = float(self._shares @ np.exp(shift))
        if float(np.sqrt(self._shares @ np.square(np.exp(shift) / total_growth - 1.0))) > _DEPARTS:
            return None
        nominal = float(dataset.weights.sum())
        expected = nominal * total_growth
        found, slopes = np.empty(len(t)), _slopes(dataset, nu)
        shifts = self._next_order(dataset) * (nominal / expected)
        for scales, axes in self._moments(dataset).by_scales.items():
            growth = np.exp(shift[axes.drawn])
            growth /= float(axes.shares @ growth / axes.shares.sum())
            own = [j for j, member in enumerate(self.members.members) if member.scales == scales]
            weakest = min(self.members.members[j].ridge for j in own)
            moments = _with(slopes, axes.moments(growth, axes.kept(expected, weakest)), axes.others)
            for j in own:
                problem = self._problem(axes, moments, j, expected, dataset)
                null = stretched(ConvexNull.of(*problem), float(shifts[j]))
                found[j] = float(null.law.log_sf(max(float(t[j]), 0.0)))
        return found

    def _problem(
        self, axes: _Axes, moments: ScoreMoments, j: int, expected: float, dataset: Dataset
    ) -> tuple[ScoreMoments, Float64, Float64, int]:
        """Return what the law of member `j` is made of, in the axes that its ridge lets through.

        `moments` are those of the leading axes at a yield of one, and of the constant and the nuisances.
        """
        ridge = self.members.members[j].ridge
        n_kept = int((expected * axes.spectrum > _NEGLIGIBLE * ridge).sum())
        others = 1 + dataset.n_nuisances + (dataset.normalisation is not None)
        kept = np.append(
            np.arange(n_kept), np.arange(len(moments.information) - others, len(moments.information))
        )
        block = np.ix_(kept, kept)
        scaled = ScoreMoments(
            expected * moments.information[block],
            expected**2 / len(dataset.weights) * moments.reference_variance[block],
        )
        ridges = np.append(np.full(n_kept, ridge), np.zeros(others))
        precision = np.pad(GaussianPenalty.of_nuisances(dataset).curvature, (n_kept + 1, 0))
        return scaled, ridges, precision, n_kept + 1

    def _next_order(self, dataset: Dataset) -> Float64:
        """Return the shift of the mean of t by the next order, at nu = 0; it goes as one over the yield."""
        nominal, n_reference = float(dataset.weights.sum()), len(dataset.weights)
        expected = float(f"{nominal:.2g}")  # toys of weighted events have sums nearly the same
        precision = GaussianPenalty.of_nuisances(dataset).curvature
        key = (
            *_kind(dataset),
            expected,
            n_reference,
            precision.tobytes(),
        )
        if key not in self._shifts:
            shifts = np.zeros(len(self.members))
            slopes = _slopes(dataset, np.zeros(dataset.n_nuisances))
            for j, member in enumerate(self.members.members):
                axes = self._moments(dataset).by_scales[member.scales]
                kept = axes.kept(expected, member.ridge)
                moments = _with(slopes, axes.moments(np.ones(len(axes.drawn)), kept), axes.others)
                problem = self._problem(axes, moments, j, expected, dataset)
                om = expected / n_reference * axes.noise_total
                x = axes.condensed[:, kept] @ _beside(slopes, len(kept) - axes.others).astype(np.float32)
                events = EventSums(x, expected * axes.shares, om)
                shifts[j] = mean_shift(events, *problem)
            self._shifts[key] = shifts
        return self._shifts[key] * (expected / nominal)

    def information(self, dataset: Dataset, nu: Float64) -> Float64 | None:
        """Return F of the stacked columns, with the density of nu = 0 and the yield at `nu`: a curvature."""
        if not self._serves(dataset):
            return None
        grown = dataset.weights @ np.exp(nuisance_shift(dataset.reference_response, nu))
        information, slopes = self._moments(dataset).information, _slopes(dataset, nu)
        combined = _beside(slopes, len(information) - len(slopes))
        return np.asarray(float(grown) * (combined.T @ information @ combined))

    def _serves(self, dataset: Dataset) -> bool:
        free = dataset.normalisation is not None and dataset.normalisation.is_free
        quadratic = dataset.reference_response.quadratic is not None
        known = not quadratic or (
            dataset.n_nuisances <= _MOST_QUADRATIC and self.sample.response.quadratic is not None
        )
        return not free and known and self.members.constant

    @cached_property
    def _shares(self) -> Float64:
        return self.sample.shares()

    def _response(self, dataset: Dataset) -> Response:
        """Return as much of the response as a test like that of the dataset knows."""
        n_nuisances, quadratic, _ = _kind(dataset)
        linear = self.sample.response.linear[:, :n_nuisances]
        return Response(linear, self.sample.response.quadratic if quadratic else None)

    def _blocks(self, kind: _Kind) -> Iterator[tuple[slice, Float32]]:
        for start in range(0, len(self._shares), BLOCK):
            rows = slice(start, start + BLOCK)
            yield rows, self._columns(rows, kind)

    def _columns(self, rows: slice | NDArray[np.intp], kind: _Kind) -> Float32:
        """Return the bumps, and the entries of the response, of some events of the sample."""
        n_nuisances, quadratic, norm = kind
        entries = self.sample.response.linear[rows, :n_nuisances]
        if quadratic and self.sample.response.quadratic is not None:
            upper = np.triu_indices(n_nuisances)
            entries = np.hstack([entries, self.sample.response.quadratic[rows][:, *upper]])
        return columns(self.members.basis, self.sample.z[rows], Response(entries), norm)

    def _condense(self, gram: Float64) -> tuple[NDArray[np.intp], Float64]:
        """Draw events by their leverage x.(F + ridge)^-1.x, with what each of them stands for.

        `gram` is F of the basis at a yield of one.
        """
        effective = 1.0 / float(np.square(self._shares).sum())
        ridge = min(member.ridge for member in self.members.members)
        ridges = np.append(np.full(len(gram) - 1, ridge), 0.0)
        inverse = np.linalg.inv(effective * gram + np.diag(ridges))
        leverage = np.concatenate(
            [np.einsum("ij,ij->i", x @ inverse, x) for _, x in self._blocks((0, False, False))]
        )
        return drawn_by(leverage, self._shares, CONDENSED)

    def _moments(self, dataset: Dataset) -> _Moments:
        """Return the moments in the columns of such datasets, computed once."""
        kind = _kind(dataset)
        if kind not in self._known:
            self._known[kind] = self._summed(kind)
        return self._known[kind]

    def _summed(self, kind: _Kind) -> _Moments:
        """Sum over the sample once, and rotate the bumps of every set of scales to their principal axes."""
        shares = self._shares
        noise_shares = len(shares) * np.square(shares)
        n_basis = self.members.basis.n_columns
        n = self._columns(slice(0, 1), kind).shape[1]
        mean, noise_mean, information, noise = np.zeros(n), np.zeros(n), np.zeros((n, n)), np.zeros((n, n))
        even = self.sample.weights is None
        for rows, x in self._blocks(kind):
            mean += shares[rows] @ x
            information += _gram(x.astype(np.float64), shares[rows])
            if not even:
                noise_mean += noise_shares[rows] @ x
                noise += _gram(x.astype(np.float64), noise_shares[rows])
        if even:
            noise_mean, noise = mean, information
        drawn, drawn_shares = self._condense(information[:n_basis, :n_basis])
        condensed = self._columns(drawn, kind)
        found: dict[tuple[int, ...], _Axes] = {}
        for member, own in zip(self.members.members, self.members.columns, strict=True):
            if member.scales in found:
                continue
            bumps, rest = own[:-1], np.arange(n_basis - 1, n)
            spectrum, vectors = np.linalg.eigh(information[np.ix_(bumps, bumps)])
            turn = np.zeros((n, len(bumps) + len(rest)))
            turn[np.ix_(bumps, np.arange(len(bumps)))] = vectors[:, ::-1]
            turn[rest, len(bumps) + np.arange(len(rest))] = 1.0
            found[member.scales] = _Axes(
                spectrum=spectrum[::-1],
                mean=mean @ turn,
                information=turn.T @ information @ turn,
                noise_mean=noise_mean @ turn,
                noise=turn.T @ noise @ turn,
                noise_total=float(noise_shares.sum()),
                drawn=drawn,
                condensed=(condensed @ turn).astype(np.float32),
                shares=drawn_shares,
                noise_shares=drawn_shares * (len(shares) * shares[drawn]),
            )
        return _Moments(information, found)


def _gram(x: Columns, weights: Float64) -> Float64:
    """Return sum w x x^T; products run in the precision of x."""
    return np.asarray(x.T @ (x * weights.astype(x.dtype)[:, None]), dtype=np.float64)


def _kind(dataset: Dataset) -> _Kind:
    quadratic = dataset.reference_response.quadratic is not None and dataset.n_nuisances > 0
    return dataset.n_nuisances, quadratic, dataset.normalisation is not None


def _slopes(dataset: Dataset, nu: Float64) -> Float64:
    """Return the matrix that makes the constant, the slopes g + D.nu and the yield of the summed columns."""
    k, quadratic, norm = _kind(dataset)
    first, second = np.triu_indices(k) if quadratic else (np.empty(0, dtype=int), np.empty(0, dtype=int))
    slopes = np.zeros((1 + k + len(first) + norm, 1 + k + norm))
    slopes[: 1 + k, : 1 + k] = np.eye(1 + k)
    entries = 1 + k + np.arange(len(first))
    slopes[entries, 1 + first] = nu[second]
    slopes[entries, 1 + second] = nu[first]  # D is symmetric; on its diagonal, the same once more
    slopes[len(slopes) - norm :, 1 + k :] = 1.0
    return slopes


def _beside(slopes: Float64, n_axes: int) -> Float64:
    """Return the matrix that leaves the axes as they are, and combines what is behind them."""
    rows, columns_ = slopes.shape
    whole = np.zeros((n_axes + rows, n_axes + columns_))
    whole[:n_axes, :n_axes] = np.eye(n_axes)
    whole[n_axes:, n_axes:] = slopes
    return whole


def _with(slopes: Float64, moments: ScoreMoments, others: int) -> ScoreMoments:
    """Return the moments of the axes, the constant and the slopes, of which `others` columns are not axes."""
    if slopes.shape[0] == slopes.shape[1]:
        return moments
    turn = _beside(slopes, len(moments.information) - others)
    return ScoreMoments(turn.T @ moments.information @ turn, turn.T @ moments.reference_variance @ turn)
