"""The closure reach of a space: the misfit of its response on the check split, as convex tests see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from covad.inference.misfit import MatchedEvents, Misfit
from covad.inference.reach import GrowingTest, Measurement, ScalableNull, predicted_shift, yield_part
from covad.nplm.convex.basis import evaluate
from covad.nplm.convex.capacity import CapacityError
from covad.nplm.convex.convex import ConvexTest
from covad.nplm.dataset import Float32, Float64, Response
from covad.nplm.likelihood import nuisance_shift, nuisance_slopes
from covad.response.density import positive_weights
from covad.response.model import ResponseModel
from covad.response.pairs import Pairs
from covad.runs.checks import ReachAt, SpaceReach, YieldAt
from covad.runs.models import response_of
from covad.settings import Nu
from covad.study import Study
from covad.study.plan import reach_convex
from covad.toys.pools import effective_number

_BLOCK = 1 << 15
#: Events that the moments of a null are taken from.
_OF_NULL = 1 << 16
#: The largest dataset or reference that a study can ask for (`covad.nplm.settings.Sizes`).
_LARGEST = 1e8


def space_reach(
    study: Study, model: ResponseModel, pairs: Pairs, basis_events: Float32
) -> tuple[SpaceReach, tuple[YieldAt, ...]]:
    """Return the reach at +-1 and +-2 sigma of every nuisance, and averaged over their prior.

    Beside it, what the response leaves of the yield at these nu, for the events that the study expects.

    `pairs` are in random order. Distances of the bumps are in units of the spread of the `basis_events`, so z
    need not be standardised; these events are of equal weight.
    """
    ratio = study.sizes.reference / study.sizes.expected
    fresh = _FreshEvents.of(model, pairs, study.normalisation, ratio)

    def measure(n_events: float) -> Measurement:
        try:
            test = reach_convex(study, n_events).choose(basis_events, fresh.reference_share)
        except CapacityError:  # no width makes so few events a test: that of the study's size stands for it
            test = reach_convex(study).choose(basis_events, fresh.reference_share)
        return fresh.measure(test)

    growing = GrowingTest(measure, study.sizes.expected, _LARGEST / max(ratio, 1.0))
    reach = SpaceReach(
        average=growing.averaged_reach(),
        points=tuple(ReachAt(**vars(growing.reach_at(nu)), nu=nu) for nu in fresh.axes),
    )
    usual = growing.measured(study.sizes.expected)
    yields = (
        _yield(study.sizes.expected, usual.misfits[nu], usual.nulls[nu], pairs.log_yield(nu), nu)
        for nu in fresh.axes
    )
    return reach, tuple(yields)


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
    response: Mapping[Nu, Response]
    density: Float64 | None  # positive weights at nu = 0, if the events have any


@dataclass(frozen=True)
class _FreshEvents:
    """The check split with its response, evaluated once for all tests."""

    blocks: tuple[_Block, ...]
    centre: Nu
    normalisation: float | None  # sigma of the yield
    reference_ratio: float  # N_R / N_D

    @classmethod
    def of(
        cls, model: ResponseModel, pairs: Pairs, normalisation: float | None, reference_ratio: float
    ) -> _FreshEvents:
        centre = tuple(0.0 for _ in next(iter(pairs.z)))
        z = {centre: pairs.nominal, **pairs.z}
        counts = {centre: pairs.nominal_counts, **{nu: pairs.counts(nu) for nu in pairs.z}}
        density = None
        if pairs.nominal_weights is not None:
            density = np.zeros(len(pairs))
            here = pairs.nominal_passes
            density[here] = positive_weights(pairs.nominal[here], pairs.nominal_weights)
        blocks = []
        for start in range(0, len(pairs), _BLOCK):
            part = slice(start, start + _BLOCK)
            blocks.append(
                _Block(
                    {nu: events[part] for nu, events in z.items()},
                    {nu: there[part] for nu, there in counts.items()},
                    {nu: response_of(model, events[part]) for nu, events in z.items()},
                    None if density is None else density[part],
                )
            )
        return cls(tuple(blocks), centre, normalisation, reference_ratio)

    @property
    def points(self) -> tuple[Nu, ...]:
        return tuple(nu for nu in self.blocks[0].z if nu != self.centre)

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
        return Measurement(misfits, self._nulls(test))

    def _matched(self, test: ConvexTest, block: _Block) -> dict[Nu, MatchedEvents]:
        bumps = {nu: evaluate(test.basis, z) for nu, z in block.z.items()}
        return {
            nu: MatchedEvents(
                nominal=self._columns(bumps[self.centre], block.response[self.centre], nu),
                shifted=self._columns(bumps[nu], block.response[nu], nu),
                log_ratio=nuisance_shift(block.response[self.centre], self._nuisances(nu)),
                nominal_weights=block.weights[self.centre],
                shifted_weights=block.weights[nu],
            )
            for nu in self.points
        }

    def _nulls(self, test: ConvexTest) -> dict[Nu, ScalableNull]:
        """Return the nulls at nu = 0 and along the axes, from nominal events."""
        some = self.blocks[: _OF_NULL // _BLOCK]
        passing = [block.weights[self.centre] != 0.0 for block in some]
        positive = [
            block.density[rows]
            for block, rows in zip(some, passing, strict=True)
            if block.density is not None
        ]
        bumps = [evaluate(test.basis, block.z[self.centre]) for block in some]
        responses = [block.response[self.centre] for block in some]
        sigma, n_basis = self.normalisation, test.n_parameters
        nulls = {}
        for nu in (self.centre, *self.axes):
            truth = self._nuisances(nu)
            parts = zip(bumps, responses, passing, strict=True)
            nulls[nu] = ScalableNull.of(
                np.concatenate([self._columns(phi, there, nu)[rows] for phi, there, rows in parts]),
                np.concatenate(
                    [nuisance_shift(r, truth)[rows] for r, rows in zip(responses, passing, strict=True)]
                ),
                ridge=np.append(test.ridge_by_column, np.zeros(len(truth))),
                auxiliary=np.concatenate([np.zeros(n_basis), np.ones(len(nu)), [sigma**-2] if sigma else []]),
                n_basis=n_basis,
                reference_ratio=self.reference_ratio,
                density=np.concatenate(positive) if positive else None,
            )
        return nulls

    def _nuisances(self, nu: Nu) -> Float64:
        """Return the true nuisances, the last that of the yield, if it has one."""
        return np.array([*nu, *([0.0] if self.normalisation else [])])

    def _columns(self, bumps: Float32, response: Response, nu: Nu) -> Float32:
        """Return (phi, slopes in nu, 1) at the true nu."""
        return np.hstack([bumps, nuisance_slopes(response, self._nuisances(nu)).astype(np.float32)])
