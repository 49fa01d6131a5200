"""The tests that an ensemble can name, by their settings. Solvers are imported where toys are computed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

from pydantic import Field

from covad.nplm.adaptive.adaptive import AdaptiveTest
from covad.nplm.adaptive.members import choose_members
from covad.nplm.adaptive.shared import EVENTS, SharedMoments
from covad.nplm.convex.capacity import (
    EVENTS_PER_CAPACITY,
    default_capacity,
    with_capacity,
    with_capacity_in_parts,
)
from covad.nplm.convex.convex import ConvexTest
from covad.nplm.dataset import Float32
from covad.nplm.fit import NplmTest
from covad.nplm.network.architecture import count_parameters
from covad.nplm.settings import AdaptiveSettings, ConvexSettings, NetworkSettings, Parts, Sizes
from covad.settings import Count, Positive
from covad.toys.ensembles import Source


class TunedNetwork(NetworkSettings):
    """The paper's network in a latent space of so many `dimensions`, all weights within +-`clip`."""

    has_law: ClassVar[bool] = False

    clip: Positive
    dimensions: Count = 4

    @property
    def widths(self) -> tuple[int, ...]:
        """Layers from the latent space to the output: 4-4-4-1 in the paper."""
        return (self.dimensions, *self.hidden, 1)

    @property
    def capacity(self) -> float:
        """One for each weight and bias, 45 for 4-4-4-1: `clip` is tuned to that."""
        return float(count_parameters(self.widths))

    def describe(self) -> dict[str, Any]:
        """Return the settings under frozen keys: the identity of stored toys is hashed from them.

        A setting that is added later enters where it differs from its default: stored toys keep theirs.
        """
        settings = {
            "kind": "network",
            "clip": self.clip,
            "widths": self.widths,
            "starts": self.starts,
            "hops": self.hops,
        }
        known = {"clip", "dimensions", "hidden", "starts", "hops"}
        return settings | self.model_dump(mode="json", exclude=known, exclude_defaults=True)

    def build(self, source: Source) -> NplmTest:  # noqa: ARG002
        from covad.nplm.network.network import NetworkTest
        from covad.nplm.network.search import Search

        return NetworkTest(self.clip, self.widths, Search(starts=self.starts, hops=self.hops))


class TunedConvex(ConvexSettings, Sizes):
    """h as a ridge on bumps whose centres are drawn from events of the source that no toy uses.

    They are as wide as makes `capacity` the mean of t under the null in datasets of these sizes. Centres,
    width and ridge follow from the settings and the source: `chosen` chooses them once for all workers. Each
    of the `parts` of z has so many bumps of its own; without any, bumps see all of z.
    """

    has_law: ClassVar[bool] = True

    capacity: Annotated[float, Field(gt=1.0)] = Field(
        default_factory=lambda given: default_capacity(given["bumps"], given["expected"])
    )
    parts: Parts = ()

    def describe(self) -> dict[str, Any]:
        """Return the settings under frozen keys, as those of the network."""
        settings = {
            "kind": "convex",
            "bumps": self.bumps,
            "capacity": self.capacity,
            "spread": self.spread,
            "seed": self.seed,
            "expected": self.expected,
            "reference": self.reference,
        }
        return settings | self.model_dump(mode="json", exclude=set(settings), exclude_defaults=True)

    def choose(self, events: Float32, reference_share: float = 1.0) -> ConvexTest:
        """Choose centres, width and ridge by their rules, from events that no toy uses.

        `reference_share` is what one reference event is worth, less than 1 if weights are uneven.
        """
        sizes = Sizes(expected=self.expected, reference=max(round(self.reference * reference_share), 1))
        rule = (events, self.bumps, self.seed, self.capacity, self.spread, sizes)
        return with_capacity_in_parts(*rule, self.parts) if self.parts else with_capacity(*rule)

    def chosen(self, source: Source) -> ChosenConvex:
        return ChosenConvex(self, self.choose(source.basis_events(), source.reference_share))

    def build(self, source: Source) -> NplmTest:
        return self.chosen(source).test


class TunedAdaptive(AdaptiveSettings, Sizes):
    """The smallest p over convex tests, whose bumps are chosen as those of the convex test are.

    Each of the `parts` of z has members of its own; without any, members see all of z.
    """

    has_law: ClassVar[bool] = True

    parts: Parts = ()

    @property
    def capacity(self) -> float:
        """Return the largest capacity of a scale."""
        return min(self.capacities[-1], 1.0 + self.expected / EVENTS_PER_CAPACITY)

    def describe(self) -> dict[str, Any]:
        """Return the settings under frozen keys, as those of the network."""
        settings = {
            "kind": "adaptive",
            "capacities": self.capacities,
            "bumps": self.bumps,
            "widest": self.widest,
            "spreads": self.spreads,
            "together": self.together,
            "seed": self.seed,
            "expected": self.expected,
            "reference": self.reference,
            "moments": "shared by toys of a run",
            "law": "next order, within its limit",
        }
        return settings | self.model_dump(mode="json", exclude=set(settings), exclude_defaults=True)

    def choose(self, events: Float32, reference_share: float = 1.0) -> AdaptiveTest:
        """Choose scales and ridges by their rules, from events that no toy uses; see `TunedConvex`."""
        sizes = Sizes(expected=self.expected, reference=max(round(self.reference * reference_share), 1))
        return AdaptiveTest(choose_members(events, self, sizes, self.parts))

    def chosen(self, source: Source) -> ChosenAdaptive:
        return ChosenAdaptive(self, self.choose(source.basis_events(), source.reference_share))

    def build(self, source: Source) -> NplmTest:
        return self.chosen(source).build(source)


@dataclass(frozen=True)
class ChosenTest:
    """A test with its bumps and ridges as they were chosen for a run.

    Toys are known by the settings alone: the bumps follow from them and the source.
    """

    settings: TunedConvex | TunedAdaptive
    test: ConvexTest | AdaptiveTest = field(compare=False, repr=False)

    @property
    def capacity(self) -> float:
        return self.settings.capacity

    @property
    def has_law(self) -> bool:
        return self.settings.has_law

    def describe(self) -> dict[str, Any]:
        return self.settings.describe()

    def build(self, source: Source) -> NplmTest:
        """Return the test; the adaptive one with the moments that toys of the source share."""
        if isinstance(self.test, AdaptiveTest):
            shared = SharedMoments(self.test.members, source.reference_sample(EVENTS))
            return replace(self.test, shared=shared)
        return self.test


@dataclass(frozen=True)
class ChosenConvex(ChosenTest):
    """The convex test with its basis and ridge."""

    settings: TunedConvex
    test: ConvexTest = field(compare=False, repr=False)


@dataclass(frozen=True)
class ChosenAdaptive(ChosenTest):
    """The adaptive test with its members."""

    settings: TunedAdaptive
    test: AdaptiveTest = field(compare=False, repr=False)
