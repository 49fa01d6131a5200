"""Pools of events with weights: signed ones are smoothed by what the tests of a space see.

The order matters. Events for the basis come first, made equal in weight by a rough density, then the bases
of all tests, as the stage `tune` will choose them. Then every pool is smoothed at its own nu so that the sums
over these bumps, and over the response, are those of the signed weights. Reference events keep their weights;
data and signals become events of equal weight.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from covad.embedding.embed import Embedded
from covad.errors import DatasetError, NegativeExpectationError, TooFewEventsError
from covad.events.weights import effective_number
from covad.nplm.convex.basis import Basis, GaussianBasis, StackedBasis
from covad.nplm.dataset import Float32, Float64
from covad.nplm.smoothing import (
    TOLERATED_NEGATIVE,
    Functions,
    SmoothingClosure,
    bump_places,
    smooth,
    tolerated_negative,
)
from covad.response.density import of_equal_weight, positive_weights
from covad.response.model import ResponseModel
from covad.response.validate import AdaptiveCells
from covad.runs.collisions import derived_seed
from covad.runs.models import response_of
from covad.runs.scale import Standardisation
from covad.runs.smoothing import ClosureCheck, SmoothedPool, smoothing_doubt
from covad.settings import Nu
from covad.study import Study
from covad.study.plan import (
    Space,
    n_prior_points,
    reach_convex,
    shape_names,
    signal_points,
    space,
    tuned_on_bumps,
)
from covad.toys.pools import LatentEvents, Pool
from covad.toys.tests import TunedAdaptive, TunedConvex
from covad.toys.truths import nu_text

log = logging.getLogger(__name__)

#: Cells in which the smoothing is checked: at most 2 to this power, and each of so many effective events.
_DEPTH, _EVENTS_PER_CELL = 7, 500
#: Width of bumps that show more detail, in units of those of the tests: a network sees it.
_FINE = 0.5


@dataclass(frozen=True)
class PoolMaker:
    """Makes the pools of one space from its embedded events, and keeps how their weights were smoothed."""

    study: Study
    scale: Standardisation
    model: ResponseModel
    where: Space
    embedded_basis: Embedded
    embedded_reference: Embedded
    smoothed: list[SmoothedPool] = field(default_factory=list, init=False)

    @cached_property
    def basis(self) -> Float32:
        """Return events of equal weight, from which the tests choose their bumps."""
        events = self._latent("basis", self.embedded_basis)
        return events.z[of_equal_weight(events.z, events.weights, derived_seed(self.study, "basis"))]

    @cached_property
    def reference(self) -> Pool:
        """Return the reference with its weights, smoothed where some are negative."""
        yield_ratio = self.embedded_reference.yield_ratio
        return self._pool("reference", self._centre, self._reference_events, yield_ratio)

    def equal(self, name: str, embedded: Embedded, nu: Nu) -> Pool:
        """Return data or signal events of equal weight."""
        pool = self._pool(name, nu, self._latent(name, embedded), embedded.yield_ratio)
        return pool.unweighted(derived_seed(self.study, "unweight"))

    def warn(self, space_label: str) -> None:
        """Warn of pools whose smoothed weights do not stand for the signed ones."""
        if doubt := smoothing_doubt(self.smoothed, shape_names(self.study)):
            log.warning("%s: %s", space_label, doubt)

    @property
    def _centre(self) -> Nu:
        return (0.0,) * self._reference_events.response.n_nuisances

    @cached_property
    def _reference_events(self) -> LatentEvents:
        return self._latent("reference", self.embedded_reference)

    @cached_property
    def _bases(self) -> tuple[GaussianBasis, ...]:
        """Return the bumps of all tests of the space, as the stage `tune` will choose them."""
        events, share = self._reference_events, 1.0
        if events.weights is not None:
            share = effective_number(positive_weights(events.z, events.weights)) / len(events)
        configurations = [c for c in self.study.configurations if space(c) == self.where]
        tuned = dict.fromkeys(t for c in configurations for t in tuned_on_bumps(self.study, c).values())
        convex = [test for test in tuned if isinstance(test, TunedConvex)]
        convex = convex or [reach_convex(self.study, self.where[0])]
        bases = _bumps([test.choose(self.basis, share).basis for test in convex])
        for several in (test for test in tuned if isinstance(test, TunedAdaptive)):
            bases += several.choose(self.basis, share).members.scales
        if any("network" in self.study.tests_of(c) for c in configurations):
            bases += tuple(replace(bumps, width=_FINE * bumps.width) for bumps in bases)
        return bases

    def _tolerated(self, n_columns: int) -> float:
        """Return the errors by which sums may be negative: all pools of the study have many places."""
        study = self.study
        signals = len(study.signals) * len(signal_points(study))
        pools = len(study.spaces) * (1 + len(study.points) + n_prior_points(study) + signals)
        return tolerated_negative(pools * (n_columns + self._bases[0].n_ridged + 2**_DEPTH))

    def _latent(self, name: str, embedded: Embedded) -> LatentEvents:
        """Return standardised events with their response; without weights where all are the same.

        Raise NegativeExpectationError if the weights have no positive sum.
        """
        z, weights = embedded.z, embedded.weights
        if len(weights) and (total := weights.sum()) <= 0:
            raise NegativeExpectationError(
                f"the pool '{name}': the weights of its {len(weights)} events add up to {total:g}, which is "
                "no expectation: check their signs, or simulate more events"
            )
        if not len(weights) or (weights == weights[0]).all():
            return LatentEvents(self.scale(z), response_of(self.model, z))
        there = weights != 0.0
        return LatentEvents(self.scale(z[there]), response_of(self.model, z[there]), weights[there])

    def _pool(self, name: str, nu: Nu, events: LatentEvents, yield_ratio: float) -> Pool:
        signed = events.weights
        if signed is None or (signed > 0).all():
            return Pool(events, yield_ratio)
        columns, places = self._columns(events)
        tolerated = self._tolerated(columns.shape[1])
        decisive = name in ("reference", "data") and nu == self._centre
        try:
            smoothing = smooth(columns, signed, places, TOLERATED_NEGATIVE if decisive else tolerated)
            bumps, cells = (
                SmoothingClosure.of(smoothing, columns, signed, functions, tolerated)
                for functions in (self._other_bumps(events.z), _cells(events.z, signed))
            )
        except NegativeExpectationError as failure:
            at = nu_text(nu, shape_names(self.study))
            raise NegativeExpectationError(f"the pool '{name}' at {at}: {failure}") from failure
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
                bumps=_checked(bumps),
                cells=_checked(cells),
                moves=_moves(cells, self.study.sizes.expected),
            )
        )
        return Pool(replace(events, weights=smoothing.weights), yield_ratio, signed=signed)

    def _columns(self, events: LatentEvents) -> tuple[Float32, list[str]]:
        """Return what the tests see of events, and where: their bumps, the response and a constant."""
        g, quadratic = events.response.linear, events.response.quadratic
        answers = [g[:, k] for k in range(g.shape[1])]
        names = [f"the response to nuisance {k}" for k in range(g.shape[1])]
        if quadratic is not None:
            for k, other in zip(*np.triu_indices(g.shape[1]), strict=True):
                answers.append(quadratic[:, k, other])
                names.append(f"the second order of the response to nuisances {k} and {other}")
        widths = [basis.n_columns for basis in self._bases]
        columns = np.ones((len(events), sum(widths) + len(answers) + 1), dtype=np.float32)
        for basis, end in zip(self._bases, np.cumsum(widths), strict=True):
            basis.fill(events.z, columns[:, end - basis.n_columns : end])
        for number, answer in enumerate(answers, start=sum(widths)):
            columns[:, number] = answer
        return columns, [
            *(place for basis in self._bases for place in bump_places(basis)),
            *names,
            "all of z",
        ]

    def _other_bumps(self, z: Float32) -> Functions:
        """Return bumps that the smoothing does not know, narrow and elsewhere; none of too few points."""
        firsts = {basis.dimensions: basis for basis in reversed(self._bases)}
        try:
            others = tuple(self._elsewhere(firsts[seen], z) for seen in reversed(firsts))
        except (DatasetError, TooFewEventsError):  # hardly any events, or copies of a few
            return Functions.none(z)
        return Functions.of_bumps(StackedBasis(others, constant=False), z)

    def _elsewhere(self, basis: GaussianBasis, z: Float32) -> GaussianBasis:
        bumps, seed = min(basis.n_ridged, len(z) // 2), derived_seed(self.study, "smoothing")
        other = GaussianBasis.from_pool(z, bumps, seed, _FINE * basis.width, basis.dimensions)
        return replace(other, constant=False)


def _cells(z: Float32, weights: Float64) -> Functions:
    """Return cells of all of z, which the smoothing does not know."""
    depth = int(np.log2(max(effective_number(weights) / _EVENTS_PER_CELL, 2.0)))
    return Functions.of_cells(AdaptiveCells.build(z, min(_DEPTH, depth)).index(z), z)


def _bumps(bases: Sequence[Basis]) -> tuple[GaussianBasis, ...]:
    """Return the bumps of bases without their constants, which are one and the same."""
    return tuple(
        replace(bumps, constant=False)
        for basis in bases
        if isinstance(basis, GaussianBasis | StackedBasis)
        for bumps in basis.by_width
    )


def _checked(closure: SmoothingClosure) -> ClosureCheck:
    pull = float(np.abs(closure.pulls).max(initial=0.0))
    return ClosureCheck(len(closure.signed), pull, closure.chi2, closure.dof, closure.p_value)


def _moves(cells: SmoothingClosure, expected: float) -> float:
    """Return what the difference in cells adds to a chi2 of `expected` data, without its own noise."""
    excess = (cells.smoothed - cells.signed) ** 2 - np.diag(cells.covariance)
    filled = cells.smoothed > 0
    return expected * float(np.sum(excess[filled] / cells.smoothed[filled]) / cells.smoothed.sum())
