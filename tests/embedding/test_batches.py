from dataclasses import replace

import numpy as np
import pytest
from samples import random_events

from covad.embedding.batches import Sampler
from covad.errors import TrainingError
from covad.events.layout import UNLABELLED, Events
from covad.events.selection import Selection
from covad.events.systematics import JetEnergyScale, LeptonEnergyScale, shift_events


def make_sampler(events: Events, **changes: object) -> Sampler:
    sampler = Sampler(events, (JetEnergyScale(),), Selection(), batch_size=64, seed=5)
    return replace(sampler, **changes)


def test_a_batch_is_a_function_of_seed_and_step(events: Events) -> None:
    first, again = make_sampler(events).batch(3), make_sampler(events).batch(3)
    assert np.array_equal(first.particles, again.particles)
    assert not np.array_equal(first.particles, make_sampler(events).batch(4).particles)
    assert not np.array_equal(first.particles, make_sampler(events, seed=6).batch(3).particles)


def test_shifted_partners_are_the_same_events_shifted(events: Events) -> None:
    """Unchanged plus moved events are exactly the shifted sample."""
    selection = Selection(trigger_minimum=40.0)
    scales = (LeptonEnergyScale(sigma=0.05), JetEnergyScale())
    sampler = make_sampler(events, systematics=scales, selection=selection)
    for step in range(4):
        rng = np.random.default_rng(np.random.SeedSequence(5, spawn_key=(step,)))
        chosen = events[rng.choice(len(events), size=64, replace=False)]
        batch = sampler.batch(step)
        for partner in batch.shifted:
            expected = shift_events(chosen, scales, partner.nu.tolist(), selection).events.particles
            together = np.concatenate([batch.particles[partner.unchanged], partner.moved])
            assert sorted(p.tobytes() for p in together) == sorted(p.tobytes() for p in expected)


def test_both_signs_and_all_sizes_take_turns(events: Events) -> None:
    sampler = make_sampler(events, systematics=(JetEnergyScale(), LeptonEnergyScale()))
    seen = [tuple(p.nu.tolist()) for step in range(4) for p in sampler.batch(step).shifted]
    assert set(seen) == {(s, 0) for s in (-2, -1, 1, 2)} | {(0, s) for s in (-2, -1, 1, 2)}
    assert len(seen) == 8


def test_events_without_jets_are_not_encoded_twice(events: Events) -> None:
    batch = make_sampler(events).batch(0)
    without = ~(batch.particles[:, events.layout.slots("jet"), 0] > 0).any(axis=1)
    for partner in batch.shifted:
        below = np.isin(np.flatnonzero(without), partner.unchanged).mean()
        assert below > 0.5  # the rest gains a jet over the cut


def test_unfit_samples_are_refused() -> None:
    events = random_events(200, seed=1)
    with pytest.raises(TrainingError, match="label for every event"):
        make_sampler(replace(events, process=np.full(200, UNLABELLED, np.int16)))
    with pytest.raises(TrainingError, match="at least two processes"):
        make_sampler(replace(events, process=np.zeros(200, np.int16)))
    lonely = np.zeros(200, np.int16)
    lonely[0] = 1
    with pytest.raises(TrainingError, match="process 'qcd' has only one event"):
        make_sampler(replace(events, process=lonely))
    with pytest.raises(TrainingError, match="too few for batches of 500"):
        make_sampler(events, batch_size=500)
