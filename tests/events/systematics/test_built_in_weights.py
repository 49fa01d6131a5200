"""Built-in weights: what each weighs, and that nothing moves."""

import numpy as np
import pytest

from covad.errors import CovadError, UnknownNameError
from covad.events.layout import Events
from covad.events.processes import ADC2021_LAYOUT, PROCESS_NAMES
from covad.events.systematics import BUILT_IN_WEIGHTS, Nuisance, make_nuisances
from covad.events.systematics.built_in_weights import (
    VARIABLES,
    JetTagging,
    LeptonEfficiency,
    Slope,
    TriggerEfficiency,
)
from covad.events.systematics.make import make_effect
from covad.simulation.simulate import Simulation

MET, ELECTRON, MUON, JET = (ADC2021_LAYOUT.slots(c).start for c in ("met", "electron", "muon", "jet"))


def event(**objects):
    """Make one event; objects by slot, as (pt, eta, phi)."""
    particles = np.zeros((1, *ADC2021_LAYOUT.shape), dtype=np.float32)
    for slot, values in objects.items():
        particles[0, int(slot.removeprefix("s"))] = values
    return Events(ADC2021_LAYOUT, particles, np.zeros(1, dtype=np.int16), PROCESS_NAMES)


def at(slot, *values):
    return {f"s{slot}": values}


@pytest.fixture(scope="module")
def events():
    return next(Simulation("background", 3000, 5).blocks())


@pytest.mark.parametrize("name", BUILT_IN_WEIGHTS)
def test_only_weights_change_log_linearly_and_not_at_zero(name, events):
    systematic = BUILT_IN_WEIGHTS[name]()
    assert systematic.shift(events, 0.0).weights is None
    once, twice, down = (systematic.shift(events, nu) for nu in (1.0, 2.0, -1.0))
    assert once.events is events
    assert len(np.unique(once.weights)) > 1
    np.testing.assert_allclose(twice.weights, once.weights**2)
    np.testing.assert_allclose(down.weights * once.weights, 1.0)
    assert systematic.shift(events[:0], 1.0).weights is None
    nuisance = Nuisance(name, (systematic,))
    assert nuisance.weighs
    assert not nuisance.moves


def test_lepton_efficiency_sums_over_the_leptons_of_its_collections():
    both = event(**at(ELECTRON, 100.0, 0, 0), **at(MUON, 20.0, 0, 0))
    assert LeptonEfficiency().strength(both) == pytest.approx([0.5 + 1.0])
    assert LeptonEfficiency(collections=("electron",)).strength(both) == pytest.approx([0.5])


def test_the_trigger_turns_on_with_the_hardest_lepton():
    trigger = TriggerEfficiency(threshold=23.0, width=8.0)
    assert trigger.strength(event(**at(ELECTRON, 23.0, 0, 0))) == pytest.approx([1.0])
    both = event(**at(ELECTRON, 31.0, 0, 0), **at(MUON, 24.0, 0, 0))
    assert trigger.strength(both) == pytest.approx([np.exp(-1.0)])
    assert trigger.strength(event()) == pytest.approx([0.0])


def test_tagging_counts_hard_central_jets():
    tagging = JetTagging(most=2)
    jets = event(
        **at(JET, 400.0, 0, 0),  # 2 at most
        **at(JET + 1, 200.0, -3.0, 0),  # not central
        **at(JET + 2, 50.0, 2.0, 0),
        **at(JET + 3, 49.0, 0, 0),  # one too many
        **at(JET + 4, 20.0, 0, 0),  # too soft
    )
    assert tagging.strength(jets) == pytest.approx([3.0])


def test_variables_of_a_slope():
    leptonic = event(
        **at(MET, 30.0, 0, np.pi / 2),
        **at(ELECTRON, 40.0, -1.5, 0),
        **at(MUON, 10.0, 0.5, np.pi),
        **at(JET, 60.0, 0, 0),
        **at(JET + 1, 20.0, 0, np.pi),
    )
    found = {name: float(variable(leptonic)[0]) for name, variable in VARIABLES.items()}
    recoil, soft = np.hypot(30.0, 30.0), np.hypot(30.0, 70.0)
    expected = {"jet_sum": 80.0, "jet_number": 1.0, "lepton_eta": 1.5, "recoil": recoil, "soft": soft}
    assert found == pytest.approx(expected, rel=1e-5)
    slope = Slope(variable="jet_sum", pivot=40.0, width=80.0)
    assert slope.strength(leptonic) == pytest.approx([0.5])
    assert Slope(variable="jet_sum", pivot=0.0, width=1.0).strength(leptonic) == pytest.approx([2.0])


def test_entries_of_a_study_by_name_and_by_built_in():
    by_name, by_key = make_nuisances(
        [
            {"name": "trigger_efficiency", "kind": "weights", "sigma": 0.1},
            {"name": "pdf", "kind": "weights", "built_in": "slope", "variable": "lepton_eta", "only": ["w"]},
        ]
    )
    assert by_name.effects == (TriggerEfficiency(sigma=0.1),)
    assert by_key.name == "pdf"
    assert by_key.acting == [(Slope(name="pdf", variable="lepton_eta"), ("w",))]


@pytest.mark.parametrize(
    ("entry", "error", "message"),
    [
        ({"built_in": "trigger"}, UnknownNameError, "unknown systematic 'trigger' .*trigger_efficiency"),
        ({"built_in": "slope", "varable": "soft"}, CovadError, "'x' has no option 'varable' .*variable"),
        ({"built_in": "slope", "variable": "mass"}, UnknownNameError, "'x': there is no variable 'mass'"),
        ({"built_in": "slope", "width": 0}, CovadError, "'x': width must be positive, not 0"),
        ({"built_in": "jet_tagging", "most": 0}, CovadError, "'x': most must be positive, not 0"),
    ],
)
def test_options_that_cannot_be(entry, error, message):
    with pytest.raises(error, match=message):
        make_effect({"name": "x", "kind": "weights", **entry})
