"""The adaptive test where z has several parts: each has bumps and members of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from covad.errors import DatasetError
from covad.nplm.adaptive.adaptive import AdaptiveTest
from covad.nplm.adaptive.members import Member, Members, choose_members
from covad.nplm.adaptive.shared import SharedMoments
from covad.nplm.convex.basis import evaluate
from covad.nplm.convex.family import ConvexFamily
from covad.nplm.likelihood import fit_nuisances
from covad.nplm.settings import AdaptiveSettings, Parts, Sizes
from covad.nplm.statistic import likelihood_ratio
from covad.toys import latent_world as latent
from covad.toys.drawing import LatentSource
from covad.toys.latent_world import LatentWorld

SIZES = Sizes(expected=600.0, reference=3_000)
SETTINGS = AdaptiveSettings(capacities=(4.0, 10.0), bumps=(12, 25), together=(3.0,))
POOL = latent.background(3_000, np.random.default_rng(1))
PARTS: Parts = (("first", 1), ("others", 3))
MEMBERS = choose_members(POOL, SETTINGS, SIZES, PARTS)
WORLD = LatentWorld(n_reference=3_000, expected=600.0)


def test_every_part_has_the_members_that_it_would_have_alone() -> None:
    parts = (POOL[:, :1], POOL[:, 1:])
    alone = [choose_members(np.ascontiguousarray(part), SETTINGS, SIZES) for part in parts]
    for own, theirs in zip(MEMBERS.scales, [s for each in alone for s in each.scales], strict=True):
        np.testing.assert_allclose(own.centres, theirs.centres, rtol=1e-12)
        assert own.width == theirs.width
    for mine, other in zip(MEMBERS.members, [m for each in alone for m in each.members], strict=True):
        assert (mine.spread, mine.ridge) == (other.spread, pytest.approx(other.ridge, rel=1e-6))
    names = [f"{part}, {name}" for (part, _), each in zip(PARTS, alone, strict=True) for name in each.names]
    assert list(MEMBERS.names) == names
    assert MEMBERS.names[0] == "first, capacity 4, spread 3"


def test_bumps_of_a_part_do_not_see_the_other() -> None:
    moved = POOL + np.array([0.0, 0.3, -0.2, 0.1], np.float32)
    for scale in MEMBERS.scales:
        unmoved = np.array_equal(evaluate(scale, POOL), evaluate(scale, moved))
        assert unmoved == (scale.dimensions == (0,))


def test_the_columns_are_those_of_the_family() -> None:
    assert MEMBERS.family is not None
    for own, theirs in zip(MEMBERS.columns, MEMBERS.family.members, strict=True):
        np.testing.assert_array_equal(own, theirs)
    dataset = WORLD.toy(np.random.default_rng(3))
    np.testing.assert_array_equal(
        MEMBERS.family.problem(dataset).data[:, : MEMBERS.basis.n_columns],
        evaluate(MEMBERS.basis, dataset.data),
    )


def test_equal_bumps_of_two_parts_are_two() -> None:
    """Two parts of the same numbers have bumps of one width and centre, which see different columns."""
    twice = np.hstack([POOL[:, :1], POOL[:, :1]])
    found = choose_members(twice, SETTINGS, SIZES, (("a", 1), ("b", 1)))
    first, second = (found.scales[k] for k in (0, len(found.scales) // 2))
    np.testing.assert_array_equal(first.centres, second.centres)
    assert ConvexFamily.of(found.tests).basis.n_ridged == found.basis.n_ridged


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ((("a", 1), ("b", 2)), "z has 4 dimensions, its parts have others: a with 1, b with 2"),
        ((("a", 2), ("a", 2)), "its parts have others: a with 2, a with 2"),
    ],
)
def test_parts_are_all_of_z_once(parts: Parts, told: str) -> None:
    with pytest.raises(DatasetError, match=told):
        choose_members(POOL, SETTINGS, SIZES, parts)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"parts": ("first",)}, "there are 4 scales, 4 capacities and the names of 1 parts"),
        ({"capacities": (4.0,)}, "there are 4 scales, 1 capacities"),
        ({"members": (Member((0, 2), 3.0, 1.0),)}, "see different parts of z"),
        ({"members": (Member((4,), 3.0, 1.0),)}, r"a member has the scales \(4,\) of 4"),
    ],
)
def test_members_that_do_not_fit_their_scales_are_refused(change: dict[str, Any], told: str) -> None:
    with pytest.raises(DatasetError, match=told):
        replace(MEMBERS, **change)


@pytest.mark.parametrize("dimensions", [(0, 1), (4,), (-1,), ()])
def test_bumps_see_dimensions_that_are_there(dimensions: tuple[int, ...]) -> None:
    with pytest.raises(DatasetError, match="cannot see the dimensions"):
        replace(MEMBERS.scales[0], dimensions=dimensions)


def test_a_floating_yield_leaves_the_parts() -> None:
    assert MEMBERS.without_constant().names == MEMBERS.names


def test_scales_of_few_values_that_are_alike_are_one() -> None:
    """They were four times the same bumps, and a member with one of them twice has no likelihood."""
    numbers = np.random.default_rng(4).poisson(2.0, size=(3_000, 1)).astype(np.float32)
    pool, sizes = np.hstack([POOL[:, :2], numbers]), Sizes(expected=3_000.0, reference=15_000)
    members = choose_members(pool, AdaptiveSettings(), sizes, (("z", 2), ("n", 1)))
    few = [k for k, part in enumerate(members.parts) if part == "n"]
    assert len(few) == 1
    assert members.capacities[few[0]] < 6.0
    assert members.family is not None
    assert members.family.basis.n_columns == members.basis.n_columns
    alone = choose_members(numbers, AdaptiveSettings(), sizes)
    assert alone.names == tuple(name.removeprefix("n, ") for name in members.names if name.startswith("n, "))


def test_a_sorted_pool_has_the_scales_of_a_shuffled_one() -> None:
    """The first events of a sorted pool are of one corner, where bumps elsewhere have no capacity."""
    rng = np.random.default_rng(7)
    pool = np.vstack([rng.normal(size=(30_000, 2)), rng.normal(6.0, 0.3, size=(15_000, 2))]).astype(
        np.float32
    )
    sizes = Sizes(expected=2_000.0, reference=10_000)
    found = choose_members(pool[::-1].copy(), AdaptiveSettings(), sizes)
    shuffled = choose_members(rng.permutation(pool), AdaptiveSettings(), sizes)
    assert found.capacities == shuffled.capacities == (10.0, 20.0, 45.0, 90.0)


def test_a_test_with_a_bump_twice_is_refused() -> None:
    (scale, *_) = MEMBERS.scales
    twice = Members((scale, scale), (4.0, 4.0), (Member((0, 1), 3.0, 1.0),))
    with pytest.raises(DatasetError, match="the same bump twice"):
        _ = twice.family


def test_scales_of_no_member_are_left_out() -> None:
    """The members did not have the columns of their family, and every toy ended in an error."""
    widest = choose_members(POOL, SETTINGS.changed(together=(), widest=(3.0,)), SIZES, PARTS)
    assert widest.names == ("first, capacity 4, spread 3", "others, capacity 4, spread 3")
    assert len(widest.scales) == 2
    dataset = WORLD.toy(np.random.default_rng(3))
    assert np.isfinite(likelihood_ratio(dataset, AdaptiveTest(widest), 0).t)


def test_t_is_that_of_the_members_alone() -> None:
    dataset = WORLD.toy(np.random.default_rng(3))
    null = fit_nuisances(dataset)
    found = AdaptiveTest(MEMBERS).fit(dataset, null, seed=0)
    alone = [test.fit(dataset, null, seed=0).value - null.value for test in MEMBERS.tests]
    np.testing.assert_allclose(found.member_t, alone, atol=1e-3)


def test_p_is_uniform() -> None:
    """The law knows how members of different parts depend on each other; false alarm: 0.1 %."""
    shared = SharedMoments(MEMBERS, LatentSource(1).reference_sample(20_000))
    test = AdaptiveTest(MEMBERS, shared)
    sample = replace(WORLD, n_reference=20_000).toy(np.random.default_rng(5))
    law = test.nulls(sample, n_reference=WORLD.n_reference).at_yield().law
    toys = (WORLD.toy(np.random.default_rng([6, k])) for k in range(200))
    p = law.sf(np.array([likelihood_ratio(toy, test, seed=0).t for toy in toys]))
    assert stats.kstest(p, "uniform").pvalue > 1e-3
