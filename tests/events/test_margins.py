"""Margins below the cuts: what a sample must hold, so that shifts can lift it over them."""

import numpy as np
import pytest

from covad.events.layout import Events
from covad.events.margins import find_thin_margins
from covad.events.selection import Selection
from covad.events.systematics import (
    JetEnergyResolution,
    JetEnergyScale,
    LeptonEnergyScale,
    MetSoftScale,
    UserSystematic,
)
from covad.simulation.detector import Detector
from covad.simulation.simulate import Simulation


@pytest.fixture(scope="module")
def events() -> Events:
    """Jets from 15 GeV on, a lepton above 20 GeV in every event."""
    return next(iter(Simulation("background", 2000, 1, detector=Detector(lepton_filter=20.0)).blocks()))


def test_the_paper_s_systematics_have_a_margin(events: Events) -> None:
    for systematic in (JetEnergyScale(), JetEnergyResolution(), MetSoftScale(), LeptonEnergyScale()):
        assert find_thin_margins(systematic, events, Selection(), 3.0) == []


def test_jets_from_below_the_threshold_are_missed(events: Events) -> None:
    """23 / 15 is e^{0.2 nu} at nu = 2.1: beyond, jets that lay at the threshold are selected."""
    assert find_thin_margins(JetEnergyScale(sigma=0.2), events, Selection(), 1.5) == []
    (margin,) = find_thin_margins(JetEnergyScale(sigma=0.2), events, Selection(), 3.0)
    assert (margin.objects, margin.cut, margin.nu) == ("jet", 23.0, 3.0)
    assert margin.threshold == pytest.approx(15.0, abs=0.1)
    assert 1.8 < margin.safe < 2.2
    assert "'jet_energy_scale' scales jet, which the sample holds from 15" in str(margin)
    assert "the cut is 23: at nu = +3, " in str(margin)
    assert f"safe up to |nu| = {margin.safe:.2g}" in str(margin)


def test_a_stray_soft_object_hides_no_thin_margin(events: Events) -> None:
    """One jet of 2 GeV, and an event whose only lepton has 3 GeV, say nothing about where a sample begins."""
    particles = events.particles.copy()
    particles[0, events.layout.slots("jet")][0, 0] = 2.0
    leptons = [events.layout.slots(name) for name in ("electron", "muon")]
    for slots in leptons:
        particles[1, slots] = 0.0
    particles[1, leptons[0]][0, 0] = 3.0
    strays = events.with_particles(particles)
    for systematic in (JetEnergyScale(sigma=0.2), LeptonEnergyScale(sigma=0.05)):
        (usual,), (found,) = (
            find_thin_margins(systematic, given, Selection(), 3.0) for given in (events, strays)
        )
        assert found.threshold == pytest.approx(usual.threshold, rel=1e-3)
        assert found.safe == pytest.approx(usual.safe, abs=0.2)


def test_objects_that_are_not_cut_have_no_margin(events: Events) -> None:
    (margin,) = find_thin_margins(JetEnergyScale(), events, Selection(object_minimum={}), 2.0)
    assert margin.safe == pytest.approx(0.0, abs=0.1)
    assert "no cut acts on it" in str(margin)


def test_the_trigger_has_a_margin_of_its_own(events: Events) -> None:
    """No note of the filter is needed: the softest leading lepton tells."""
    (margin,) = find_thin_margins(LeptonEnergyScale(sigma=0.05), events, Selection(), 3.0)
    assert (margin.objects, margin.cut) == ("leading electron or muon", 23.0)
    assert margin.threshold == pytest.approx(20.0, abs=0.1)
    assert 1.7 < margin.safe < 2.8  # 23 / 20 is e^{0.05 nu} at nu = 2.8, 23 / 21 at 1.8


def test_the_user_s_own_systematic_is_tried_too(events: Events) -> None:
    def soft_jets(given: Events, amount: float) -> Events:
        particles = given.particles.copy()
        jets = particles[:, given.layout.slots("jet"), 0]
        jets *= np.exp(amount * np.exp(-jets / 20.0)).astype(np.float32)
        return given.with_particles(particles)

    mild, strong = (UserSystematic("soft_jets", sigma, soft_jets) for sigma in (0.1, 0.5))
    assert find_thin_margins(mild, events, Selection(), 3.0) == []
    (margin,) = find_thin_margins(strong, events, Selection(), 3.0)
    assert (margin.systematic, margin.objects) == ("soft_jets", "jet")
    assert 1.0 < margin.safe < 2.5
