"""The embedded simulator as a whole: accepted events of every process."""

import numpy as np
import pytest

from covad.errors import SimulationError, UnknownNameError
from covad.events.processes import ADC2021_LAYOUT, PROCESS_NAMES
from covad.simulation.detector import Detector
from covad.simulation.parametric import generate, sample

N = 300
DETECTOR = Detector()


def made(process, seed=1, n_events=N, detector=DETECTOR):
    return generate(process, n_events, np.random.default_rng(seed), detector)


@pytest.fixture(scope="module", params=PROCESS_NAMES)
def events(request):
    return request.param, made(request.param)


def test_events_are_complete_and_labelled(events):
    process, sample_events = events
    assert len(sample_events) == N
    assert sample_events.process_counts() == {process: N}


def test_events_are_physical_and_tidy(events):
    _, sample_events = events
    ADC2021_LAYOUT.check(sample_events.particles, "simulated")
    again, n_mended = ADC2021_LAYOUT.tidy(sample_events.particles)
    assert n_mended == 0
    assert again is sample_events.particles


def test_events_pass_filter_and_acceptance(events):
    _, sample_events = events
    assert DETECTOR.accepts(sample_events.particles).all()
    for name, eta_max, pt_min in (("electron", 3.0, 3.0), ("muon", 2.1, 3.0), ("jet", 4.0, 15.0)):
        objects = sample_events.objects(name)[sample_events.present(name)]
        assert np.abs(objects[:, 1]).max(initial=0) < eta_max
        assert objects[:, 0].min(initial=np.inf) > pt_min


def test_same_seed_same_bytes(events):
    process, sample_events = events
    assert made(process).particles.tobytes() == sample_events.particles.tobytes()
    assert made(process, seed=2).particles.tobytes() != sample_events.particles.tobytes()


@pytest.mark.parametrize("process", ["w", "qcd"])
def test_other_filter_is_followed(process):
    harder = made(process, detector=Detector(lepton_filter=40.0))
    leading = np.maximum(harder.objects("electron")[:, 0, 0], harder.objects("muon")[:, 0, 0])
    assert leading.min() > 40.0


def test_blind_detector_is_refused(monkeypatch):
    monkeypatch.setattr(sample, "MOST_TRIES", 1000)
    with pytest.raises(SimulationError, match=r"'w' events only 0 pass the lepton filter of 23"):
        made("w", detector=Detector(electron_efficiency=0.0, muon_efficiency=0.0))


def test_qcd_has_no_leptons_beyond_its_spectrum():
    with pytest.raises(SimulationError, match="no leptons above 500 GeV"):
        made("qcd", detector=Detector(lepton_filter=600.0))


def test_a_batch_may_lack_one_kind_of_heavy_quark():
    """Few soft leptons are isolated, so that small batches often have no charm at all."""
    detector = Detector(lepton_filter=5.0)
    assert all(len(made("qcd", seed, 1, detector)) == 1 for seed in range(10))


def test_unknown_process_is_refused():
    with pytest.raises(UnknownNameError, match="unknown process 'susy'"):
        made("susy")


def test_no_events_wanted_none_made():
    assert len(made("w", n_events=0)) == 0


@pytest.mark.parametrize("process", PROCESS_NAMES)
def test_only_what_is_invisible_is_missing(process):
    """Visible momentum is what the radiation leaves, without neutrinos and what escapes."""
    rng = np.random.default_rng(5)
    hard = sample.hard_events(process, 3000, rng, 21.0)
    truth = sample.particle_level(rng, hard)
    visible = truth.soft + sum(
        (o[..., :1] * np.stack([np.cos(o[..., 2]), np.sin(o[..., 2])], axis=-1)).sum(axis=1)
        for o in (truth.electrons, truth.muons, truth.jets)
    )
    missing = np.hypot(*(-visible - hard.radiation.escaping).T)
    without_neutrinos = {"z": (hard.products.flavour > 0).all(axis=1), "a4l": _untouched(hard)}
    if process in without_neutrinos:
        # Leptonic tau decays look like prompt leptons here, so a few events do lose momentum.
        assert np.quantile(missing[without_neutrinos[process]], 0.8) < 1e-6
    else:
        assert np.median(missing) > 1.0


def _untouched(hard):
    """Four leptons, and nothing else that decays to neutrinos."""
    products = hard.products
    others = products.flavour[:, 4:].any(axis=1) | products.narrow.e.any(axis=1)
    others |= products.bottom.e.any(axis=1) | products.light.e.any(axis=1)
    return (products.flavour[:, :4] > 0).all(axis=1) & ~others


def test_measured_z_mass_peaks():
    muons = made("z", n_events=2000).objects("muon")[:, :2].astype(float)
    both = (muons[..., 0] > 0).all(axis=1)
    (pt1, eta1, phi1), (pt2, eta2, phi2) = muons[both, 0].T, muons[both, 1].T
    mass = np.sqrt(2 * pt1 * pt2 * (np.cosh(eta1 - eta2) - np.cos(phi1 - phi2)))
    assert both.sum() > 200
    # The resonance holds nearly all pairs above the filter; the median moves by less than 1 GeV.
    assert np.median(mass) == pytest.approx(91.0, abs=1.0)
    assert (np.abs(mass - 91) < 10).mean() > 0.75


def test_missing_momentum_is_opposite_to_the_lepton_in_w_and_along_it_in_qcd():
    angles = {}
    for process in ("w", "qcd"):
        chosen = made(process, n_events=1000)
        electron, muon = chosen.objects("electron")[:, 0], chosen.objects("muon")[:, 0]
        lepton = np.where(electron[:, :1] > muon[:, :1], electron, muon)
        angles[process] = np.abs(
            np.mod(chosen.objects("met")[:, 0, 2] - lepton[:, 2] + np.pi, 2 * np.pi) - np.pi
        )
    # Medians of about 2.9 and 0.8; random angles would have pi / 2.
    assert np.median(angles["w"]) > 2.5
    assert np.median(angles["qcd"]) < 1.2
