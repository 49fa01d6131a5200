"""Showers, clustering, isolation and radiation: momentum is conserved, close things merge."""

import numpy as np
import pytest

from covad.simulation.kinematics import FourMomentum, columns
from covad.simulation.parametric import jets as jet_model
from covad.simulation.parametric.jets import isolated
from covad.simulation.parametric.products import Jets, join
from covad.simulation.parametric.radiation import SOFTEST_JET, InitialState, radiate, recoiling

N = 5000
TUNE = InitialState(mean_jets=1.5, clustering=0.4, scale=15.0, tail=4.0, soft=6.0)


@pytest.fixture
def rng():
    return np.random.default_rng(404)


def objects(*pt_eta_phi):
    """One event with massless objects."""
    pt, eta, phi = (np.array([column], dtype=float) for column in zip(*pt_eta_phi, strict=True))
    return FourMomentum.from_pt_rapidity(pt, eta, phi, 0.0)


def test_radiation_balances_what_recoils(rng):
    radiation = radiate(rng, N, TUNE)
    system = recoiling(radiation, np.zeros(N), np.full(N, 91.0))
    balance = radiation.jets.transverse_sum() + radiation.soft + radiation.escaping
    np.testing.assert_allclose(balance[:, 0] + system.px, 0.0, atol=1e-9)
    np.testing.assert_allclose(balance[:, 1] + system.py, 0.0, atol=1e-9)
    np.testing.assert_allclose(system.mass, 91.0, rtol=1e-6)


def test_radiation_has_its_multiplicity_and_threshold(rng):
    radiation = radiate(rng, N, TUNE)
    number = np.bincount(radiation.jets.event, minlength=N)
    # The variance is mean + clustering * mean^2 = 2.4: 5 sigma of the mean, false alarm 6e-7.
    assert number.mean() == pytest.approx(1.5, abs=5 * np.sqrt(2.4 / N))
    assert number.var() > 1.2 * number.mean()
    assert radiation.jets.p.pt.min() >= SOFTEST_JET


def test_active_events_have_harder_jets(rng):
    radiation = radiate(rng, 4 * N, TUNE)
    number = np.bincount(radiation.jets.event, minlength=4 * N)[radiation.jets.event]
    pt = radiation.jets.p.pt
    # About 28 against 22 GeV with an error of 0.3: false alarm far below 1e-9.
    assert pt[number >= 3].mean() > 1.1 * pt[number == 1].mean()


def test_splitting_conserves_momentum(rng):
    partons = radiate(rng, N, TUNE).jets
    tune = jet_model.PartonShower(loss=0.1, splitting=0.8)
    rest, radiated = jet_model.split(rng, partons, tune)
    assert len(radiated.event) > 0
    np.testing.assert_allclose(
        join(rest, radiated).transverse_sum(), partons.transverse_sum(), rtol=1e-9, atol=1e-9
    )


def test_losses_and_cores_add_up(rng):
    partons = radiate(rng, N, TUNE).jets
    cores, outside = jet_model.lose_outside(rng, partons, jet_model.QUARKS)
    np.testing.assert_allclose((cores.p + outside.p).e, partons.p.e)
    # Exponential shares: 5 sigma of the mean, false alarm 6e-7.
    share = outside.p.e / partons.p.e
    assert share.mean() == pytest.approx(jet_model.QUARKS.loss, abs=5 * 0.07 / np.sqrt(len(share)))


def test_neutrinos_only_take_away(rng):
    bottom = radiate(rng, N, TUNE).jets
    left = jet_model.lose_neutrinos(rng, bottom)
    ratio = left.p.e / bottom.p.e
    assert (ratio <= 1.0).all()
    # 5 sigma binomial, false alarm 6e-7.
    chance = jet_model.BOTTOM_DECAYS.chance
    assert (ratio < 1.0).mean() == pytest.approx(chance, abs=5 * 0.5 / np.sqrt(len(ratio)))


def test_close_sprays_become_one_jet_and_soft_ones_none():
    sprays = Jets.from_columns(objects((40, 0.0, 3.1), (20, 0.2, -3.1), (30, 2.0, 1.0), (5, -1.0, 0.0)))
    found, too_soft = jet_model.cluster(sprays)
    pt = np.sort(found.pt[0])[::-1]
    assert (pt > 0).sum() == 2
    assert pt[0] == pytest.approx(60.0, abs=0.5)
    np.testing.assert_allclose(too_soft, [[5.0, 0.0]])


def test_clustering_conserves_momentum(rng):
    sprays = join(radiate(rng, N, TUNE).jets, radiate(rng, N, TUNE).jets)
    found, too_soft = jet_model.cluster(sprays)
    total = Jets.from_columns(found).transverse_sum() + too_soft
    np.testing.assert_allclose(total, sprays.transverse_sum(), atol=1e-9)


def test_no_sprays_no_jets():
    nothing = Jets(3, np.zeros(0, dtype=np.int64), FourMomentum(*np.zeros((4, 0))))
    found, too_soft = jet_model.cluster(nothing)
    assert found.shape == (3, 0)
    np.testing.assert_array_equal(too_soft, np.zeros((3, 2)))


def test_jets_of_chosen_events_are_renumbered():
    p = FourMomentum.from_pt_rapidity(np.array([10.0, 20.0, 30.0]), np.zeros(3), np.zeros(3), 0.0)
    chosen = Jets(3, np.array([0, 2, 2]), p).of(np.array([2, 1]))
    np.testing.assert_array_equal(chosen.event, [0, 0])
    np.testing.assert_allclose(chosen.p.pt, [20.0, 30.0])
    np.testing.assert_allclose(chosen.columns().pt, [[30.0, 20.0], [0.0, 0.0]])


@pytest.mark.parametrize(
    ("spray", "kept"), [((14.0, 0.1, 0.0), False), ((13.0, 0.1, 0.0), True), ((50.0, 0.4, 0.0), True)]
)
def test_isolation_from_hadrons(spray, kept):
    assert isolated(objects((30, 0, 0)), Jets.from_columns(objects(spray))).tolist() == [[kept]]


def test_isolation_from_other_leptons_and_of_none():
    leptons = columns([objects((30, 0, 3.1)), objects((25, 0.1, -3.1)), objects((20, 2, 0)).scaled(0.0)])
    nothing = Jets(1, np.zeros(0, dtype=np.int64), FourMomentum(*np.zeros((4, 0))))
    assert isolated(leptons, nothing).tolist() == [[False, False, False]]
    assert isolated(leptons[:, :1], nothing).tolist() == [[True]]
