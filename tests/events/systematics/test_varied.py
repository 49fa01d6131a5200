"""Varied objects of the files: log-linear per object, in any order of objects and systematics."""

from dataclasses import replace

import numpy as np
import pytest
from samples import random_events

from covad.errors import CovadError
from covad.events.selection import NO_CUTS
from covad.events.systematics import (
    BadEventError,
    JetEnergyResolution,
    JetEnergyScale,
    VariedObjects,
    shift_events,
)
from covad.events.systematics.varied import partners

EFFECT = VariedObjects("jes_total", "jesUp", "jesDown")


def scaled(events, amount):
    """The jets as the built-in scale moves them, and the missing momentum with them."""
    shift = JetEnergyScale(sigma=abs(amount), propagate_to_met=True)
    return shift.shift(events, float(np.sign(amount))).events


def with_varied(n_events=400, seed=2):
    events = random_events(n_events, seed)
    varied = {"jesUp": scaled(events, 0.05).particles, "jesDown": scaled(events, -0.02).particles}
    return replace(events, varied=varied)


@pytest.mark.parametrize(
    ("nu", "amount"), [(1.0, 0.05), (0.5, 0.025), (2.0, 0.1), (-1.0, -0.02), (-3.0, -0.06)]
)
def test_objects_are_log_linear_and_exact_at_one_sigma(nu, amount):
    events = with_varied()
    found = shift_events(events, [EFFECT], [nu], NO_CUTS).events
    np.testing.assert_allclose(
        found.objects("jet"), scaled(replace(events, varied={}), amount).objects("jet"), rtol=1e-6, atol=1e-5
    )
    if abs(nu) == 1:
        side = events.varied["jesUp" if nu > 0 else "jesDown"]
        np.testing.assert_allclose(found.particles, side, rtol=1e-5, atol=1e-5)


def test_missing_momentum_is_linear_in_the_plane():
    events = with_varied()

    def plane(particles):
        met = particles[:, events.layout.slots("met").start].astype(float)
        return met[:, :1] * np.stack([np.cos(met[:, 2]), np.sin(met[:, 2])], axis=1)

    half = EFFECT.shift(events, 0.5).events.particles
    middle = 0.5 * (plane(events.particles) + plane(events.varied["jesUp"]))
    np.testing.assert_allclose(plane(half), middle, atol=1e-3)


def test_what_does_not_vary_keeps_its_bits():
    events = random_events(300, seed=5)
    still = replace(events, varied=dict.fromkeys(("jesUp", "jesDown"), events.particles))
    assert np.array_equal(EFFECT.shift(still, 0.7).events.particles, events.particles)
    assert EFFECT.shift(still, 0.0).events is still


def test_the_order_of_objects_and_of_systematics_does_not_matter():
    """The smearing changes the order of jets: each takes its own factor along."""
    events, smearing = with_varied(), JetEnergyResolution(stochastic=2.0)
    smeared = smearing.shift(events, 1.0).events
    assert not np.array_equal(smeared.objects("jet")[..., 1], events.objects("jet")[..., 1])
    after = EFFECT.shift(smeared, 1.0).events.objects("jet")
    before = events.layout.tidy(smeared.particles)[0][:, events.layout.slots("jet")]
    np.testing.assert_allclose(after[..., 0], before[..., 0] * np.float32(np.exp(0.05)), rtol=1e-5)
    two = [EFFECT, VariedObjects("again", "jesUp", "jesDown")]
    both = shift_events(events, two, [1.0, 1.0], NO_CUTS).events.objects("jet")[..., 0]
    np.testing.assert_allclose(both, events.objects("jet")[..., 0] * np.float32(np.exp(0.1)), rtol=1e-5)


def test_objects_may_be_hidden_by_a_threshold_on_one_side():
    events = with_varied()
    slots = events.layout.slots("jet")
    row = int(np.flatnonzero(events.present("jet").sum(axis=1) == 3)[0])
    fewer = events.varied["jesUp"].copy()
    fewer[row, slots][2] = 0.0
    found = EFFECT.shift(replace(events, varied=events.varied | {"jesUp": fewer}), 1.0).events
    before, after = events.objects("jet")[row, :, 0], found.objects("jet")[row, :, 0]
    np.testing.assert_allclose(after[:2], before[:2] * np.exp(0.05), rtol=1e-5)
    assert after[2] == before[2]


def test_objects_that_are_others_are_refused_with_their_event():
    events = with_varied()
    row = int(np.flatnonzero(events.present("jet").sum(axis=1) == 3)[0])
    other = events.varied["jesUp"].copy()
    other[row, events.layout.slots("jet").start, 1] += 0.1
    with pytest.raises(BadEventError, match=rf"objects of jet cannot be matched .*'jesUp'.* in event {row}$"):
        EFFECT.shift(replace(events, varied=events.varied | {"jesUp": other}), 1.0)


def test_objects_that_were_not_read_are_named():
    with pytest.raises(CovadError, match="'jes_total' needs the varied objects 'jesUp' of the events"):
        EFFECT.shift(random_events(5, seed=1), 1.0)


def test_partners_agree_with_a_search():
    """Also with objects that are alike, which are matched in their order."""
    rng = np.random.default_rng(1)
    objects = rng.integers(0, 3, (200, 4, 3)).astype(np.float32)
    others = np.take_along_axis(objects, rng.permuted(np.tile(np.arange(4), (200, 1)), axis=1)[..., None], 1)
    others[rng.random((200, 4)) < 0.2] = 0.0
    for found, mine, theirs in zip(partners(objects, others), objects, others, strict=True):
        expected = np.full(4, -1)
        for slot, other in enumerate(theirs):
            free = [
                i for i in range(4) if expected[i] < 0 and mine[i, 0] > 0 and (mine[i, 1:] == other[1:]).all()
            ]
            if other[0] > 0 and free:
                expected[free[0]] = slot
        assert np.array_equal(found, expected)
