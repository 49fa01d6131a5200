from dataclasses import replace

import numpy as np
import pytest
from toy_world import CHEAP, results, small_ensemble

from covad.errors import SettingsError
from covad.toys.drawing import LatentSource
from covad.toys.ensembles import Block, Treatment
from covad.toys.tests import TunedAdaptive, TunedConvex, TunedNetwork
from covad.toys.toy import run_block

NETWORK = TunedNetwork(clip=1.0)
ADAPTIVE = TunedAdaptive(capacities=(4.0, 8.0), bumps=(10, 20), expected=500.0, reference=2500)


@pytest.mark.parametrize("treatment", Treatment)
@pytest.mark.parametrize("test", [NETWORK, CHEAP, ADAPTIVE], ids=["network", "convex", "adaptive"])
def test_all_tests_run_with_and_without_nuisances(test, treatment):
    toys = run_block(
        Block(small_ensemble(test, treatment=treatment, expected=500, n_reference=2500), 0, 3)
    ).toys
    assert [toy.reason for toy in toys] == ["", "", ""]
    assert all(toy.t >= 0 for toy in toys)
    assert all(len(toy.nu_tau) == (treatment is Treatment.PROFILED) for toy in toys)


def test_two_nuisances():
    ensemble = small_ensemble(NETWORK, nu=(0.0, 0.0), expected=500, n_reference=2500)
    two = Block(ensemble.__class__(ensemble.draw, NETWORK, LatentSource(2), 1), 0, 2)
    assert [len(toy.nu_tau) for toy in run_block(two).toys] == [2, 2]


def test_a_wider_clip_never_lowers_t_by_much():
    """Same toys, one start each: a wider box holds the narrower one, up to the luck of the start."""
    narrow, wide = (
        [toy.t for toy in run_block(Block(small_ensemble(TunedNetwork(clip=w)), 0, 6)).toys]
        for w in (0.3, 2.0)
    )
    assert np.mean(wide) > np.mean(narrow)


def test_a_network_toy_is_the_same_again():
    block = Block(small_ensemble(NETWORK), 0, 3)
    assert results(run_block(block).toys) == results(run_block(block).toys)


def test_capacity():
    assert TunedNetwork(clip=2.0).capacity == 45
    assert TunedConvex(bumps=100).capacity == 45
    assert TunedConvex(bumps=20).capacity == 11
    assert TunedConvex(bumps=2).capacity == 2
    assert TunedConvex(bumps=20, expected=100.0).capacity == 6
    assert TunedConvex(bumps=20, capacity=7.0).capacity == 7


def test_capacity_of_the_adaptive_test_is_the_largest_of_its_scales():
    assert TunedAdaptive().capacity == TunedAdaptive().capacities[-1]
    assert TunedAdaptive(expected=400.0).capacity == 21


def test_who_knows_the_law_of_t():
    known = {test: test.has_law for test in (TunedNetwork, TunedConvex, TunedAdaptive)}
    assert known == {TunedNetwork: False, TunedConvex: True, TunedAdaptive: True}
    assert ADAPTIVE.chosen(LatentSource(1)).has_law


def test_chosen_members_change_nothing_but_the_time():
    source = LatentSource(1)
    chosen = ADAPTIVE.chosen(source)
    assert chosen.describe() == ADAPTIVE.describe()
    ensemble = small_ensemble(ADAPTIVE, expected=500, n_reference=2500)
    again = replace(ensemble, test=chosen)
    assert again.identity == ensemble.identity
    assert results(run_block(Block(again, 0, 2)).toys) == results(run_block(Block(ensemble, 0, 2)).toys)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"capacities": [20, 10], "bumps": [50, 50]}, "must grow"),
        ({"capacities": [10, 20]}, "bumps has 4 entries, capacities 2"),
        ({"capacities": [60], "bumps": [50]}, "needs more than 50 bumps"),
        ({"spreads": [3, 3]}, "spreads: an entry stands twice"),
        ({"widest": [], "together": []}, "at least one entry of widest, together or spreads"),
    ],
)
def test_members_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(SettingsError, match=message):
        TunedAdaptive(**settings)


def test_a_chosen_basis_changes_nothing_but_the_time():
    source = LatentSource(1)
    chosen = CHEAP.chosen(source)
    assert chosen.settings == CHEAP
    assert chosen.describe() == CHEAP.describe()
    assert chosen.capacity == CHEAP.capacity
    ours, theirs = CHEAP.build(source), chosen.build(source)
    assert ours.ridge == theirs.ridge
    for name, array in ours.basis.arrays().items():
        np.testing.assert_array_equal(array, theirs.basis.arrays()[name])


def test_the_basis_is_no_part_of_what_a_chosen_test_is():
    """It follows from the settings and the source: toys of one ensemble are one, whoever chose the basis."""
    chosen = CHEAP.chosen(LatentSource(1))
    other = replace(chosen, test=replace(chosen.test, ridge=2 * chosen.test.ridge))
    assert chosen == other
    assert hash(chosen) == hash(other)
    assert small_ensemble(chosen).identity == small_ensemble(CHEAP).identity


def test_the_keys_of_the_convex_test_are_frozen():
    """Identities of stored toys are hashed from them."""
    assert CHEAP.describe() == {
        "kind": "convex",
        "bumps": 5,
        "capacity": 3.5,
        "spread": 3.0,
        "seed": 0,
        "expected": 200.0,
        "reference": 1000,
    }


@pytest.mark.parametrize(
    ("test", "settings"),
    [
        (TunedNetwork, {"clip": -1.0}),
        (TunedNetwork, {"clip": "tune"}),
        (TunedNetwork, {"clip": 1.0, "starts": 0}),
        (TunedNetwork, {"clip": 1.0, "hidden": ()}),
        (TunedConvex, {"bumps": 0}),
        (TunedConvex, {"spread": -1.0}),
        (TunedConvex, {"bumps": 5, "capacity": 7.0}),
        (TunedConvex, {"features": 5}),
    ],
)
def test_settings_that_cannot_be_are_refused(test, settings):
    with pytest.raises(SettingsError, match=f"^{test.__name__}: "):
        test(**settings)
