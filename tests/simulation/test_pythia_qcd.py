import numpy as np
import pytest

pytest.importorskip("pythia8mc")
pytest.importorskip("fastjet")
pytest.importorskip("awkward")

from covad.simulation import pythia, pythia_qcd
from covad.simulation.detector import Detector
from covad.simulation.pythia_qcd import BOTTOM, CHARM, HADRONS, HeavyFlavourQcd


@pytest.fixture
def few_collisions(monkeypatch):
    """Small batches, for speed."""
    monkeypatch.setattr(pythia_qcd, "BATCH_COLLISIONS", 20)


@pytest.fixture(scope="module")
def source():
    return HeavyFlavourQcd(np.random.default_rng(11))


def next_with(source, flavour):
    """The quarks and partons of the next collision with a hard quark of this flavour."""
    while True:
        quarks = source.next_heavy()
        if abs(quarks[0]) == flavour:
            return quarks, pythia_qcd.copy_event(source.pythia.event)


def test_hadrons_hold_the_quark_they_are_listed_for(source):
    charge3 = source.pythia.particleData.chargeType
    for flavour, hadrons in HADRONS.items():
        for hadron in hadrons:
            digits = [int(d) for d in str(abs(hadron))[:-1]]
            assert flavour in digits
            assert (hadron < 0) == (flavour == BOTTOM and abs(hadron) < 1000)
            assert charge3(hadron) % 3 == 0


def test_antiquarks_have_the_antiparticles():
    assert pythia_qcd.hadrons_with(-BOTTOM) == tuple(-h for h in HADRONS[BOTTOM])
    assert pythia_qcd.hadrons_with(CHARM) == HADRONS[CHARM]


def test_branching_fractions_are_those_of_heavy_hadrons(source):
    assert source.fractions[511] == pytest.approx(0.2, abs=0.06)
    assert source.fractions[421] == pytest.approx(0.13, abs=0.03)
    assert source.fractions[411] == pytest.approx(0.33, abs=0.04)


def decays_of(source, flavour, n_collisions, n_hadronisations):
    """Charged leptons from every decay of a heavy hadron, on the forced side and on the other one.

    The codes are multiplied by the sign of the forced quark.
    """
    forced, free = [], []
    for _ in range(n_collisions):
        quarks, partons = next_with(source, flavour)
        hadrons = pythia_qcd.hadrons_with(quarks[0])
        pythia_qcd.force_semileptonic(source.pythia, hadrons)
        for _ in range(n_hadronisations):
            source.pythia.event.assign(partons)
            assert source.pythia.forceHadronLevel()
            event = source.pythia.event
            for particle in event:
                if abs(particle.id()) in map(abs, hadrons):
                    daughters = [event[i].id() for i in event.daughterList(particle.index())]
                    leptons = [int(np.sign(quarks[0])) * d for d in daughters if abs(d) in (11, 13)]
                    (forced if particle.id() in hadrons else free).append(leptons)
    return forced, free


@pytest.mark.parametrize(("flavour", "leptons"), [(BOTTOM, {11, 13}), (CHARM, {-11, -13})])
def test_forced_side_gives_one_lepton_of_its_charge_and_the_other_side_decays_freely(
    source, flavour, leptons
):
    forced, free = decays_of(source, flavour, n_collisions=4, n_hadronisations=8)
    assert len(forced) > 10
    assert {lepton for found in forced for lepton in found} == leptons
    assert all(len(found) == 1 for found in forced)
    # Less than 0.34 of free decays are semileptonic: that all of ten or more are has a probability < 1e-4.
    assert len(free) > 10
    assert any(not found for found in free)


def test_events_carry_their_collision_and_a_hard_lepton(source, few_collisions):
    truth, collision = source.batch(1)
    assert len(truth) == len(collision) > 0
    assert (np.diff(collision) >= 0).all()
    assert collision.max() < pythia_qcd.BATCH_COLLISIONS
    # Isolation removes most candidates: between none and all of them have a lepton left.
    isolated = (truth.electrons[..., 0].max(axis=1, initial=0) > 20) | (
        truth.muons[..., 0].max(axis=1, initial=0) > 20
    )
    assert 0 < isolated.mean() < 1


def test_reuse_lowers_the_effective_number(few_collisions):
    sample = pythia.simulate("qcd", 30, np.random.default_rng(12), Detector())
    n_collisions = len(np.unique(sample.hard_event))
    assert 1 < sample.n_effective <= n_collisions < 30


@pytest.mark.slow
def test_forced_decays_give_the_spectra_of_free_ones(monkeypatch):
    """The enrichment changes the rate, not the events: lepton pT, MET and jets agree with free decays."""
    from covad.simulation.marginals import Marginals, ks_distance

    forced = pythia.simulate("qcd", 800, np.random.default_rng(13), Detector())
    everything = pythia_qcd.semileptonic_fractions(False)
    monkeypatch.setattr(pythia_qcd, "force_semileptonic", lambda *_: None)
    monkeypatch.setattr(pythia_qcd, "semileptonic_fractions", lambda _: dict.fromkeys(everything, 1.0))
    monkeypatch.setattr(pythia_qcd, "N_DECAYS", 30)
    pythia_qcd.parton_generator.cache_clear()
    free = pythia.simulate("qcd", 250, np.random.default_rng(14), Detector())
    pythia_qcd.parton_generator.cache_clear()
    n = 1 / (1 / forced.n_effective + 1 / free.n_effective)
    for name in ("lepton_pt", "met", "n_jets_15", "jet_pt"):
        distance = ks_distance(Marginals.of(forced.particles), Marginals.of(free.particles), name)
        # 1.95 / sqrt(n) is exceeded once in 1000; four tests: 0.4 %.
        assert distance < 1.95 / np.sqrt(n)
