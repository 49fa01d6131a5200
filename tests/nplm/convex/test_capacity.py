from dataclasses import replace

import numpy as np
import pytest

from covad.errors import DatasetError
from covad.nplm.convex.capacity import WidthRule, capacity, default_capacity, with_capacity
from covad.nplm.convex.law import analytic_null
from covad.nplm.settings import Sizes
from covad.toys import latent_world as latent
from covad.toys.latent_world import LatentWorld

POOL = latent.background(20_000, np.random.default_rng(1))
SIZES = Sizes(expected=10_000.0, reference=52_000)


def clustered(n_events):
    """Four narrow clusters far from each other, as the classes of an embedding."""
    rng = np.random.default_rng(2)
    centres = 8.0 * np.eye(4)[rng.integers(4, size=n_events)]
    return (centres + rng.normal(size=(n_events, 4))).astype(np.float32)


@pytest.mark.parametrize("pool", [POOL, clustered(20_000)], ids=["one cluster", "four"])
@pytest.mark.parametrize("target", [15.0, 25.0])
def test_the_capacity_is_the_one_asked_for_whatever_the_space(pool, target):
    test = with_capacity(pool, 50, 3, target, sizes=SIZES)
    assert capacity(test, pool, SIZES) == pytest.approx(target, rel=0.01)


def test_a_sorted_pool_has_the_capacity_of_its_mix():
    pool = clustered(40_000)
    in_order = pool[np.argsort(pool[:, 0])]
    test = with_capacity(in_order, 40, 3, 20.0, sizes=SIZES)
    assert capacity(test, pool, SIZES) == pytest.approx(20.0, rel=0.02)


def test_it_is_the_mean_of_the_analytic_null_but_for_the_nuisances():
    test = with_capacity(POOL, 50, 3, sizes=SIZES)
    world = LatentWorld(n_reference=52_000, expected=10_000.0)
    null = analytic_null(test, world.toy(np.random.default_rng(4)))
    assert null.law.mean == pytest.approx(default_capacity(50, 1e4), abs=1.0)


def test_more_data_need_wider_bumps():
    small, large = (
        with_capacity(POOL, 40, 3, 15.0, sizes=Sizes(expected=n, reference=5 * int(n))) for n in (1e3, 1e5)
    )
    assert large.basis.width > 1.1 * small.basis.width


def test_units_of_the_space_do_not_matter():
    factors = np.array([0.01, 1.0, 30.0, 1000.0], np.float32)
    here, there = (with_capacity(pool, 20, 3) for pool in (POOL, POOL * factors + 5.0 * factors))
    assert here.basis.width == pytest.approx(there.basis.width, rel=1e-3)


def test_the_default_is_that_of_the_network_or_half_of_the_features():
    assert (default_capacity(100, 1e4), default_capacity(20, 1e4)) == (45.0, 11.0)


def test_few_events_bear_less_capacity():
    assert default_capacity(100, 1000.0) == 45.0
    assert default_capacity(100, 200.0) == 11.0
    few = Sizes(expected=200.0, reference=1040)
    assert capacity(with_capacity(POOL, 100, 3, sizes=few), POOL, few) == pytest.approx(11.0, rel=0.01)


@pytest.mark.parametrize("n_bumps", [1, 2, 3])
def test_few_bumps_do_as_well(n_bumps):
    test = with_capacity(POOL, n_bumps, 3, sizes=SIZES)
    assert capacity(test, POOL, SIZES) == pytest.approx(1 + 0.5 * n_bumps, rel=0.01)


def test_narrow_bumps_that_hold_no_event_do_not_hide_the_right_width():
    """In a wide cloud with a dense core most centres of the narrowest bumps are alone."""
    rng = np.random.default_rng(3)
    cloud = rng.standard_t(2.5, size=(20_000, 4)).astype(np.float32)
    assert capacity(with_capacity(cloud, 60, 3, 55.0), cloud, SIZES) == pytest.approx(55.0, rel=0.01)


