"""The adaptive test where z has several views: each has bumps and members of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from covad.errors import DatasetError
from covad.nplm.adaptive.adaptive import AdaptiveTest
from covad.nplm.adaptive.members import Members, choose_members
from covad.nplm.adaptive.shared import SharedMoments
from covad.nplm.convex.basis import evaluate
from covad.nplm.convex.family import ConvexFamily
from covad.nplm.likelihood import fit_nuisances
from covad.nplm.settings import AdaptiveSettings, Sizes, Views
from covad.nplm.statistic import likelihood_ratio
from covad.toys import latent_world as latent
from covad.toys.drawing import LatentSource
from covad.toys.latent_world import LatentWorld

SIZES = Sizes(expected=600.0, reference=3_000)
SETTINGS = AdaptiveSettings(capacities=(4.0, 10.0), bumps=(12, 25), together=(3.0,))
POOL = latent.background(3_000, np.random.default_rng(1))
VIEWS: Views = (("first", 1), ("others", 3))
MEMBERS = choose_members(POOL, SETTINGS, SIZES, VIEWS)
WORLD = LatentWorld(n_reference=3_000, expected=600.0)


def test_every_view_has_the_members_that_it_would_have_alone() -> None:
    parts = (POOL[:, :1], POOL[:, 1:])
    alone = [choose_members(np.ascontiguousarray(part), SETTINGS, SIZES) for part in parts]
    for own, theirs in zip(MEMBERS.scales, [s for each in alone for s in each.scales], strict=True):
        np.testing.assert_allclose(own.centres, theirs.centres, rtol=1e-12)
        assert own.width == theirs.width
    for mine, other in zip(MEMBERS.members, [m for each in alone for m in each.members], strict=True):
        assert (mine.spread, mine.ridge) == (other.spread, pytest.approx(other.ridge, rel=1e-6))
    names = [f"{view}, {name}" for (view, _), each in zip(VIEWS, alone, strict=True) for name in each.names]
    assert list(MEMBERS.names) == names
    assert MEMBERS.names[0] == "first, capacity 4, spread 3"


def test_bumps_of_a_view_do_not_see_the_other() -> None:
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


def test_equal_bumps_of_two_views_are_two() -> None:
    """Two views of the same numbers have bumps of one width and centre, which see different columns."""
    twice = np.hstack([POOL[:, :1], POOL[:, :1]])
    found = choose_members(twice, SETTINGS, SIZES, (("a", 1), ("b", 1)))
    first, second = (found.scales[k] for k in (0, len(found.scales) // 2))
    np.testing.assert_array_equal(first.centres, second.centres)
    assert ConvexFamily.of(found.tests).basis.n_ridged == found.basis.n_ridged


@pytest.mark.parametrize(
    ("views", "told"),
    [
        ((("a", 1), ("b", 2)), "z has 4 dimensions, its views have others: a with 1, b with 2"),
        ((("a", 2), ("a", 2)), "its views have others: a with 2, a with 2"),
    ],
)
def test_views_are_all_of_z_once(views: Views, told: str) -> None:
    with pytest.raises(DatasetError, match=told):
        choose_members(POOL, SETTINGS, SIZES, views)


def test_every_scale_has_a_view() -> None:
    with pytest.raises(DatasetError, match="4 scales cannot be those of 1 views"):
        Members(MEMBERS.scales, MEMBERS.capacities, MEMBERS.members, views=("first",))


def test_t_is_that_of_the_members_alone() -> None:
    dataset = WORLD.toy(np.random.default_rng(3))
    null = fit_nuisances(dataset)
    found = AdaptiveTest(MEMBERS).fit(dataset, null, seed=0)
    alone = [test.fit(dataset, null, seed=0).value - null.value for test in MEMBERS.tests]
    np.testing.assert_allclose(found.member_t, alone, atol=1e-3)


def test_p_is_uniform() -> None:
    """The law knows how members of different views depend on each other; false alarm: 0.1 %."""
    shared = SharedMoments(MEMBERS, LatentSource(1).reference_sample(20_000))
    test = AdaptiveTest(MEMBERS, shared)
    sample = replace(WORLD, n_reference=20_000).toy(np.random.default_rng(5))
    law = test.nulls(sample, n_reference=WORLD.n_reference).at_yield().law
    toys = (WORLD.toy(np.random.default_rng([6, k])) for k in range(200))
    p = law.sf(np.array([likelihood_ratio(toy, test, seed=0).t for toy in toys]))
    assert stats.kstest(p, "uniform").pvalue > 1e-3
