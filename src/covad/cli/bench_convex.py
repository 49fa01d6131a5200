"""The convex rows of `covad bench toys`: fits, a family of tests, the adaptive test, the choice of bumps.

Each row stands beside a baseline that does the same work plainly, measured in the same run: Newton's method
with a Hessian every step, the members of a family one by one, p of the members of the adaptive test from the
toy's own reference, the rule for the width once for each member.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from covad.nplm.adaptive.adaptive import AdaptiveTest
from covad.nplm.adaptive.members import choose_members
from covad.nplm.adaptive.shared import EVENTS, SharedMoments
from covad.nplm.convex.basis import StackedBasis
from covad.nplm.convex.capacity import WidthRule, with_capacity
from covad.nplm.convex.convex import ConvexProblem, ConvexTest, columns
from covad.nplm.convex.family import ConvexFamily
from covad.nplm.dataset import Dataset, Float32
from covad.nplm.fit import Fit
from covad.nplm.likelihood import fit_nuisances, join_nuisances
from covad.nplm.maximise import maximise
from covad.nplm.settings import AdaptiveSettings, Sizes
from covad.toys.drawing import LatentSource
from covad.toys.latent_world import LatentWorld, background

POOL = 20_000
#: Bumps and spread of the single tests.
SINGLE = ((100, 3.0), (300, 3.0), (100, 10.0), (300, 10.0))
#: Capacity and bumps of the members of the family: the first ones of the same centres.
MEMBERS = ((10.0, 40), (20.0, 60), (45.0, 100), (90.0, 200))
SPREADS = (3.0, 10.0)
#: Part of the expected events that is added as a signal to every second toy: it bends the likelihood.
SIGNAL = 0.01


@dataclass(frozen=True)
class ConvexCost:
    """Best of the rounds, in core-seconds, of something and of its baseline."""

    what: str
    core_seconds: float
    baseline: str
    baseline_core_seconds: float

    @property
    def speedup(self) -> float:
        return self.baseline_core_seconds / self.core_seconds


def family_of(rule: WidthRule) -> tuple[ConvexTest, ...]:
    """Return bumps of four widths with two ridges each, and all of them in one ridge."""
    narrow = [rule.test(capacity, SPREADS[0], bumps) for capacity, bumps in MEMBERS]
    weaker = (SPREADS[0] / SPREADS[1]) ** 2
    tests = [test for strong in narrow for test in (strong, replace(strong, ridge=weaker * strong.ridge))]
    every = StackedBasis(tuple(test.basis for test in narrow))  # type: ignore[misc]
    return (*tests, ConvexTest.with_prior(every, rule.events, SPREADS[0]))


def bench_convex(
    world: LatentWorld, rounds: int, single: tuple[tuple[int, float], ...] = SINGLE
) -> Iterator[ConvexCost]:
    """Measure every row and its baseline in turns."""
    pool = background(POOL, np.random.default_rng(0))
    toys: list[tuple[str, Dataset, Fit]] = []
    for kind, share in (("background", 0.0), ("with a signal", SIGNAL)):
        toy = world.toy(np.random.default_rng([9, len(toys)]), expected_signal=share * world.expected)
        toys.append((kind, toy, fit_nuisances(toy)))
    for bumps, spread in single:
        test = with_capacity(pool, bumps, spread=spread)
        for kind, toy, null in toys:
            yield _compare(
                f"fit, {bumps} bumps, spread {spread:g}, {kind}",
                partial(test.fit, toy, null, 0),
                "Newton with Hessians",
                partial(_newton, test, toy, null),
                rounds,
            )
    family = ConvexFamily.of(family_of(_rule(pool)))
    for kind, toy, null in toys:
        yield _compare(
            f"family of {len(family.tests)}, {family.basis.n_ridged} bumps, {kind}",
            partial(family.fit, toy, null),
            "one by one",
            partial(_one_by_one, family, toy, null),
            rounds,
        )
    yield from _bench_adaptive(pool, world, toys, rounds)
    yield _compare(
        "bumps of the family",
        lambda: family_of(_rule(pool)),
        "width by width",
        lambda: [
            _rule(pool).test(capacity, spread, bumps) for capacity, bumps in MEMBERS for spread in SPREADS
        ],
        rounds,
    )


def _bench_adaptive(
    pool: Float32, world: LatentWorld, toys: list[tuple[str, Dataset, Fit]], rounds: int
) -> Iterator[ConvexCost]:
    """Measure the whole adaptive test, and p of its members alone."""
    sizes = Sizes(expected=world.expected, reference=world.n_reference)
    plain = AdaptiveTest(choose_members(pool, AdaptiveSettings(), sizes))
    sample = LatentSource(world.n_nuisances).reference_sample(EVENTS)
    test = replace(plain, shared=SharedMoments(plain.members, sample))
    for kind, toy, null in toys:
        nu = join_nuisances(null, toy)
        x = columns(plain.basis, toy.reference, toy.reference_response, normalisation=True)
        t = test.fit(toy, null, 0).member_t  # sums over the sample once, for all toys
        yield _compare(
            f"adaptive, {len(plain.members)} members, {kind}",
            partial(test.fit, toy, null, 0),
            "with its own reference",
            partial(plain.fit, toy, null, 0),
            rounds,
        )
        yield _compare(
            f"  of which p of its members, {kind}",
            partial(test.log_p, t, toy, nu),
            "with its own reference",
            partial(plain.log_p, t, toy, nu, x),
            rounds,
        )


def _rule(pool: Float32) -> WidthRule:
    return WidthRule.of(pool, max(bumps for _, bumps in MEMBERS), 0)


def _one_by_one(family: ConvexFamily, toy: Dataset, null: Fit) -> object:
    return [test.fit(toy, null, 0) for test in family.tests]


def _newton(test: ConvexTest, toy: Dataset, null: Fit) -> object:
    problem = ConvexProblem.of(test, toy)
    return maximise(problem.likelihood.penalised, problem.start(null))


def _compare(
    what: str, work: Callable[[], object], baseline: str, plain: Callable[[], object], rounds: int
) -> ConvexCost:
    seconds: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for name, run in (("work", work), ("plain", plain)):
            clock = time.process_time()
            run()
            seconds[name].append(time.process_time() - clock)
    return ConvexCost(what, min(seconds["work"]), baseline, min(seconds["plain"]))
