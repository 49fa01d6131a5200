"""The profiled chi2 in cells: a chi2 without nuisances, and calibrated where nu is not 0."""

import numpy as np
import pytest

from covad.nplm.dataset import Dataset, Response
from covad.toys import latent_world as latent
from covad.toys.latent_world import LatentWorld
from covad.yardsticks.cells import ProfiledCells
from covad.yardsticks.yardstick import SeenToy

WORLD = LatentWorld(8000, 1600.0)


@pytest.fixture(scope="module")
def cells() -> ProfiledCells:
    return ProfiledCells.of(latent.background(4000, np.random.default_rng(0)), 1600.0)


def seen(dataset: Dataset) -> SeenToy:
    return SeenToy(dataset, {"z": dataset.reference}, {"z": dataset.data})


def test_cells_have_enough_events(cells):
    assert len(cells.cells) == 64
    assert len(ProfiledCells.of(latent.background(4000, np.random.default_rng(0)), 100.0).cells) == 4


def test_without_nuisances_it_is_a_chi2_of_counts(cells):
    toy = WORLD.toy(np.random.default_rng(1))
    n_reference, n_data = len(toy.reference), len(toy.data)
    known = Dataset(
        toy.reference, toy.data, toy.weights, Response.none(n_reference), Response.none(n_data), np.empty(0)
    )
    expected, counts = (np.bincount(cells.cells.index(z), minlength=64) for z in (toy.reference, toy.data))
    scale = toy.weights[0]
    chi2 = ((counts - scale * expected) ** 2 / (scale * expected * (1 + scale))).sum()
    assert cells.statistic(seen(known), 0) == pytest.approx(chi2)


@pytest.mark.parametrize("nu", [0.0, 2.0])
def test_its_null_has_the_mean_of_a_chi2_wherever_nu_is(cells, nu):
    """60 toys of 64 + 2 terms, two of which are fitted: 64 +- 1.5, and 5 are more than three of them."""
    toys = [WORLD.toy(np.random.default_rng([2, i]), nu=np.array([nu])) for i in range(60)]
    assert np.mean([cells.statistic(seen(toy), 0) for toy in toys]) == pytest.approx(64.0, abs=5.0)
