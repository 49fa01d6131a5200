"""Entries of one name act together; `only` keeps an effect to its processes."""

import numpy as np
import pytest
from samples import random_events

from covad.events.selection import NO_CUTS
from covad.events.systematics import (
    BadEventError,
    JetEnergyScale,
    LeptonEnergyScale,
    Nuisance,
    ProcessNormalisation,
    Restricted,
    UserSystematic,
    VariedObjects,
    WeightColumns,
    make_nuisances,
    shift_events,
)


def test_only_moves_the_events_of_its_processes():
    events = random_events(300, seed=1)
    everywhere = JetEnergyScale().shift(events, 1.0).events.particles
    found = Restricted(JetEnergyScale(), ("qcd",)).shift(events, 1.0).events.particles
    mine = events.process == 1
    np.testing.assert_array_equal(found[mine], everywhere[mine])
    np.testing.assert_array_equal(found[~mine], events.particles[~mine])
    assert Restricted(JetEnergyScale(), ("ttbar",)).shift(events, 1.0).events is events


def test_a_bad_event_has_its_number_among_all():
    events = random_events(300, seed=1)
    third = np.flatnonzero(events.process == 1)[3]

    def spoil(given, amount):
        particles = given.particles.copy()
        particles[3, 0, 0] = np.nan
        return given.with_particles(particles)

    with pytest.raises(BadEventError, match=f"not finite .* in event {third}$"):
        Restricted(UserSystematic("own", 1.0, spoil), ("qcd",)).shift(events, 1.0)


def test_entries_of_one_name_are_one_nuisance():
    entries = [
        {"name": "jet_energy_scale", "only": ["w"]},
        {"name": "rate", "kind": "normalisation", "uncertainty": 0.5},
        {"name": "jet_energy_scale", "kind": "weights", "up": "a", "down": "b", "only": ["qcd"]},
        {"name": "jes", "kind": "varied", "up": "c", "down": "c"},
        {"name": "model", "kind": "samples", "process": "w", "up": {}},
    ]
    scale, rate, varied, model = make_nuisances(entries)
    assert scale == Nuisance(
        "jet_energy_scale",
        (
            Restricted(JetEnergyScale(), ("w",)),
            Restricted(WeightColumns("jet_energy_scale", "a", "b"), ("qcd",)),
        ),
    )
    assert list(scale.columns) == [("weights", "a", ("qcd",)), ("weights", "b", ("qcd",))]
    assert rate.effects == (ProcessNormalisation("rate", 0.5),)
    assert varied.effects == (VariedObjects("jes", "c", "c"),)
    assert list(varied.columns) == [("varied", "c", ())]
    assert [(n.moves, n.weighs, n.discrete) for n in (scale, rate, varied, model)] == [
        (True, True, False),
        (False, True, False),
        (True, False, False),
        (False, True, True),
    ]


def test_effects_of_a_nuisance_add_up():
    events = random_events(300, seed=1)
    both = Nuisance("energy", (JetEnergyScale(), LeptonEnergyScale(), ProcessNormalisation("energy", 0.1)))
    found = shift_events(events, [both], [-1.0], NO_CUTS)
    apart = shift_events(events, both.effects, [-1.0] * 3, NO_CUTS)
    np.testing.assert_array_equal(found.events.particles, apart.events.particles)
    np.testing.assert_array_equal(found.weights, apart.weights)


def test_a_nuisance_of_one_shift_is_told_as_that_shift():
    """Checkpoints of a training hold it."""
    assert repr(Nuisance("jet_energy_scale", (JetEnergyScale(),))) == repr(JetEnergyScale())
