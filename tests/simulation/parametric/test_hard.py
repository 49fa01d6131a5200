"""Parton-level events of every process: masses peak, momenta balance, flavours and spectra are right."""

import numpy as np
import pytest

from covad.simulation.kinematics import FourMomentum, delta_phi
from covad.simulation.parametric import bosons, heavy_flavour, higgs, pairs
from covad.simulation.parametric.products import ABSENT, ELECTRON, MUON
from covad.simulation.parametric.radiation import radiate

N = 6000


@pytest.fixture
def rng():
    return np.random.default_rng(91)


def total(particles: FourMomentum) -> FourMomentum:
    return FourMomentum(*(getattr(particles, c).sum(axis=1) for c in ("px", "py", "pz", "e")))


def prompt(hard, n_leptons):
    """Events whose first leptons are all electrons and muons and lost nothing to neutrinos or jets."""
    return (hard.products.flavour[:, :n_leptons] != ABSENT).all(axis=1) & ~hard.products.narrow.e.any(axis=1)


def test_z_leptons_are_pairs_with_the_mass_of_the_z(rng):
    products = bosons.z(rng, N).products
    flavour = products.flavour
    # Pairs of one flavour that balance a Z directly; the rest went through taus.
    mass = total(products.leptons).mass
    peak = np.abs(mass - 91.19) < 10
    same = flavour[:, 0] == flavour[:, 1]
    assert (same | ~peak).mean() > 0.97
    # Two thirds are electrons and muons, four fifths of them on the resonance: far from chance.
    assert peak.mean() == pytest.approx(2 / 3 * (1 - bosons.DRELL_YAN.continuum), abs=0.06)
    assert (mass[same & (flavour[:, 0] != ABSENT)] > 29).mean() > 0.9


def test_continuum_falls_below_the_z(rng):
    mass = bosons.dilepton_mass(rng, 40 * N)
    counts = np.histogram(mass, bins=[30, 40, 50, 60])[0]
    assert (np.diff(counts) < 0).all()
    assert mass.min() >= 30.0


def test_w_leptons_have_the_jacobian_edge(rng):
    lepton = bosons.w(rng, 8 * N).products.leptons[:, 0]
    pt = lepton.pt
    below, above = ((pt > 34) & (pt < 40)).sum(), ((pt > 42) & (pt < 48)).sum()
    # Without the edge the ratio of neighbouring bins is near one: far from chance.
    assert below > 1.8 * above


def test_w_plus_leptons_are_more_central_than_w_minus_ones(rng):
    rapidity = np.full(N, 2.5)
    cosine = bosons.w_lepton_cosine(rng, rapidity)
    # W+ dominate at positive rapidity and send the lepton backwards: mean -0.05, 5 sigma below zero.
    expected = -0.5 * 2.5 * bosons.QUARK_DIRECTION * (2 * bosons.W_PLUS_SHARE - 1)
    assert cosine.mean() == pytest.approx(expected, abs=5 * 0.64 / np.sqrt(N))


@pytest.mark.parametrize("process", [bosons.z, higgs.a4l])
def test_visible_leptons_recoil_against_the_radiation(rng, process):
    hard = process(rng, N)
    clean = prompt(hard, hard.products.flavour.shape[1])
    if process is higgs.a4l:
        clean = (hard.products.flavour[:, :4] != ABSENT).all(axis=1)
        clean &= ~hard.products.narrow.e.any(axis=1) & ~hard.products.light.e.any(axis=1)
        clean &= ~hard.products.bottom.e.any(axis=1) & ~hard.products.flavour[:, 4:].any(axis=1)
        clean &= np.abs(total(hard.products.leptons).mass - higgs.A4L_MASS) < 1e-3
    else:
        clean &= np.abs(total(hard.products.leptons).mass - 91.19) < 2
    leptons = total(hard.products.leptons[clean])
    recoil = hard.radiation.recoil[clean]
    assert clean.sum() > 100
    balanced = np.hypot(leptons.px - recoil[:, 0], leptons.py - recoil[:, 1]) < 1e-6
    # A Z -> tau tau that fakes the peak is the only way to be off.
    assert balanced.mean() > 0.98


def test_hard_jets_are_opposite_to_the_boson(rng):
    radiation = radiate(rng, 4 * N, bosons.Z_RADIATION)
    jets = radiation.jets[radiation.jets.p.pt > 30]
    recoil = radiation.recoil[jets.event]
    angle = np.abs(delta_phi(jets.p.phi, np.arctan2(recoil[:, 1], recoil[:, 0])))
    # Random azimuth would have half of them opposite: 5 sigma away for 2000 jets.
    assert (angle > np.pi / 2).mean() > 0.9