def cauchy(rng, n_events):
    """Directions at random, distances with the tail of a Cauchy distribution."""
    return (rng.normal(size=(n_events, 4)) / np.abs(rng.normal(size=(n_events, 1)))).astype(np.float32)


def test_heavy_tails_do_not_take_the_centres():
    """On plain standard deviations 21 of the 45 degrees of freedom were left on fresh events."""
    rng = np.random.default_rng(1)
    pool, fresh = cauchy(rng, 20_000), cauchy(rng, 20_000)
    test = with_capacity(pool, 100, 1, sizes=SIZES)
    assert capacity(test, pool, SIZES) == pytest.approx(45.0, rel=0.01)
    assert capacity(test, fresh, SIZES) == pytest.approx(45.0, rel=0.05)


def test_a_column_with_a_heavy_tail_is_resolved_as_the_others():
    """By its standard deviation of a hundred, its bulk would be narrower than any bump."""
    rng = np.random.default_rng(2)
    pool = np.column_stack([rng.standard_cauchy(10_000), rng.normal(size=10_000)]).astype(np.float32)
    scale = with_capacity(pool, 30, 1, sizes=SIZES).basis.scale
    low, high = np.quantile(scale(pool), [0.16, 0.84], axis=0)
    assert 0.2 < (high - low)[0] / (high - low)[1] < 2.0


@pytest.mark.parametrize(("values", "bumps"), [(2, 8), (3, 40), (5, 100)])
def test_discrete_points_have_fewer_bumps(values, bumps):
    """16, 81 and 625 points; the test has what capacity so few can have."""
    pool = np.random.default_rng(3).integers(values, size=(4000, 4)).astype(np.float32)
    test = with_capacity(pool, 100, 1, 45.0, sizes=SIZES)
    assert test.basis.n_ridged == bumps
    assert len(np.unique(test.basis.centres, axis=0)) == bumps
    assert 2.0 < capacity(test, pool, SIZES) <= 45.1


def test_one_binary_dimension_has_one_bump():
    pool = (np.random.default_rng(3).random((4000, 1)) < 0.1).astype(np.float32)
    test = with_capacity(pool, 100, 1, 45.0, sizes=SIZES)
    assert test.basis.n_ridged == 1
    assert capacity(test, pool, SIZES) == pytest.approx(1.5, abs=0.1)


def test_what_the_features_cannot_do_is_said():
    with pytest.raises(DatasetError, match="cannot be had with 20 bumps: it is at most 2"):
        with_capacity(POOL, 20, 3, 35.0)
    with pytest.raises(DatasetError, match="cannot be had: it is at least 1"):
        with_capacity(POOL, 20, 3, 0.5)


def test_one_rule_serves_several_capacities_spreads_and_numbers_of_bumps() -> None:
    """The mean of t, by the eigenvalues of the law, is what was asked for; 1 % is what the rule promises."""
    rule = WidthRule.of(POOL, 60, 3, SIZES)
    for target, spread, n_bumps in ((10.0, 3.0, None), (20.0, 10.0, 60), (20.0, 3.0, 40), (35.0, 10.0, None)):
        test = rule.test(target, spread, n_bumps)
        assert test.basis.n_ridged == (n_bumps or 60)
        assert capacity(test, POOL, SIZES) == pytest.approx(target, rel=0.01)
    alone = with_capacity(POOL, 60, 3, 20.0, 10.0, SIZES)
    shared = rule.test(20.0, 10.0)
    assert (alone.basis.width, alone.ridge) == (shared.basis.width, shared.ridge)


def test_few_events_are_enough_for_the_width() -> None:
    """A fifth of the events moves the capacity by less than 1 %."""
    pool = latent.background(20_000, np.random.default_rng(31))
    rule = WidthRule.of(pool, 60, 3)
    few = replace(rule, events=rule.events[::5]).test(30.0)
    assert capacity(few, pool, Sizes()) == pytest.approx(30.0, rel=0.01)
