"""The members of the adaptive test: convex tests on bumps of several widths, each with its ridge.

A scale is a set of bumps of one width; its bumps stand for one size of excess. All scales together, and a
constant, are one stacked basis, in whose columns every member has its own: one scale with a ridge, or all of
them in one ridge. The rules look at events of the reference alone, never at a signal.

Every part of a joined space has scales and members of its own: bumps in all dimensions at once would dilute
what one of the parts shows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from covad.errors import DatasetError
from covad.nplm.adaptive.next_order import EventSums, drawn_by_leverage, mean_shift
from covad.nplm.convex.basis import Basis, GaussianBasis, StackedBasis, dimensions_of, evaluate
from covad.nplm.convex.capacity import (
    EVENTS_PER_CAPACITY,
    CapacityError,
    capacity,
    some_events,
    with_capacity,
)
from covad.nplm.convex.convex import ConvexTest
from covad.nplm.convex.family import ConvexFamily
from covad.nplm.convex.law import ConvexNull, ScoreMoments
from covad.nplm.dataset import Float32, Float64
from covad.nplm.fit import Fit, TauFit
from covad.nplm.settings import AdaptiveSettings, Parts, Sizes

#: A scale that is limited by the events is left out unless its capacity is this much that of the one before.
_APART = 1.25
#: Relative difference of two spreads below which one of them says nothing new.
_ALIKE = 0.1
#: Share of the largest capacity that a scale takes where its own cannot be had, and of its own that it has.
_WITHIN_REACH, _REACHED = 0.9, 0.95
#: A spread of h that leaves no capacity but that of the constant.
_LEAST_SPREAD = 1e-3
#: The next order moves the mean of t of a member by no more standard deviations than this: beyond it, orders
#: that no law has matter, too. Few reference events, or long tails of few events, bring a ridge there.
LARGEST_SHIFT = 0.06
#: Events that the next order is summed over, and the precision of the log of a spread.
_SUMMED, _PRECISION = 2_000, 0.02


@dataclass(frozen=True)
class Member:
    """One convex test of the family: the numbers of its scales, and the ridge on their bumps."""

    scales: tuple[int, ...]
    spread: float  # of h, that the ridge stands for
    ridge: float

    def moved(self, places: int) -> Member:
        """Return the same member where so many scales come before its own."""
        return replace(self, scales=tuple(places + k for k in self.scales))


@dataclass(frozen=True)
class Members:
    """All members, in the columns of one stacked basis. `scales` have no constant of their own."""

    scales: tuple[GaussianBasis, ...]
    capacities: tuple[float, ...]  # of the scales, for names
    members: tuple[Member, ...]
    constant: bool = True
    parts: tuple[str, ...] = ()  # that the scales see, by name; none if they see all of z

    def __post_init__(self) -> None:
        if not self.members or not self.scales:
            raise DatasetError("an adaptive test needs at least one member")
        if any(scale.constant for scale in self.scales):
            raise DatasetError("the scales of an adaptive test share one constant")
        numbers = {len(self.scales), len(self.capacities), len(self.parts or self.scales)}
        if len(numbers) > 1:
            raise DatasetError(
                f"there are {len(self.scales)} scales, {len(self.capacities)} capacities and the names of "
                f"{len(self.parts)} parts"
            )
        for member in self.members:
            if not member.scales or not set(member.scales) <= set(range(len(self.scales))):
                raise DatasetError(f"a member has the scales {member.scales} of {len(self.scales)}")
            if len({self.scales[k].dimensions for k in member.scales}) > 1:
                raise DatasetError("the scales of a member see different parts of z")

    def __len__(self) -> int:
        return len(self.members)

    @cached_property
    def basis(self) -> StackedBasis:
        return StackedBasis(self.scales, self.constant)

    @cached_property
    def tests(self) -> tuple[ConvexTest, ...]:
        """Return the members as tests of their own."""
        return tuple(ConvexTest(self._basis_of(member), member.ridge) for member in self.members)

    @cached_property
    def family(self) -> ConvexFamily | None:
        """Return the members as tests that are fitted together; None without a constant."""
        return ConvexFamily.of(self.tests) if self.constant else None

    @cached_property
    def columns(self) -> tuple[NDArray[np.intp], ...]:
        """Return which columns of the stacked basis each member has, in its own order."""
        ends = np.cumsum([scale.n_ridged for scale in self.scales])
        parts = np.split(np.arange(ends[-1]), ends[:-1])
        last = [np.array([ends[-1]])] if self.constant else []
        return tuple(np.concatenate([*(parts[k] for k in m.scales), *last]) for m in self.members)

    @property
    def names(self) -> tuple[str, ...]:
        """Return what people call the members: 'capacity 45, spread 3', or 'plain, all widths, spread 3'."""
        return tuple(self._name(member) for member in self.members)

    def without_constant(self) -> Members:
        """Return the same members where the yield is left to a nuisance."""
        return replace(self, constant=False)

    def spread_out(self, member: int, parameters: Float64) -> Float64:
        """Return the parameters of a member as those of the stacked basis: zero where it has no column."""
        stacked = np.zeros(self.basis.n_columns)
        stacked[self.columns[member]] = parameters
        return stacked

    def _basis_of(self, member: Member) -> Basis:
        if len(member.scales) == 1:
            return replace(self.scales[member.scales[0]], constant=self.constant)
        return StackedBasis(tuple(self.scales[k] for k in member.scales), self.constant)

    def _name(self, member: Member) -> str:
        first = member.scales[0]
        part = f"{self.parts[first]}, " if self.parts else ""
        if len(member.scales) > 1:
            return f"{part}all widths, spread {member.spread:g}"
        return f"{part}capacity {self.capacities[first]:.3g}, spread {member.spread:g}"


@dataclass(frozen=True)
class AdaptiveFit(TauFit):
    """The fit of the member that saw most, in the columns of the stacked basis; t and p of all members."""

    member: int
    member_t: Float64
    log_p: Float64

    def statistic(self, null: Fit) -> float:  # noqa: ARG002
        """Return -2 log of the smallest p."""
        return float(-2.0 * self.log_p.min())


def choose_members(pool: Float32, settings: AdaptiveSettings, sizes: Sizes, parts: Parts = ()) -> Members:
    """Choose scales and ridges from events of the reference that no test uses, for every part of z.

    The bumps of a scale are as wide as gives it its capacity with the ridge of the convex test, and no scale
    has more capacity than `sizes` allow (`covad.nplm.convex.capacity`); nor has a member, whose spread is
    lowered to that, and to where its law holds. A single scale is all scales.
    """
    if not parts:
        return _members_of_part(pool, settings, sizes, None)
    scales: tuple[GaussianBasis, ...] = ()
    capacities: tuple[float, ...] = ()
    members: tuple[Member, ...] = ()
    names: tuple[str, ...] = ()
    for name, dimensions in dimensions_of(parts, pool.shape[1]).items():
        try:
            found = _members_of_part(pool, settings, sizes, dimensions)
        except CapacityError as failure:
            raise CapacityError(f"the part {name} of z: {failure}", failure.most) from failure
        members += tuple(member.moved(len(scales)) for member in found.members)
        scales, capacities = scales + found.scales, capacities + found.capacities
        names += (name,) * len(found.scales)
    return Members(scales, capacities, members, parts=names)


def _members_of_part(
    pool: Float32, settings: AdaptiveSettings, sizes: Sizes, dimensions: tuple[int, ...] | None
) -> Members:
    scales: list[GaussianBasis] = []
    capacities: list[float] = []
    most = 1.0 + sizes.expected / EVENTS_PER_CAPACITY
    for number, (target, bumps) in enumerate(zip(settings.capacities, settings.bumps, strict=True)):
        wanted = min(target, most)
        if capacities and wanted < _APART * capacities[-1]:
            break
        seed = np.random.SeedSequence(settings.seed, spawn_key=(number,))
        found = _scale(pool, bumps, seed, wanted, sizes, dimensions)
        if found is None or (capacities and found[1] < _APART * capacities[-1]):
            continue
        scales.append(found[0])
        capacities.append(found[1])
    if not scales:
        raise CapacityError(f"none of the capacities {list(settings.capacities)} can be had")
    events = some_events(pool)
    every = tuple(range(len(scales)))
    asked: list[tuple[tuple[int, ...], float]] = [(every[:1], spread) for spread in settings.widest]
    asked += [((k,), spread) for k in every for spread in settings.spreads]
    asked += [(every, spread) for spread in settings.together]
    rules = {
        numbers: _SpreadRule(StackedBasis(tuple(scales[k] for k in numbers)), events, most, sizes)
        for numbers, _ in asked
    }
    members: list[Member] = []
    for numbers, spread in asked:
        allowed = rules[numbers].largest(spread)
        known = [member.spread for member in members if member.scales == numbers]
        if allowed < spread and any(abs(allowed / other - 1.0) < _ALIKE for other in known):
            continue  # it was lowered to one that is there
        ridge = ConvexTest.with_prior(rules[numbers].basis, events, allowed).ridge
        members.append(Member(numbers, allowed, ridge))
    used = sorted({k for member in members for k in member.scales})
    return Members(
        tuple(scales[k] for k in used),
        tuple(capacities[k] for k in used),
        tuple(replace(m, scales=tuple(map(used.index, m.scales))) for m in dict.fromkeys(members)),
    )


@dataclass(frozen=True, eq=False)
class _SpreadRule:
    """How large a spread may be for the law of a member with this basis to hold.

    Its capacity must not exceed `most`, nor the shift of its mean by the next order LARGEST_SHIFT.
    """

    basis: StackedBasis
    events: Float32
    most: float
    sizes: Sizes

    def largest(self, spread: float) -> float:
        """Return the spread, or the largest one at which the law holds; three digits of it."""
        curvature = self._moments.information + np.diag(self._ridge(np.log(spread)))
        drawn, shares = drawn_by_leverage(self._columns, self._weights, curvature, _SUMMED)
        summed = EventSums(self._columns[drawn], shares, self.sizes.expected / self.sizes.reference)
        if self._beyond(np.log(spread), summed) <= 0.0:
            return spread
        ends = np.log(_LEAST_SPREAD), np.log(spread)
        if self._beyond(ends[0], summed) > 0.0:
            raise CapacityError(
                f"{self.sizes.reference} reference events are too few for the law of the adaptive test, "
                "whatever its ridge: take more of them, or the convex test"
            )
        found = brentq(self._beyond, *ends, args=(summed,), xtol=_PRECISION)
        return float(f"{np.exp(found):.3g}")

    def _beyond(self, log_spread: float, summed: EventSums) -> float:
        """Return by how much a spread is too large, as a share; negative where the law holds."""
        ridge, n = self._ridge(log_spread), self.basis.n_columns
        nothing = np.zeros((n, n))
        law = ConvexNull.of(self._moments, ridge, nothing, n).law
        if law.mean > self.most:
            return law.mean / self.most - 1.0
        shift = mean_shift(summed, self._moments, ridge, nothing, n) / law.std
        return max(law.mean / self.most, shift / LARGEST_SHIFT) - 1.0

    def _ridge(self, log_spread: float) -> Float64:
        return np.append(np.full(self.basis.n_ridged, self._squares * np.exp(-2.0 * log_spread)), 0.0)

    @cached_property
    def _columns(self) -> Float32:
        return evaluate(self.basis, self.events)

    @cached_property
    def _weights(self) -> Float64:
        return np.full(len(self.events), self.sizes.expected / len(self.events))

    @cached_property
    def _moments(self) -> ScoreMoments:
        moments = ScoreMoments.of(self._columns, self._weights, np.ones(len(self.events)))
        return moments.for_reference_of(self.sizes.reference, sampled=len(self.events))

    @cached_property
    def _squares(self) -> float:
        """Return the mean square of h for a unit ridge."""
        return float(np.square(self._columns[:, :-1], dtype=np.float64).sum(axis=1).mean())


def _scale(
    pool: Float32,
    bumps: int,
    seed: np.random.SeedSequence,
    target: float,
    sizes: Sizes,
    dimensions: tuple[int, ...] | None,
) -> tuple[GaussianBasis, float] | None:
    """Return bumps of one width, and their capacity; None if they have more than asked for at any width.

    Discrete data have less capacity than was asked for, and scales that are alike are then one.
    """
    bumps = min(bumps, max(len(pool) // 2, 1))
    target = min(target, 1.0 + bumps / 2.0)
    try:
        test = with_capacity(pool, bumps, seed, target, sizes=sizes, dimensions=dimensions)
    except CapacityError as failure:
        if failure.most is None:
            return None
        target = _WITHIN_REACH * failure.most
        test = with_capacity(pool, bumps, seed, target, sizes=sizes, dimensions=dimensions)
    if not isinstance(test.basis, GaussianBasis):
        raise TypeError("a scale is a basis of bumps of one width")
    there = capacity(test, some_events(pool), sizes)
    return replace(test.basis, constant=False), there if there < _REACHED * target else target
