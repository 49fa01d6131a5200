"""Several convex tests of one dataset: columns, curvature and passes over the events are shared.

Members are convex tests whose bumps may be the same, or not. Each bump is evaluated once. At the start of the
fits h is zero for all, so that one matrix has the curvature of every member as a block. Then all members
climb at once: a block of events is read for all. Each ends at its own maximum, as exactly as on its own.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from covad.errors import DatasetError
from covad.nplm.convex.basis import GaussianBasis, StackedBasis
from covad.nplm.convex.convex import ConvexProblem, ConvexTest, best_of, columns, tau_fit
from covad.nplm.convex.ridge import TOLERANCE, RidgedLikelihood, climb
from covad.nplm.dataset import Dataset, Float32, Float64
from covad.nplm.fit import Fit, Status, TauFit
from covad.nplm.likelihood import (
    ColumnLikelihood,
    GaussianPenalty,
    estimated_gram,
    grown_sums,
    join_nuisances,
)
from covad.nplm.maximise import Climb, Maximum

Indices = NDArray[np.intp]
#: Width of a bump, and the dimensions that it sees.
_Kind = tuple[float, tuple[int, ...] | None]


@dataclass(frozen=True)
class ConvexFamily:
    """Convex tests on one set of columns: `basis` has each bump of theirs once, and the constant."""

    tests: tuple[ConvexTest, ...]
    basis: StackedBasis
    members: tuple[Indices, ...]  # the columns of `basis` that are those of each test, in its order

    @classmethod
    def of(cls, tests: Sequence[ConvexTest]) -> ConvexFamily:
        """Collect the bumps of the tests. Raise if one has other columns, or if their scales of z differ."""
        if not tests:
            raise DatasetError("a family needs at least one convex test")
        own: list[list[tuple[_Kind, bytes]]] = []  # kind and centre of the bumps of each test
        places: dict[_Kind, dict[bytes, int]] = {}  # the place of a centre among all of a kind
        bumps: list[GaussianBasis] = []
        for test in tests:
            if not isinstance(test.basis, GaussianBasis | StackedBasis) or not test.basis.constant:
                raise DatasetError("the tests of a family need Gaussian bumps and a constant")
            bumps += test.basis.by_width
            own.append(
                [((b.width, b.dimensions), c.tobytes()) for b in test.basis.by_width for c in b.centres]
            )
            if len(set(own[-1])) < len(own[-1]):
                raise DatasetError("a test of a family has the same bump twice")
            for kind, centre in own[-1]:
                alike = places.setdefault(kind, {})
                alike.setdefault(centre, len(alike))
        scale = bumps[0].scale
        if any(not each.scale.equals(scale) for each in bumps):
            raise DatasetError("the tests of a family must have one scale of z: choose them from one pool")
        basis = StackedBasis(
            tuple(
                GaussianBasis(np.array([np.frombuffer(c) for c in alike]), width, scale, False, dimensions)
                for (width, dimensions), alike in places.items()
            )
        )
        first, n_bumps = {}, 0
        for kind, alike in places.items():
            first[kind], n_bumps = n_bumps, n_bumps + len(alike)
        members = tuple(
            np.array([*(first[kind] + places[kind][centre] for kind, centre in mine), n_bumps], np.intp)
            for mine in own
        )
        return cls(tuple(tests), basis, members)

    def problem(self, dataset: Dataset) -> FamilyProblem:
        """Evaluate all columns on a dataset."""
        norm = dataset.normalisation is not None
        return FamilyProblem(
            family=self,
            dataset=dataset,
            reference=columns(self.basis, dataset.reference, dataset.reference_response, norm),
            data=columns(self.basis, dataset.data, dataset.data_response, norm),
        )

    def fit(self, dataset: Dataset, null: Fit) -> tuple[TauFit, ...]:
        """Maximise tau of every member; `null` is the Delta fit. All have an equal part of the seconds."""
        return self.problem(dataset).fits(null)


@dataclass(frozen=True)
class FamilyProblem:
    """One dataset in the columns of a family: (bumps, 1, g, [1])."""

    family: ConvexFamily
    dataset: Dataset
    reference: Float32
    data: Float32

    def fits(self, null: Fit) -> tuple[TauFit, ...]:
        """Maximise tau of every member; `null` is the Delta fit. All have an equal part of the seconds."""
        clock = time.process_time()
        maxima = self.maxima(null)
        heights = np.zeros((self.family.basis.n_columns, len(maxima)), dtype=np.float32)
        for member, (own, best) in enumerate(zip(self.family.members, maxima, strict=True)):
            heights[own, member] = best.theta[: len(own)]
        h_data, h_reference = (
            np.ascontiguousarray((x[:, : len(heights)] @ heights).T) for x in (self.data, self.reference)
        )
        seconds = (time.process_time() - clock) / len(maxima)
        return tuple(
            tau_fit(best, self.dataset, data, reference, seconds)
            for best, data, reference in zip(maxima, h_data, h_reference, strict=True)
        )

    def fit_of(self, member: int, best: Maximum, seconds: float = 0.0) -> TauFit:
        """Return the fit of one member that ended at `best`, with its h."""
        own = self.family.members[member]
        heights = np.zeros(self.family.basis.n_columns, dtype=np.float32)
        heights[own] = best.theta[: len(own)]
        h_data, h_reference = (x[:, : len(heights)] @ heights for x in (self.data, self.reference))
        return tau_fit(best, self.dataset, h_data, h_reference, seconds)

    @cached_property
    def members(self) -> tuple[Indices, ...]:
        """Return the columns of each member, those of the nuisances included."""
        nuisances = np.arange(self.family.basis.n_columns, self.reference.shape[1])
        return tuple(np.append(own, nuisances) for own in self.family.members)

    @cached_property
    def likelihoods(self) -> tuple[RidgedLikelihood, ...]:
        """Return log L of each member, with its ridge, without columns: the sums are those of all."""
        sums, nothing = self.data.sum(axis=0, dtype=np.float64), np.zeros((0, 0), dtype=np.float32)
        nuisances = GaussianPenalty.of_nuisances(self.dataset)
        likelihoods = []
        for test, own in zip(self.family.tests, self.members, strict=True):
            ridge = np.append(test.ridge_by_column, np.zeros(len(nuisances.centre)))
            penalty = nuisances.behind(test.n_parameters).ridged(ridge)
            column_likelihood = ColumnLikelihood(nothing, self.dataset.weights, sums[own], penalty)
            likelihoods.append(RidgedLikelihood(column_likelihood, ridge))
        return tuple(likelihoods)

    def problem(self, member: int) -> ConvexProblem:
        """Return the problem of one member, with columns of its own."""
        test, own = self.family.tests[member], self.members[member]
        nuisances = GaussianPenalty.of_nuisances(self.dataset)
        return ConvexProblem(
            dataset=self.dataset,
            n_basis=test.n_parameters,
            reference=self.reference[:, own],
            data=self.data[:, own],
            ridge=self.likelihoods[member].ridge,
            auxiliary=nuisances.behind(test.n_parameters),
        )

    @np.errstate(over="ignore", invalid="ignore")
    def maxima(self, null: Fit, gram: Float64 | None = None) -> list[Maximum]:
        """Climb to the ridged maximum of every member; `value` is log L there, without the ridge.

        `gram` is the curvature of all columns at the start without penalties, where it is known already:
        it points the way, and does not decide where the climbs end.
        """
        nuisances = join_nuisances(null, self.dataset)
        start = np.append(np.zeros(self.family.basis.n_columns), nuisances)
        if gram is None:
            gram = estimated_gram(self.reference, self.dataset.weights, start)
        climbs = [
            Climb(
                start[own],
                gram[np.ix_(own, own)] + likelihood.penalised.penalty.curvature,
                likelihood.change,
                TOLERANCE,
            )
            for own, likelihood in zip(self.members, self.likelihoods, strict=True)
        ]
        while active := [member for member, climb in enumerate(climbs) if not climb.over]:
            self._step(climbs, active)
        return [
            best_of(self._end(member, climb, start[self.members[member]]), start[self.members[member]], null)
            for member, climb in enumerate(climbs)
        ]

    def _step(self, climbs: list[Climb], active: list[int]) -> None:
        """Read the events once for all climbs that go on."""
        thetas = np.zeros((self.reference.shape[1], len(active)))
        spans = [
            (slice(self.family.basis.n_ridged, None), slice(None))
        ]  # of all: the constant, the nuisances
        for place, member in enumerate(active):
            thetas[self.members[member], place] = climbs[member].theta
            bumps = self.family.members[member][:-1]
            own = slice(int(bumps.min()), int(bumps.max()) + 1)
            if spans[-1][0] == own:
                spans[-1] = own, slice(spans[-1][1].start, place + 1)
            else:
                spans.append((own, slice(place, place + 1)))
        rough = all(climbs[member].precision is np.float32 for member in active)
        precision = np.float32 if rough else np.float64
        totals, slopes = grown_sums(self.reference, self.dataset.weights, thetas, precision, spans)
        for place, member in enumerate(active):
            likelihood, theta = self.likelihoods[member].penalised, climbs[member].theta
            slope = slopes[self.members[member], place]
            climbs[member].tell(*likelihood.ascent_from(theta, float(totals[place]), slope))

    def _end(self, member: int, found: Climb, start: Float64) -> Maximum:
        """Return the maximum of a member, whose climb goes on alone if it did not get there."""
        likelihood = self.likelihoods[member]
        at_maximum = found.converged and not found.is_doubtful
        if at_maximum:
            value = likelihood.log_likelihood(found.theta, found.value)
            best = Maximum(found.theta, value, Status.CONVERGED, found.passes)
            if self.dataset.reference_response.quadratic is None:
                return best
        problem = self.problem(member)
        if not at_maximum:
            alone = climb(problem.likelihood, found.theta if found.is_finite else start)
            best = replace(alone, evaluations=found.passes + alone.evaluations)
        return problem.bent(best, start)