def test_four_leptons_have_the_mass_of_the_scalar(rng):
    products = higgs.a4l(rng, N).products
    four = products.leptons[:, :4]
    whole = (products.flavour[:, :4] != ABSENT).all(axis=1)
    mass = total(four[whole]).mass
    assert mass.max() < higgs.A4L_MASS + 1e-6
    # Four prompt leptons come from (2/3)^2 of the pairs; those with taus lie below.
    at_mass = np.abs(mass - higgs.A4L_MASS) < 1e-6
    assert at_mass.sum() / N == pytest.approx(4 / 9, abs=5 * 0.5 / np.sqrt(N))
    pairs_of_one_flavour = products.flavour[whole][at_mass].reshape(at_mass.sum(), -1)[:, :4]
    np.testing.assert_array_equal(pairs_of_one_flavour[:, 0], pairs_of_one_flavour[:, 1])
    np.testing.assert_array_equal(pairs_of_one_flavour[:, 2], pairs_of_one_flavour[:, 3])


def test_virtual_z_masses_fit_into_the_scalar(rng):
    m1, m2 = higgs.virtual_z_masses(rng, N, 50.0)
    assert len(m1) == len(m2) == N
    assert (m1 + m2).max() <= 50.0
    assert min(m1.min(), m2.min()) >= higgs.VIRTUAL_Z_MIN


def test_visible_mass_of_tau_pairs_is_below_the_scalar(rng):
    products = higgs.h0(rng, N).products
    visible = total(products.leptons[:, :2]) + total(products.narrow[:, :2])
    assert visible.mass.max() < higgs.H0_MASS + 1e-6
    assert np.median(visible.mass) < 0.7 * higgs.H0_MASS


def test_leptoquark_products_are_below_its_mass(rng):
    products = pairs.lq(rng, N).products
    for k in (0, 1):
        visible = products.bottom[:, k] + products.leptons[:, k] + products.narrow[:, k]
        assert visible.mass.max() < pairs.LEPTOQUARK_MASS + 1e-6
        assert visible.mass.max() > 0.95 * pairs.LEPTOQUARK_MASS


def test_pairs_have_threshold_and_balance(rng):
    radiation = radiate(rng, N, pairs.TTBAR_RADIATION)
    first, second = pairs.produce_pair(rng, pairs.TTBAR_SPECTRUM, radiation, 173.0, 173.0)
    pair = first + second
    assert pair.mass.min() >= 346.0 - 1e-6
    np.testing.assert_allclose(np.stack([pair.px, pair.py], axis=1), radiation.recoil, atol=1e-6)
    np.testing.assert_allclose(first.mass, 173.0, rtol=1e-6)


def test_top_pairs_have_two_bottoms_and_the_right_leptons(rng):
    products = pairs.ttbar(rng, N).products
    assert (products.bottom.e > 0).all()
    quarks = (products.light.e > 0).sum(axis=1)
    # All-hadronic: 0.675^2, within 5 sigma, false alarm 6e-7.
    assert (quarks == 4).mean() == pytest.approx(0.456, abs=5 * 0.5 / np.sqrt(N))
    assert not products.flavour[quarks == 4].any()


def test_charged_higgs_comes_with_a_top_and_a_spectator(rng):
    products = pairs.hpm(rng, N).products
    assert (products.bottom.e > 0).sum(axis=1).tolist() == [2] * N
    tau_seen = (products.flavour[:, 0] != ABSENT) | (products.narrow[:, 0].e > 0)
    assert tau_seen.all()


def test_qcd_leptons_have_the_spectrum_and_are_in_front_of_their_jets(rng):
    hard = heavy_flavour.qcd(rng, 10 * N, 21.0)
    assert 0.02 * N < len(hard) < 10 * N
    lepton = hard.products.leptons[:, 0]
    assert lepton.pt.min() > 20.9
    assert set(np.unique(hard.products.flavour)) == {ELECTRON, MUON}
    away = hard.products.gluons[:, 0]
    opposite = np.abs(delta_phi(lepton.phi, away.phi)) > np.pi / 2
    # The jet that balances the quark is on the other side, but for hard radiation.
    assert opposite.mean() > 0.85


def test_qcd_neutrinos_fly_with_the_lepton(rng):
    hadron = heavy_flavour.BOTTOM
    decay = heavy_flavour.decay_in_flight(rng, N, hadron)
    np.testing.assert_allclose(decay.fraction.sum(axis=0), 1.0, rtol=1e-9)
    np.testing.assert_allclose(decay.kick_eta.sum(axis=0), 0.0, atol=1e-9)
    assert (decay.fraction >= 0).all()
    # Chosen for hard leptons, they take more than half on average.
    assert decay.fraction[0].mean() > 0.5 > decay.fraction[1].mean()


def test_charm_leptons_are_softer_in_the_rest_frame():
    bottom, charm = (heavy_flavour.lepton_spectrum(h) for h in (heavy_flavour.BOTTOM, heavy_flavour.CHARM))
    assert np.interp(0.5, *bottom) / bottom[1][-1] > np.interp(0.5, *charm) / charm[1][-1]
