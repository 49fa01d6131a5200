"""Pools of events with weights: signed ones are smoothed by what the tests of a space see.

The order matters. Events for the basis come first, made equal in weight by a rough density, then the bases
of all tests, as the stage `tune` will choose them. Then every pool is smoothed at its own nu so that the sums
over these bumps, and over the response, are those of the signed weights. Reference events keep their weights;
data and signals become events of equal weight.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from covad.embedding.embed import Embedded
from covad.errors import NegativeExpectationError
from covad.nplm.convex.basis import GaussianBasis
from covad.nplm.dataset import Float32, Float64
from covad.nplm.smoothing import Functions, Smoothing, SmoothingClosure, bump_places, smooth
from covad.response.density import of_equal_weight, positive_weights
from covad.response.model import ResponseModel
from covad.response.validate import AdaptiveCells
from covad.runs.collisions import derived_seed
from covad.runs.models import response_of
from covad.runs.scale import Standardisation
from covad.runs.smoothing import ClosureCheck, SmoothedPool
from covad.settings import Nu
from covad.study import Study
from covad.study.plan import Space, reach_convex, sizes_of, space, tuned_convex
from covad.toys.pools import LatentEvents, Pool, effective_number

log = logging.getLogger(__name__)

#: Cells in which the smoothing is checked: at most 2 to this power, and each of so many effective events.
_DEPTH, _EVENTS_PER_CELL = 7, 500
#: Width of bumps that show more detail, in units of those of the tests: a network sees it.
_FINE = 0.5


@dataclass
class PoolMaker:
    """Makes the pools of one space, and keeps how their weights were smoothed."""

    study: Study
    scale: Standardisation
    model: ResponseModel
    smoothed: list[SmoothedPool] = field(default_factory=list)
    _bases: tuple[GaussianBasis, ...] = ()
    _tests: Callable[[], tuple[GaussianBasis, ...]] = tuple  # chooses the bumps of all tests

    def basis(self, embedded: Embedded) -> Float32:
        """Return events of equal weight, from which the tests choose their bumps."""
        events = self._latent(embedded)
        return events.z[of_equal_weight(events.z, events.weights, derived_seed(self.study, "basis"))]

    def reference(self, embedded: Embedded, nu: Nu, basis: Float32, where: Space) -> Pool:
        """Return the reference with its weights, smoothed by the bumps that tests choose from `basis`."""
        events, share = self._latent(embedded), 1.0
        if events.weights is not None:
            share = effective_number(positive_weights(events.z, events.weights)) / len(events)
        # they are chosen where a negative weight asks for them, be it that of a signal
        self._tests = lambda: self._bases_of_tests(basis, share, where)
        return self._pool("reference", nu, events, embedded.yield_ratio)

    def equal(self, name: str, embedded: Embedded, nu: Nu) -> Pool:
        """Return data or signal events of equal weight."""
        return self._pool(name, nu, self._latent(embedded), embedded.yield_ratio).unweighted(self._seed)

    def warn(self, space_label: str) -> None:
        """Warn of pools whose smoothed weights do not stand for the signed ones."""
        doubtful = [pool for pool in self.smoothed if pool.doubtful]
        if doubtful:
            worst = max(doubtful, key=lambda pool: pool.moves)
            log.warning(
                "%s: smoothed weights differ from signed ones in %d of %d pools, most in '%s' at nu = %s: by "
                "chi2 %.0f / %d in cells, which adds %.2g to that of data; a test that sees such detail is "
                "off, the convex one is not: raise tests.convex.bumps",
                space_label,
                len(doubtful),
                len(self.smoothed),
                worst.pool,
                list(worst.nu),
                worst.cells.chi2,
                worst.cells.dof,
                worst.moves,
            )

    def _bases_of_tests(self, basis: Float32, share: float, where: Space) -> tuple[GaussianBasis, ...]:
        configurations = [c for c in self.study.configurations if space(c) == where]
        sizes = dict.fromkeys(sizes_of(self.study, c) for c in configurations)
        tests = [tuned_convex(self.study, each) or reach_convex(self.study) for each in sizes]
        bases = _gaussian([test.choose(basis, share).basis for test in dict.fromkeys(tests)])
        if self.study.tests.network is not None:
            bases += tuple(replace(bumps, width=_FINE * bumps.width) for bumps in bases)
        return bases

    @property
    def _seed(self) -> int:
        return derived_seed(self.study, "unweight")

    def _latent(self, embedded: Embedded) -> LatentEvents:
        """Return standardised events with their response; without weights where all are the same."""
        z, weights = embedded.z, embedded.weights
        if not len(weights) or (weights == weights[0]).all():
            return LatentEvents(self.scale(z), response_of(self.model, z))
        there = weights != 0.0
        return LatentEvents(self.scale(z[there]), response_of(self.model, z[there]), weights[there])

    def _pool(self, name: str, nu: Nu, events: LatentEvents, yield_ratio: float) -> Pool:
        signed = events.weights
        if signed is None or (signed > 0).all():
            return Pool(events, yield_ratio)
        self._bases = self._bases or self._tests()
        try:
            smoothing, columns = self._smooth(events, signed)
            closures = [
                SmoothingClosure.of(smoothing, columns, signed, functions)
                for functions in self._unknown_functions(events.z, signed)
            ]
        except NegativeExpectationError as failure:
            raise NegativeExpectationError(f"the pool '{name}' at nu = {list(nu)}: {failure}") from failure
        bumps, cells = (_checked(closure) for closure in closures)
        self.smoothed.append(
            SmoothedPool(
                pool=name,
                nu=nu,
                events=len(events),
                negative_share=float((signed < 0).mean()),
                effective=effective_number(smoothing.weights),
                effective_signed=effective_number(signed),
                columns=columns.shape[1],
                unmatched=smoothing.unmatched,
                largest_residual=float(np.abs(smoothing.residuals).max()),
                bumps=bumps,
                cells=cells,
                moves=_moves(closures[1], self.study.sizes.expected),
            )
        )
        return Pool(replace(events, weights=smoothing.weights), yield_ratio, signed=signed)

    def _smooth(self, events: LatentEvents, weights: Float64) -> tuple[Smoothing, Float32]:
        """Smooth weights of events by the bumps that are known so far, the response and a constant."""
        g = events.response.linear
        widths = [basis.n_columns for basis in self._bases]
        columns = np.ones((len(events), sum(widths) + g.shape[1] + 1), dtype=np.float32)
        for basis, end in zip(self._bases, np.cumsum(widths), strict=True):
            basis.fill(events.z, columns[:, end - basis.n_columns : end])
        columns[:, sum(widths) : -1] = g
        names = [place for basis in self._bases for place in bump_places(basis)]
        names += [*(f"the response to nuisance {k}" for k in range(g.shape[1])), "all of z"]
        return smooth(columns, weights, names), columns

    def _unknown_functions(self, z: Float32, weights: Float64) -> list[Functions]:
        """Return functions that the smoothing does not know: narrow bumps at other places, and cells."""
        first, seed = self._bases[0], derived_seed(self.study, "smoothing")
        other = GaussianBasis.from_pool(z, first.n_ridged, seed, _FINE * first.width)
        depth = int(np.log2(max(effective_number(weights) / _EVENTS_PER_CELL, 2.0)))
        cells = AdaptiveCells.build(z, min(_DEPTH, depth)).index(z)
        return [Functions.of_bumps(replace(other, constant=False), z), Functions.of_cells(cells, z)]


def _gaussian(bases: Sequence[object]) -> tuple[GaussianBasis, ...]:
    """Return the bumps of bases without their constants, which are one and the same."""
    return tuple(replace(basis, constant=False) for basis in bases if isinstance(basis, GaussianBasis))


def _checked(closure: SmoothingClosure) -> ClosureCheck:
    pull = float(np.abs(closure.pulls).max(initial=0.0))
    return ClosureCheck(len(closure.signed), pull, closure.chi2, closure.dof, closure.p_value)


def _moves(cells: SmoothingClosure, expected: float) -> float:
    """Return what the difference in cells adds to a chi2 of `expected` data, without its own noise."""
    excess = (cells.smoothed - cells.signed) ** 2 - np.diag(cells.covariance)
    filled = cells.smoothed > 0
    return expected * float(np.sum(excess[filled] / cells.smoothed[filled]) / cells.smoothed.sum())
