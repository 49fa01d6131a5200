import sys

import numpy as np
import pytest

pytest.importorskip("pythia8mc")
pytest.importorskip("fastjet")
pytest.importorskip("awkward")

from covad.errors import MissingExtraError, SimulationError, UnknownNameError
from covad.events.processes import ADC2021_LAYOUT, PROCESS_NAMES, process_code
from covad.simulation import pythia, pythia_qcd
from covad.simulation.detector import Detector, Truth


def events_of(process, n_events, seed=1, **settings):
    return pythia.generate(process, n_events, np.random.default_rng(seed), Detector(**settings))


def leptons_of(events):
    """Leptons of both flavours of one event as massless four-vectors."""
    objects = np.concatenate([events.objects("electron"), events.objects("muon")], axis=1).astype(float)
    pt, eta, phi = np.moveaxis(objects, -1, 0)
    return np.stack([pt * np.cos(phi), pt * np.sin(phi), pt * np.sinh(eta), pt * np.cosh(eta)], axis=-1)


@pytest.fixture(autouse=True)
def few_collisions(monkeypatch):
    """Small batches of QCD collisions, for speed."""
    monkeypatch.setattr(pythia_qcd, "BATCH_COLLISIONS", 10)


@pytest.mark.parametrize("process", PROCESS_NAMES)
def test_every_process_gives_the_events_asked_for(process):
    events = events_of(process, 12)
    assert len(events) == 12
    assert events.process_counts() == {process: 12}
    assert Detector().accepts(events.particles).all()
    ADC2021_LAYOUT.check(events.particles, process)
    assert ADC2021_LAYOUT.tidy(events.particles)[1] == 0
    assert events.provenance["engine"] == "pythia8"
    assert 1 <= events.provenance["effective_events"] <= 12


@pytest.mark.parametrize("process", ["w", "qcd"])
def test_events_depend_on_the_random_numbers_only(process):
    first = events_of(process, 6, seed=5)
    other = events_of(process, 6, seed=6)
    again = events_of(process, 6, seed=5)
    assert np.array_equal(first.particles, again.particles)
    assert not np.array_equal(first.particles, other.particles)


def test_z_bosons_have_their_mass():
    events = events_of("z", 100)
    momenta = leptons_of(events)
    pairs = momenta[(momenta[..., 3] > 0).sum(axis=1) == 2].sum(axis=1)
    mass = np.sqrt(pairs[:, 3] ** 2 - (pairs[:, :3] ** 2).sum(axis=1))
    # About 55 pairs: the median of the peak has an error below 0.5 GeV, so that this is 5 sigma.
    assert len(mass) > 25
    assert np.median(mass) == pytest.approx(91.2, abs=2.5)


def test_light_scalar_gives_many_leptons_and_leptoquarks_give_jets():
    n_leptons = (leptons_of(events_of("a4l", 40))[..., 3] > 0).sum(axis=1)
    n_jets = events_of("lq", 40).present("jet").sum(axis=1)
    # Means of 2.7 +- 0.17 and 3.2 +- 0.3 at this size: the bounds are more than 4 sigma away.
    assert n_leptons.mean() > 1.9
    assert n_jets.mean() > 1.9


def test_pileup_setting_reaches_the_events():
    without, with_pileup = (
        events_of("w", 40, pileup_jets=mean).present("jet").sum(axis=1) for mean in (0.0, 3.0)
    )
    # 0.45 and 3.45 jets on average: 9 sigma apart.
    assert with_pileup.mean() > without.mean() + 1.5


def test_effective_number_counts_a_reused_collision_as_a_cluster():
    sample = pythia.PythiaSample(np.zeros((4, *ADC2021_LAYOUT.shape), np.float32), np.array([3, 3, 8, 9]))
    assert sample.n_effective == pytest.approx(16 / 6)
    empty = pythia.PythiaSample(np.zeros((0, *ADC2021_LAYOUT.shape), np.float32), np.zeros(0, np.int64))
    assert empty.n_effective == 0


def test_collected_batches_number_their_collisions_on():
    muons = np.array([[[50.0, 0, 0]], [[0.0, 0, 0]], [[50.0, 0, 0]]])
    truth = Truth(np.zeros((3, 0, 3)), muons, np.zeros((3, 0, 3)), np.zeros((3, 2)))
    detector = Detector(muon_efficiency=1)
    sample = pythia.collect(lambda _: (truth, np.array([0, 1, 1])), 5, np.random.default_rng(0), detector)
    assert sample.hard_event.tolist() == [0, 1, 2, 3, 4]
    assert len(sample.particles) == 5


def test_missing_extra_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "fastjet", None)
    with pytest.raises(MissingExtraError, match=r"\[pythia\]"):
        events_of("w", 1)


def test_unknown_process_and_setting_are_refused():
    with pytest.raises(UnknownNameError, match="zprime"):
        events_of("zprime", 1)
    with pytest.raises(SimulationError, match="Weak:nothing"):
        pythia.start_pythia(("Weak:nothing = on",))


def test_filter_out_of_reach_ends_with_an_error(monkeypatch):
    monkeypatch.setattr(pythia, "MAX_EMPTY_BATCHES", 2)
    with pytest.raises(SimulationError, match="lepton filter of 6000"):
        events_of("w", 5, lepton_filter=6000)


def test_multiparton_interactions_can_be_switched_on():
    rng = np.random.default_rng(2)
    events = pythia.generate("w", 4, rng, Detector(), mpi=True)
    assert events.provenance["mpi"] is True
    assert process_code("w") == events.process[0]
