import numpy as np
import pytest

pytest.importorskip("fastjet")
pytest.importorskip("awkward")

from covad.simulation.particle_level import FinalState, truth_of


def particles(*events):
    """Events as lists of (pdg id, pt, eta, phi), all massless."""
    rows = [(n, *p) for n, event in enumerate(events) for p in event]
    number, pdg_id, pt, eta, phi = np.array(rows, dtype=float).reshape(-1, 5).T
    p = np.stack([pt * np.cos(phi), pt * np.sin(phi), pt * np.sinh(eta), pt * np.cosh(eta)], axis=1)
    return FinalState(len(events), number.astype(int), pdg_id.astype(int), p)


def test_isolated_lepton_is_no_jet_and_the_recoil_is_one():
    truth = truth_of(particles([(11, 40, 0.5, 0.0), (211, 40, 0.1, np.pi - 0.1)]))
    np.testing.assert_allclose(truth.electrons[0], [(40, 0.5, 0.0)], atol=1e-9)
    np.testing.assert_allclose(truth.jets[0], [(40, 0.1, np.pi - 0.1)], atol=1e-9)
    assert truth.muons.shape == (1, 0, 3)
    np.testing.assert_allclose(truth.soft, 0, atol=1e-9)


def test_lepton_inside_a_jet_stays_in_it():
    truth = truth_of(particles([(13, 20, 0.0, 0.0), (211, 20, 0.1, 0.1)]))
    assert truth.muons.size == 0
    assert truth.jets.shape == (1, 1, 3)
    assert truth.jets[0, 0, 0] == pytest.approx(40, rel=0.01)


@pytest.mark.parametrize(("around", "isolated"), [(0.44, True), (0.46, False)])
def test_isolation_is_the_share_of_pt_around_the_lepton(around, isolated):
    truth = truth_of(particles([(-13, 50, 0.0, 0.0), (211, 50 * around, 0.2, 0.2)]))
    assert bool(truth.muons.size) == isolated


def test_near_photons_belong_to_the_lepton():
    truth = truth_of(particles([(11, 40, 0.0, 0.0), (22, 30, 0.05, 0.0), (22, 3, 0.5, 0.0)]))
    assert truth.electrons[0, 0, 0] == pytest.approx(70)
    assert truth.jets.size == 0
    np.testing.assert_allclose(truth.soft[0], (3, 0), atol=1e-9)


def test_neutrinos_and_very_forward_particles_are_invisible():
    truth = truth_of(
        particles([(12, 50, 0.0, 0.0), (-14, 50, 0.0, 1.0), (16, 9, 0.0, 1.0), (211, 50, 5.1, 0.0)])
    )
    assert truth.jets.size == 0
    np.testing.assert_allclose(truth.soft, 0)


def test_objects_stay_with_their_event_and_momentum_is_kept():
    rng = np.random.default_rng(1)
    kinds = [11, -13, 22, 211, 130]
    events = [
        [(rng.choice(kinds), rng.exponential(8), rng.normal(0, 2), rng.uniform(-3, 3)) for _ in range(n)]
        for n in (40, 1, 0, 60, 25)
    ]
    both = truth_of(particles(*events))
    for i, event in enumerate(events):
        alone = truth_of(particles(event))
        visible = np.array([p for p in event if abs(p[2]) < 5]).reshape(-1, 4)
        total = (visible[:, 1] * np.exp(1j * visible[:, 3])).sum()
        parts = [both.electrons[i], both.muons[i], both.jets[i]]
        found = sum((part[:, 0] * np.exp(1j * part[:, 2])).sum() for part in parts) + both.soft[i] @ (1, 1j)
        assert found == pytest.approx(total, abs=1e-8)
        for name in ("electrons", "muons", "jets"):
            here, there = (np.sort(getattr(t, name)[k, :, 0]) for t, k in ((both, i), (alone, 0)))
            np.testing.assert_allclose(here[here > 0], there)
