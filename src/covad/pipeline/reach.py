"""The closure reach of a space: the misfit of its response on the check split, as convex tests see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray

from covad.events.weights import effective_number
from covad.inference.misfit import MatchedEvents, Misfit
from covad.inference.prior_average import Measurement
from covad.inference.ranking import PriorClosure, TrainingSpread, rank_nuisances
from covad.inference.reach import GrowingTest
from covad.inference.shifts import ScalableNull, predicted_shift, yield_part
from covad.nplm.convex.basis import evaluate
from covad.nplm.convex.capacity import CapacityError
from covad.nplm.convex.convex import ConvexTest
from covad.nplm.dataset import Float32, Float64, Response
from covad.nplm.likelihood import nuisance_shift, nuisance_slopes
from covad.response.density import positive_weights
from covad.response.grid import ALL_PAIRS, Pair
from covad.response.model import ResponseModel
from covad.response.pairs import Pairs
from covad.runs.checks import ReachAt, SpaceReach, YieldAt
from covad.runs.models import response_of
from covad.settings import Nu
from covad.study import Collisions, Study
from covad.study.plan import nuisance_names, reach_convex

_BLOCK = 1 << 15
#: Events that the moments of a null are taken from.
_OF_NULL = 1 << 16
#: The largest dataset or reference that a study can ask for (`covad.nplm.settings.Sizes`).
_LARGEST = 1e8
#: Numbers of the response at moved events that are kept in memory; beyond, they are computed for each test.
_KEPT = 1 << 28


@dataclass(frozen=True)
class FreshChecks:
    """What fresh events tell about the response of a space, as convex tests see it."""

    reach: SpaceReach
    yields: tuple[YieldAt, ...]
    prior: PriorClosure
    spread: TrainingSpread | None  # None for a response of one head


def space_reach(
    study: Study,
    space_name: str,
    model: ResponseModel,
    pairs: Pairs,
    basis_events: Float32,
    corners: Callable[[Sequence[Pair]], Pairs | None] | None = None,
    bootstrap: bool = False,
) -> FreshChecks:
    """Return the reach at the points of every nuisance, and averaged over their prior.

    Beside it, what the response leaves of the yield at these nu, the ranking of the nuisances, and the
    spread of the heads, for the events that the study expects.

    `pairs` are in random order. Distances of the bumps are in units of the spread of the `basis_events`, so z
    need not be standardised; these events are of equal weight. `corners` returns events at the corners of
    pairs of nuisances, which are measured for those that are described worst. `bootstrap` says whether the
    heads were fitted on samples of their own.
    """
    ratio, expected = study.sizes.reference / study.sizes.expected, study.sizes.expected
    given = study.source.correlation if isinstance(study.source, Collisions) else None
    correlation = None if given is None else np.array(given, dtype=np.float64)
    fresh = _FreshEvents.of(model, pairs, study.normalisation, ratio, correlation)

    def chosen(n_events: float) -> ConvexTest:
        try:
            tuned = reach_convex(study, space_name, n_events)
            return tuned.choose(basis_events, fresh.reference_share)
        except CapacityError:  # no width makes so few events a test: that of the study's size stands for it
            return reach_convex(study, space_name).choose(basis_events, fresh.reference_share)

    first = fresh.measure(chosen(expected))
    beside = None
    if corners is not None:
        leading = _pairs_among(rank_nuisances(first, expected).leading(), fresh.points)
        at_corners = corners(leading) if leading else None
        if at_corners is not None:
            beside = _FreshEvents.of(model, at_corners, study.normalisation, ratio, correlation)

    def measure(n_events: float) -> Measurement:
        test = chosen(n_events)
        measured = first if n_events == expected else fresh.measure(test)
        return measured if beside is None else replace(measured, crossed=beside.crossed(test))

    growing = GrowingTest(measure, expected, _LARGEST / max(ratio, 1.0))
    reach = SpaceReach(
        average=growing.averaged_reach(),
        points=tuple(ReachAt(**vars(growing.reach_at(nu)), nu=nu) for nu in fresh.axes),
    )
    usual = growing.measured(expected)
    yields = (
        _yield(expected, usual.misfits[nu], usual.nulls[nu], pairs.log_yield(nu), nu) for nu in fresh.axes
    )
    spread = None
    if len(getattr(model, "heads", ())) > 1:
        halves = fresh.spread_of_heads(chosen(expected))
        spread = TrainingSpread.of(halves, usual.central, expected, bootstrap)
    names = nuisance_names(study)[: len(fresh.centre)]
    return FreshChecks(reach, tuple(yields), rank_nuisances(usual, expected, names=names), spread)


def _pairs_among(leading: Sequence[int], points: Sequence[Nu]) -> list[Pair]:
    """Return the pairs of these nuisances that are not among the points yet.

    Nuisances of separate samples, which do not go beyond one sigma, have no corners.
    """
    axes, known = np.eye(len(points[0])), set(points)
    smooth = sorted(k for k in leading if tuple((2.0 * axes[k]).tolist()) in known)
    return [(a, b) for a, b in combinations(smooth, 2) if not any(nu[a] and nu[b] for nu in points)]


def _yield(expected: float, misfit: Misfit, null: ScalableNull, log_yield: float, nu: Nu) -> YieldAt:
    """Return the yield at nu, observed and predicted, and the shift of t by what lies between them."""
    observed, constant = float(np.exp(log_yield)), null.n_basis - 1
    moved = predicted_shift(yield_part(misfit, null, constant), null, expected)
    return YieldAt(
        nu=nu,
        observed=observed,
        predicted=observed - float(misfit.delta[constant]),
        uncertainty=float(np.sqrt(np.square(misfit.noise[:, constant]).sum())),
        n_events=expected,
        shift=moved.shift,
        low=moved.low,
        high=moved.high,
    )


@dataclass(frozen=True)
class _Block:
    """Some collisions of the check split, at nu = 0 and on the grid of the response."""

    z: Mapping[Nu, Float32]
    weights: Mapping[Nu, Float64]  # 1, or that of the event, where it passes the selection, 0 where not
    response: Response  # at nu = 0
    moved: Mapping[Nu, NDArray[np.int64]]  # events that are elsewhere than at nu = 0
    moved_response: Mapping[Nu, Response]  # of these, where it is kept
    density: Float64 | None  # positive weights at nu = 0, if the events have any


@dataclass(frozen=True)
class _Matched(Mapping[Nu, MatchedEvents]):
    """The events of a block in the columns of a test, at every nu; made when they are asked for."""

    make: Callable[[Nu], MatchedEvents]
    points: tuple[Nu, ...]

    def __getitem__(self, nu: Nu) -> MatchedEvents:
        return self.make(nu)

    def __iter__(self) -> Iterator[Nu]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)


@dataclass(frozen=True)
class _FreshEvents:
    """The check split with its response; events that do not move at some nu are evaluated at nu = 0 alone."""

    model: ResponseModel
    blocks: tuple[_Block, ...]
    centre: Nu
    normalisation: float | None  # sigma of the yield
    reference_ratio: float  # N_R / N_D
    correlation: Float64 | None  # of the auxiliary measurements

    @classmethod
    def of(
        cls,
        model: ResponseModel,
        pairs: Pairs,
        normalisation: float | None,
        reference_ratio: float,
        correlation: Float64 | None = None,
    ) -> _FreshEvents:
        centre = tuple(0.0 for _ in next(iter(pairs.z)))
        z = {centre: pairs.nominal, **pairs.z}
        counts = {centre: pairs.nominal_counts, **{nu: pairs.counts(nu) for nu in pairs.z}}
        density = None
        if pairs.nominal_weights is not None:
            density = np.zeros(len(pairs))
            here = pairs.nominal_passes
            density[here] = positive_weights(pairs.nominal[here], pairs.nominal_weights)
        blocks, room = [], _KEPT
        for start in range(0, len(pairs), _BLOCK):
            part = slice(start, start + _BLOCK)
            at = {nu: events[part] for nu, events in z.items()}
            moved = {nu: np.flatnonzero((there != at[centre]).any(axis=1)) for nu, there in at.items()}
            response, moved_response = response_of(model, at[centre]), dict[Nu, Response]()
            for nu, rows in moved.items():
                room -= len(rows) * model.shape.n_columns
                if room < 0:
                    break
                moved_response[nu] = response_of(model, at[nu][rows])
            weights = {nu: there[part] for nu, there in counts.items()}
            dense = None if density is None else density[part]
            blocks.append(_Block(at, weights, response, moved, moved_response, dense))
        return cls(model, tuple(blocks), centre, normalisation, reference_ratio, correlation)

    @property
    def points(self) -> tuple[Nu, ...]:
        return tuple(nu for nu in self.blocks[0].z if nu != self.centre)

    @property
    def many(self) -> bool:
        """Return whether there are more nuisances than have all their pairs in the grid."""
        return len(self.centre) > ALL_PAIRS

    @property
    def axes(self) -> tuple[Nu, ...]:
        """Return the points where one nuisance alone is shifted."""
        return tuple(nu for nu in self.points if np.count_nonzero(nu) == 1)

    @property
    def reference_share(self) -> float:
        """Return what one reference event is worth, if it has the weight of a nominal event here."""
        if self.blocks[0].density is None:
            return 1.0
        density = np.concatenate([b.density[b.density > 0.0] for b in self.blocks if b.density is not None])
        return effective_number(density) / len(density)

    def measure(self, test: ConvexTest) -> Measurement:
        """Measure the misfit at every point in the columns of a test, with the nulls of that test."""
        misfits = Misfit.matched(self._matched(test, block) for block in self.blocks)
        return Measurement(misfits, self._nulls(test), correlation=self.correlation)

    def crossed(self, test: ConvexTest) -> dict[Pair, Misfit]:
        """Measure the mixed derivatives of the misfit, from the corners of every plane."""
        misfits = Misfit.matched(self._matched(test, block) for block in self.blocks)
        planes: dict[Pair, list[Nu]] = {}
        for nu in misfits:
            first, second = np.flatnonzero(nu).tolist()
            planes.setdefault((first, second), []).append(nu)
        return {
            (a, b): Misfit.combined([misfits[nu] for nu in corners], [nu[a] * nu[b] / 4 for nu in corners])
            for (a, b), corners in planes.items()
        }

    def spread_of_heads(self, test: ConvexTest) -> tuple[Float64, Float64]:
        """Return E_0[x delta g] of every head and nuisance in two halves of the nominal events.

        delta g is g of a head less that of their mean. Its constant is that of the yield, which is counted
        and not fitted: it is left out.
        """
        k = len(self.centre)
        heads = len(self.model.heads)
        sums = np.zeros((2, heads, k, test.n_parameters + len(self._nuisances(self.centre))))
        linear, totals = np.zeros((2, heads, k)), np.zeros((2, 1 + sums.shape[-1]))
        for block in self.blocks:
            z, weights = block.z[self.centre], block.weights[self.centre]
            columns = self._columns(evaluate(test.basis, z), block.response, self.centre)
            with torch.no_grad():
                g = self.model.by_head(torch.from_numpy(z))[:, :, :k].numpy().astype(np.float64)
            beyond = g - g.mean(axis=0)
            for half in (0, 1):
                rows = slice(half, None, 2)
                weighted = beyond[:, rows] * weights[rows, None]
                sums[half] += np.einsum("hnk,nc->hkc", weighted, columns[rows], optimize=True)
                linear[half] += weighted.sum(axis=1)
                totals[half, 0] += weights[rows].sum()
                totals[half, 1:] += weights[rows] @ columns[rows]
        first, second = (
            (sums[half] - linear[half][..., None] * totals[half, 1:] / totals[half, 0]) / totals[half, 0]
            for half in (0, 1)
        )
        return first, second

    def _matched(self, test: ConvexTest, block: _Block) -> _Matched:
        nominal, here = evaluate(test.basis, block.z[self.centre]), block.response

        def make(nu: Nu) -> MatchedEvents:
            there, bumps, rows = here, nominal, block.moved[nu]
            if len(rows):
                z = block.z[nu][rows]
                known = block.moved_response.get(nu)
                bumps = nominal.copy()
                bumps[rows] = evaluate(test.basis, z)
                there = here.replaced(rows, response_of(self.model, z) if known is None else known)
            return MatchedEvents(
                nominal=self._columns(nominal, here, nu),
                shifted=self._columns(bumps, there, nu),
                log_ratio=nuisance_shift(here, self._nuisances(nu)),
                nominal_weights=block.weights[self.centre],
                shifted_weights=block.weights[nu],
            )

        return _Matched(make, self.points)

    def _nulls(self, test: ConvexTest) -> dict[Nu, ScalableNull]:
        """Return the nulls at nu = 0 and along the axes, from nominal events; that at 0 serves for many."""
        some = self.blocks[: _OF_NULL // _BLOCK]
        passing = [block.weights[self.centre] != 0.0 for block in some]
        positive = [
            block.density[rows]
            for block, rows in zip(some, passing, strict=True)
            if block.density is not None
        ]
        bumps = [evaluate(test.basis, block.z[self.centre]) for block in some]
        responses = [block.response for block in some]
        n_basis = test.n_parameters
        nulls = {}
        for nu in (self.centre, *(() if self.many else self.axes)):
            truth = self._nuisances(nu)
            parts = zip(bumps, responses, passing, strict=True)
            nulls[nu] = ScalableNull.of(
                np.concatenate([self._columns(phi, there, nu)[rows] for phi, there, rows in parts]),
                np.concatenate(
                    [nuisance_shift(r, truth)[rows] for r, rows in zip(responses, passing, strict=True)]
                ),
                ridge=np.append(test.ridge_by_column, np.zeros(len(truth))),
                auxiliary=self._auxiliary(n_basis),
                n_basis=n_basis,
                reference_ratio=self.reference_ratio,
                density=np.concatenate(positive) if positive else None,
            )
        return dict.fromkeys((self.centre, *self.axes), nulls[self.centre]) if self.many else nulls

    def _auxiliary(self, n_basis: int) -> Float64:
        """Return the precision of the auxiliary values by column, or as a matrix if they are correlated."""
        k, sigma = len(self.centre), self.normalisation
        independent = np.concatenate([np.zeros(n_basis), np.ones(k), [sigma**-2] if sigma else []])
        if self.correlation is None:
            return independent
        precision = np.diag(independent)
        precision[n_basis : n_basis + k, n_basis : n_basis + k] = np.linalg.inv(self.correlation)
        return precision

    def _nuisances(self, nu: Nu) -> Float64:
        """Return the true nuisances, the last that of the yield, if it has one."""
        return np.array([*nu, *([0.0] if self.normalisation else [])])

    def _columns(self, bumps: Float32, response: Response, nu: Nu) -> Float32:
        """Return (phi, slopes in nu, 1) at the true nu."""
        return np.hstack([bumps, nuisance_slopes(response, self._nuisances(nu)).astype(np.float32)])
