"""Decays against closed forms: spectra, angles, branching fractions, masses."""

import numpy as np
import pytest

from covad.simulation.kinematics import FourMomentum, delta_phi
from covad.simulation.parametric import decays
from covad.simulation.parametric.products import ABSENT, ELECTRON, MUON, TAU

N = 40_000


@pytest.fixture
def rng():
    return np.random.default_rng(1777)


@pytest.mark.parametrize("helicity", [1.0, -1.0])
def test_leptonic_tau_spectrum(rng, helicity):
    share, flavour = decays.decay_tau(rng, np.full(N, helicity))
    leptonic = share[flavour != ABSENT]
    # Mean of (5 - 9 x^2 + 4 x^3 + h (1 - 9 x^2 + 8 x^3)) x / 3: 7/20 for none, -1/20 * h on top of it.
    expected = 0.35 - 0.05 * helicity
    # 5 sigma of a mean with rms below 0.25, false alarm 6e-7.
    assert leptonic.mean() == pytest.approx(expected, abs=5 * 0.25 / np.sqrt(len(leptonic)))
    assert leptonic.min() >= 0.0
    assert leptonic.max() <= 1.0


@pytest.mark.parametrize("helicity", [1.0, -1.0])
def test_hadronic_tau_share_follows_the_helicity(rng, helicity):
    share, flavour = decays.decay_tau(rng, np.full(N, helicity))
    hadronic = share[flavour == ABSENT]
    expected = 0.0
    for fraction, mass, analyser in decays.TAU_RESONANCES:
        ratio = (mass / decays.TAU_MASS) ** 2
        expected += fraction * ((1 + ratio) / 2 + (1 - ratio) / 2 * analyser * helicity / 3)
    # 5 sigma of a mean with rms below 0.3, false alarm 6e-7.
    assert hadronic.mean() == pytest.approx(expected, abs=5 * 0.3 / np.sqrt(len(hadronic)))


def test_tau_branching_fractions(rng):
    _, flavour = decays.decay_tau(rng, np.ones(N))
    for code, fraction in ((ELECTRON, decays.TAU_TO_ELECTRON), (MUON, decays.TAU_TO_MUON)):
        # 5 sigma binomial, false alarm 6e-7 each.
        assert (flavour == code).mean() == pytest.approx(fraction, abs=5 * np.sqrt(fraction / N))


@pytest.mark.parametrize(
    ("draw", "mean", "mean_square"),
    [(decays.squared_cosine, 1 / 2, 2 / 5), (decays.even_cosine, 0.0, 2 / 5)],
)
def test_decay_angles(rng, draw, mean, mean_square):
    cosine = draw(rng, N)
    # 5 sigma of means of numbers between -1 and 1, false alarm 6e-7 each.
    assert cosine.mean() == pytest.approx(mean, abs=5 / np.sqrt(N))
    assert (cosine**2).mean() == pytest.approx(mean_square, abs=5 / np.sqrt(N))


def test_linear_cosine_has_its_slope(rng):
    cosine = decays.linear_cosine(rng, np.full(N, 0.6))
    assert cosine.mean() == pytest.approx(0.2, abs=5 / np.sqrt(N))


def test_charged_lepton_keeps_electrons_and_muons_and_drops_the_rest(rng):
    lepton = FourMomentum.from_pt_rapidity(np.full(4, 30.0), np.zeros(4), np.arange(4.0), 0.0)
    channel = np.array([ELECTRON, MUON, decays.HADRONIC, decays.NEUTRINOS], dtype=np.int8)
    products = decays.charged_lepton(rng, lepton, channel, np.ones(4))
    np.testing.assert_array_equal(products.flavour[:, 0], [ELECTRON, MUON, ABSENT, ABSENT])
    np.testing.assert_allclose(products.leptons.pt[:, 0], [30.0, 30.0, 0.0, 0.0])
    assert not products.narrow.e.any()


def test_a_tau_gives_a_lepton_or_a_narrow_jet_along_itself(rng):
    tau = FourMomentum.from_pt_rapidity(np.full(N, 40.0), np.full(N, 0.7), np.full(N, 2.0), 0.0)
    products = decays.charged_lepton(rng, tau, np.full(N, TAU, dtype=np.int8), np.ones(N))
    lepton, jet = products.leptons[:, 0], products.narrow[:, 0]
    np.testing.assert_array_equal(lepton.e > 0, products.flavour[:, 0] != ABSENT)
    assert not ((lepton.e > 0) & (jet.e > 0)).any()
    visible = (lepton + jet).pt_eta_phi()
    assert (visible[:, 0] < 40.0 + 1e-9).all()
    seen = visible[:, 0] > 0
    np.testing.assert_allclose(visible[seen, 1:], np.tile([0.7, 2.0], (seen.sum(), 1)), rtol=1e-9)


def test_channels_have_their_fractions(rng):
    w = decays.w_channel(rng, N)
    z = decays.z_channel(rng, N)
    # 5 sigma binomial, false alarm 6e-7 each.
    assert (w == TAU).mean() == pytest.approx(decays.W_TO_EACH_LEPTON, abs=5 * np.sqrt(0.11 / N))
    assert (w == decays.HADRONIC).mean() == pytest.approx(0.675, abs=5 * 0.5 / np.sqrt(N))
    assert (z == decays.NEUTRINOS).mean() == pytest.approx(0.2, abs=5 * 0.4 / np.sqrt(N))
    assert (z == decays.BOTTOM).mean() == pytest.approx(decays.Z_TO_BOTTOM, abs=5 * 0.36 / np.sqrt(N))


def test_hadronic_tops_have_the_masses_of_top_and_w(rng):
    top = FourMomentum.from_pt_rapidity(
        np.full(4000, 100.0), np.full(4000, 0.5), np.zeros(4000), decays.TOP_MASS
    )
    products = decays.decay_top(rng, top)
    hadronic = (products.light.e > 0).all(axis=1)
    first, second = products.light[hadronic, 0], products.light[hadronic, 1]
    bottom = products.bottom[hadronic, 0]
    np.testing.assert_allclose((first + second + bottom).mass, decays.TOP_MASS, rtol=1e-6)
    # The W peak is 2 GeV wide: its median is the pole within 5 sigma, false alarm 6e-7.
    assert np.median((first + second).mass) == pytest.approx(decays.W_MASS, abs=0.3)


def test_top_leptons_follow_the_w_polarisation(rng):
    # <cos> = 0 for longitudinal and -1/2 for left-handed W bosons: 5 sigma, false alarm 6e-7.
    cosine = decays.top_lepton_cosine(rng, N)
    assert cosine.mean() == pytest.approx(-0.5 * (1 - decays.LONGITUDINAL_W), abs=5 / np.sqrt(N))


def test_fermions_of_a_boson_at_rest_are_back_to_back(rng):
    boson = FourMomentum(*np.zeros((3, 50)), np.full(50, 91.0))
    first, second = decays.decay_vector(rng, boson, rng.uniform(-1, 1, 50))
    np.testing.assert_allclose(np.abs(delta_phi(first.phi, second.phi)), np.pi)
    np.testing.assert_allclose(first.e, 45.5)
