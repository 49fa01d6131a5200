import hashlib
from dataclasses import replace

import numpy as np
import pytest
from samples import random_events
from scipy import stats

from covad.embedding.batches import DrawBySize, Sampler, covariant
from covad.errors import TrainingError
from covad.events.layout import UNLABELLED, Events
from covad.events.selection import Selection
from covad.events.systematics import (
    JetEnergyScale,
    LeptonEnergyScale,
    MetSoftScale,
    Nuisance,
    SeparateSamples,
    shift_events,
)


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


def test_changed_events_leave_the_nominal_ones_alone(events: Events) -> None:
    """A batch with changed events is the one without; every change has its share of those that pass."""
    selection = Selection(trigger_minimum=40.0)
    names = ("harder", "invisible_jet", "overlaid")
    plain = make_sampler(events, selection=selection)
    sampler = replace(plain, changes=names)
    batch, again = sampler.batch(3), sampler.batch(3)
    np.testing.assert_array_equal(batch.particles, plain.batch(3).particles)
    np.testing.assert_array_equal(batch.changed.particles, again.changed.particles)
    np.testing.assert_array_equal(batch.changed.changes, again.changed.changes)
    assert not np.array_equal(batch.changed.particles, sampler.batch(4).changed.particles)
    assert plain.batch(3).changed is None
    counts = np.bincount(batch.changed.changes, minlength=3)
    assert len(batch.changed.particles) == counts.sum()
    assert (counts > 0).all()
    assert (counts <= -(-len(batch.particles) // 3)).all()
    unlabelled = Events.unlabelled(events.layout, batch.changed.particles)
    passed, _ = selection.apply(unlabelled)
    np.testing.assert_array_equal(passed.particles, batch.changed.particles)
    nominal = {event.tobytes() for event in batch.particles}
    assert not nominal & {event.tobytes() for event in batch.changed.particles}


def test_changes_belong_to_the_identity_of_batches(events: Events) -> None:
    plain, changed = make_sampler(events), make_sampler(events, changes=("harder",))
    assert "changes" not in plain.describe()
    assert changed.describe() == plain.describe() | {"changes": ["harder"]}


def test_both_signs_and_all_sizes_take_turns(events: Events) -> None:
    sampler = make_sampler(events, systematics=(JetEnergyScale(), LeptonEnergyScale()))
    seen = [tuple(p.nu.tolist()) for step in range(4) for p in sampler.batch(step).shifted]
    assert set(seen) == {(s, 0) for s in (-2, -1, 1, 2)} | {(0, s) for s in (-2, -1, 1, 2)}
    assert len(seen) == 8


def test_two_systematics_enter_the_covariance_loss_unless_told(events: Events) -> None:
    scales = (JetEnergyScale(), LeptonEnergyScale(), MetSoftScale())
    weighted = replace(scales[0], name="weights")
    object.__setattr__(weighted, "moves", False)
    sampler = make_sampler(events, systematics=scales)
    assert sampler.covariant == (0, 1)
    assert covariant((weighted, *scales)) == (1, 2)
    assert covariant(scales, ["met_soft_scale", "jet_energy_scale"]) == (0, 2)
    assert covariant(scales, []) == ()
    few = Nuisance("few", (scales[0], SeparateSamples("few", "w")))  # not there at any nu
    assert covariant((few, *scales)) == (1, 2)
    with pytest.raises(TrainingError, match=r"source\.training\.covariance: 'weights' is not among"):
        covariant((weighted, *scales), ["weights"])
    chosen = replace(sampler, covariance=(2,))
    seen = {tuple(p.nu.tolist()) for step in range(4) for p in chosen.batch(step).shifted}
    assert seen == {(-2.0,), (-1.0,), (1.0,), (2.0,)}
    assert "covariance" not in sampler.describe()
    assert chosen.describe()["covariance"] == [2]
    assert replace(sampler, covariance=()).batch(0).shifted == ()


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


def weighted(events: Events, weights: np.ndarray) -> Events:
    return replace(events, weights=weights)


def test_events_are_drawn_by_the_size_of_their_weights() -> None:
    """Frequencies of 2000 draws of one event, chi2 p-value above 1e-4; the sign does not matter."""
    sizes = np.random.default_rng(1).lognormal(size=30)
    sizes[[4, 9]] = 0.0
    by_size = DrawBySize.of(sizes)
    assert len(by_size) == 28
    counts = np.bincount([by_size.draw(1, np.random.default_rng(n))[0] for n in range(2000)], minlength=30)
    assert counts[[4, 9]].tolist() == [0, 0]
    expected = 2000 * sizes / sizes.sum()
    seen = expected > 0
    assert stats.chisquare(counts[seen], expected[seen]).pvalue > 1e-4


@pytest.mark.parametrize("sizes", [[1.0, 2.0, 3.0, 4.0], [1e9, 1.0, 2.0, 3.0]])
def test_draws_are_those_of_one_event_after_the_other(sizes: list[float]) -> None:
    """Two different events: p_i p_j / (1 - p_i), also where the rounds do not suffice; chi2 p above 1e-4."""
    by_size = DrawBySize.of(np.array(sizes))
    p = np.array(sizes) / sum(sizes)
    expected = np.outer(p / (1 - p), p)
    np.fill_diagonal(expected, 0.0)
    counts = np.zeros((4, 4))
    for seed in range(4000):
        first, second = by_size.draw(2, np.random.default_rng(seed))
        counts[first, second] += 1
    likely = 4000 * expected > 5
    assert counts[~likely].sum() < 5
    shares = expected[likely] / expected[likely].sum()
    assert stats.chisquare(counts[likely], counts[likely].sum() * shares).pvalue > 1e-4
    everything = by_size.draw(4, np.random.default_rng(1))
    assert sorted(everything) == [0, 1, 2, 3]


def test_batches_of_weighted_events_have_none_twice(events: Events) -> None:
    weights = np.random.default_rng(2).lognormal(sigma=3.0, size=len(events))
    sampler = make_sampler(weighted(events, weights))
    batch = sampler.batch(3)
    assert len({p.tobytes() for p in batch.particles}) == len(batch.particles) == 64
    signed = make_sampler(weighted(events, weights * np.where(weights > 1.0, 1.0, -1.0)))
    assert np.array_equal(
        signed.batch(3).particles, make_sampler(weighted(events, weights)).batch(3).particles
    )
    alike = make_sampler(weighted(events, np.where(weights > 1.0, 0.5, -0.5)))
    assert np.array_equal(alike.batch(3).particles, make_sampler(events).batch(3).particles)
    (heaviest,) = shift_events(events[[np.argmax(weights)]], (), (), Selection()).events.particles
    for step in range(5):
        assert (sampler.batch(step).particles == heaviest).all(axis=(1, 2)).any()


def test_weights_are_part_of_the_identity_if_there_are_any(events: Events) -> None:
    content = hashlib.sha256(events.particles.tobytes() + events.process.tobytes()).hexdigest()
    assert make_sampler(events).describe()["events"] == content
    ones, twos = (make_sampler(weighted(events, np.full(len(events), w))) for w in (1.0, 2.0))
    assert len({content, *(sampler.describe()["events"] for sampler in (ones, twos))}) == 3


def test_events_without_weight_do_not_count() -> None:
    events = random_events(200, seed=1)
    weights = np.where(events.process == 1, 0.0, 1.0)
    weights[np.flatnonzero(events.process == 1)[0]] = -2.0
    with pytest.raises(TrainingError, match="process 'qcd' has only one event"):
        make_sampler(weighted(events, weights))
    few = np.zeros(200)
    few[:40] = 1.0
    with pytest.raises(TrainingError, match="40 events are too few for batches of 64"):
        make_sampler(weighted(events, few))


def test_a_batch_without_partners_has_the_same_events(events: Events) -> None:
    whole, alone = make_sampler(events).batch(3), make_sampler(events).batch(3, shifted=False)
    assert np.array_equal(whole.particles, alone.particles)
    assert alone.shifted == ()
