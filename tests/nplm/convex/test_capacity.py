import numpy as np
import pytest

from covad.errors import DatasetError
from covad.nplm.convex.capacity import DatasetSizes, capacity, default_capacity, with_capacity
from covad.nplm.convex.law import analytic_null
from covad.toys import latent_world as latent
from covad.toys.latent_world import LatentWorld

POOL = latent.background(20_000, np.random.default_rng(1))
SIZES = DatasetSizes(10_000.0, 52_000)


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
    small, large = (with_capacity(POOL, 40, 3, 15.0, sizes=DatasetSizes(n, 5 * int(n))) for n in (1e3, 1e5))
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
    few = DatasetSizes(200.0, 1040)
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


def test_what_the_features_cannot_do_is_said():
    with pytest.raises(DatasetError, match="cannot be had with 20 bumps: it is at most 2"):
        with_capacity(POOL, 20, 3, 35.0)
    with pytest.raises(DatasetError, match="cannot be had: it is at least 1"):
        with_capacity(POOL, 20, 3, 0.5)
