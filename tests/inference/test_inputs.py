"""Data and simulation: gross mistakes in the data are named, honest data never are."""

import re
from dataclasses import replace

import numpy as np
import pytest
from samples import random_events

from covad.events.layout import Collection, EventLayout
from covad.events.systematics import JetEnergyScale, LeptonEnergyScale, shift_events
from covad.inference import inputs
from covad.inference.inputs import InputComparison, Shifts, WeightedEvents, compare_inputs, resolved_distance
from covad.simulation.simulate import Simulation
from covad.storage.records import plain, restore

LEPTON = ("pt", "eta", "phi", "isolation")
LAYOUT = EventLayout((Collection("met", 1), Collection("electron", 4, LEPTON), Collection("jet", 6)))


def isolated_events(n_events, seed):
    """Events with one more feature of electrons; the cuts leave all."""
    return random_events(n_events, seed, LAYOUT)


def unit(events):
    return WeightedEvents(events.particles, np.ones(len(events)))


@pytest.fixture(scope="module")
def simulation():
    return unit(isolated_events(10_000, seed=1))


def compare(data, simulation):
    return compare_inputs(LAYOUT, data, simulation, Shifts(simulation, ()))


@pytest.fixture
def data():
    return isolated_events(1500, seed=2).particles


def test_honest_data_look_like_the_simulation(data, simulation):
    found = compare(data, simulation)
    names = [quantity.name for quantity in found.quantities]
    assert names[:2] == ["number of mets", "met pt"]
    assert "electron isolation" in names
    assert "met isolation" not in names  # it has none
    assert found.warnings == found.different == ()
    assert all(quantity.difference.distance < 0.06 for quantity in found.quantities)
    for quantity in found.quantities:
        assert sum(quantity.counts) == quantity.data.n
        assert sum(quantity.expected) == pytest.approx(quantity.simulation.n * 1500 / 10_000)


def _isolation_zero(particles):
    particles[:, LAYOUT.slots("electron"), LAYOUT.column("isolation")] = 0.0


def _isolation_half_zero(particles):
    particles[::2, LAYOUT.slots("electron"), LAYOUT.column("isolation")] = 0.0


def _momenta_in_mev(particles):
    particles[..., 0] *= 1000.0


def _phi_in_degrees(particles):
    particles[..., LAYOUT.column("phi")] *= 180.0 / np.pi


def _some_phi_in_degrees(particles):
    particles[::20, ..., LAYOUT.column("phi")] *= 180.0 / np.pi


def _eta_and_phi_swapped(particles):
    jets = particles[:, LAYOUT.slots("jet")]
    jets[..., 1] = np.abs(jets[..., 1])


def _no_electrons(particles):
    particles[:, LAYOUT.slots("electron")] = 0.0


def _a_slot_is_lost(particles):
    jets = particles[:, LAYOUT.slots("jet")]
    jets[:, :-1], jets[:, -1] = jets[:, 1:].copy(), 0.0


@pytest.mark.parametrize(
    ("mistake", "sentence"),
    [
        (_isolation_zero, r"electron isolation does not .*: it is 0 in all \d+ objects of the data"),
        (
            _isolation_half_zero,
            r"electron isolation does not .*: it is exactly 0 in [45]\d\.\d% of the objects",
        ),
        (_momenta_in_mev, r"jet pt does not .*: 100\.0% of the events .* outside of the simulated range"),
        (
            _phi_in_degrees,
            r"electron phi does not .* outside of the simulated range -\S+ to \S+, the data go from -17",
        ),
        (_some_phi_in_degrees, r"met phi does not .*: [45]\.\d% of the events"),
        (
            _eta_and_phi_swapped,
            r"jet eta does not .*: mean 1\.5\d* and 90 % of it within .* the simulation has",
        ),
        (_no_electrons, r"number of electrons does not .*: mean 0 and 90 % of it within 0 to 0"),
        (_a_slot_is_lost, r"number of jets does not .*: mean"),
    ],
)
def test_mistakes_are_named_with_the_feature_and_their_size(data, simulation, mistake, sentence):
    mistake(data)
    found = compare(data, simulation)
    assert len([w for w in found.warnings if re.search(sentence, w)]) == 1
    assert all(w.endswith("t will see it") or "more inputs" in w for w in found.warnings)


def test_many_differences_are_told_in_few_sentences(data, simulation):
    found = compare(np.repeat(data[:5], 300, axis=0), simulation)
    assert len(found.different) > inputs.MOST_TOLD
    assert len(found.warnings) == inputs.MOST_TOLD + 1
    assert "more inputs do not look like the simulation: " in found.warnings[-1]
    repeated = replace(found, n_repeated=1495).warnings[0]
    assert repeated.startswith("1495 of the 1500 selected events repeat another one (99.7%)")


def test_what_systematics_explain_is_no_warning(simulation):
    """Jets of 2.5 sigma higher scale, beside systematics that know of it and others that do not."""
    scale, events = JetEnergyScale(sigma=0.2), isolated_events(3000, seed=3)
    high = scale.shift(events, 2.5).events.particles
    assert "jet pt" in [q.name for q in compare(high, simulation).different]
    shifted = [
        unit(scale.shift(replace(events, particles=simulation.particles, process=zeros), nu).events)
        for nu in (-1, 1)
        for zeros in [np.zeros(len(simulation.particles), dtype=np.int16)]
    ]
    found = compare_inputs(LAYOUT, high, simulation, Shifts(simulation, (tuple(shifted),)))
    assert found.warnings == ()
    tolerated = {q.name: q.difference.tolerated for q in found.quantities}
    assert tolerated["jet pt"] > 0.1
    assert tolerated["met pt"] == 0.0


def test_weights_count(data, simulation):
    """Two electrons or more are simulated twice too often, with half of the weight."""
    many = (simulation.particles[:, LAYOUT.slots("electron"), 0] > 0).sum(axis=1) > 1
    doubled = np.concatenate([simulation.particles, simulation.particles[many]])
    raw = WeightedEvents(doubled, np.ones(len(doubled)))
    right = WeightedEvents(doubled, np.concatenate([np.where(many, 0.5, 1.0), np.full(many.sum(), 0.5)]))
    assert "number of electrons" in [q.name for q in compare(data, raw).different]
    found = compare(data, right)
    assert found.warnings == ()
    means = [quantity.simulation.mean for quantity in found.quantities]
    assert means == pytest.approx([q.simulation.mean for q in compare(data, simulation).quantities])


def test_a_collection_that_nobody_has_is_no_failure(data, simulation):
    empty = simulation.particles.copy()
    _no_electrons(empty)
    found = compare(data, WeightedEvents(empty, simulation.weights))
    assert "number of electrons" in [q.name for q in found.different]
    (isolation,) = [q for q in found.quantities if q.name == "electron isolation"]
    assert (isolation.simulation, isolation.difference) == (None, None)
    _no_electrons(data)
    both = compare(data, WeightedEvents(empty, simulation.weights))
    assert both.warnings == ()
    assert restore(InputComparison, plain(both), "here") == both


def test_chance_exceeds_the_resolved_distance_as_rarely_as_stated(monkeypatch):
    """With alpha = 5 % instead of 1e-7, of 300 honest samples of objects that come in equal pairs."""
    monkeypatch.setattr(inputs, "ALPHA", 0.05)
    layout = EventLayout((Collection("jet", 2, ("pt",)),))
    rng = np.random.default_rng(5)

    def pairs(n):
        particles = np.zeros((n, 2, 1), dtype=np.float32)
        particles[..., 0] = rng.exponential(20, n)[:, None]
        return particles

    simulated = WeightedEvents(pairs(2_000), np.ones(2_000))
    beyond = []
    for _ in range(300):
        found = compare_inputs(layout, pairs(200), simulated, Shifts(simulated, ())).quantities[1].difference
        assert found.resolved == pytest.approx(resolved_distance(200, 2_000))
        beyond.append(found.distance > found.resolved)
    assert np.mean(beyond) < 0.08  # 5 % and four standard deviations


def test_honest_collisions_never_alarm_within_three_sigma():
    """24 files at nu = 0 and +-3 of two nuisances; at 3e-7 per input, 10^-4 alarms are expected."""
    systematics = [JetEnergyScale(), LeptonEnergyScale(sigma=0.005)]
    events = next(iter(Simulation("background", 10_000, 3).blocks()))
    events = replace(events, provenance={})

    def selected(events, nu):
        shifted = shift_events(events, systematics, nu)
        return WeightedEvents(shifted.events.particles, shifted.weights)

    nominal = selected(events[:4000], [0.0, 0.0])
    pairs = tuple((selected(events[:4000], -nu), selected(events[:4000], nu)) for nu in np.eye(2))
    rng = np.random.default_rng(1)
    for nu in ([0.0, 0.0], [3.0, 3.0], [-3.0, -3.0], [3.0, -3.0]):
        data = selected(events[4000:], nu).particles
        for n_events in rng.integers(30, 4000, 6):
            chosen = rng.choice(len(data), n_events, replace=False)
            assert compare_inputs(events.layout, data[chosen], nominal, Shifts(nominal, pairs)).warnings == ()


def with_signs(simulation, seed=4):
    """The same density: every event once more, with weights of +2 and -1 in random order."""
    order = np.random.default_rng(seed).permutation(2 * len(simulation.particles))
    weights = np.tile([2.0, -1.0], len(simulation.particles))[order]
    return WeightedEvents(np.repeat(simulation.particles, 2, axis=0)[order], weights)


def test_signed_weights_are_sums_of_events(data, simulation):
    """Copies of +2 and -1 are one event, with more noise: sums, means and quantiles stay."""
    once, signed = compare(data, simulation), compare(data, with_signs(simulation))
    assert signed.warnings == ()
    for one, other in zip(once.quantities, signed.quantities, strict=True):
        assert sum(other.expected) == pytest.approx(sum(one.expected))
        assert other.simulation.mean == pytest.approx(one.simulation.mean)
        assert other.simulation.quantiles == pytest.approx(one.simulation.quantiles)
        assert other.difference.distance == pytest.approx(one.difference.distance)
        assert other.difference.resolved > one.difference.resolved
    # sum w^2 is five times as large
    resolved = {q.name: q.difference.resolved for q in signed.quantities}
    assert resolved["number of jets"] == pytest.approx(resolved_distance(1500, 10_000 / 5), rel=0.02)
    assert restore(InputComparison, plain(signed), "here") == signed


def test_mistakes_are_found_beside_signed_weights(data, simulation):
    _momenta_in_mev(data)
    found = compare(data, with_signs(simulation))
    assert any(re.search(r"jet pt does not .*: 100\.0% of the events .* outside", w) for w in found.warnings)


def test_chance_exceeds_the_resolved_distance_of_signed_weights_as_rarely_as_stated(monkeypatch):
    """With alpha = 5 %, of 150 simulations whose negative weights crowd where few events are expected.

    Sizes that forget where the weights fluctuate would be exceeded more often.
    """
    monkeypatch.setattr(inputs, "ALPHA", 0.05)
    layout = EventLayout((Collection("jet", 1, ("pt",)),))
    rng = np.random.default_rng(5)
    beyond, forgetful = [], []
    for _ in range(150):
        # 2000 events as expected, and 4000 that cancel below 3
        values = np.concatenate([10.0 + rng.exponential(20, 2000), rng.uniform(1, 3, 4000)])
        weights = np.concatenate([np.ones(2000), rng.choice([-1.0, 1.0], 4000)])
        simulated = WeightedEvents(values.astype(np.float32)[:, None, None], weights)
        data = (10.0 + rng.exponential(20, 10_000)).astype(np.float32)[:, None, None]
        found = compare_inputs(layout, data, simulated, Shifts(simulated, ())).quantities[1].difference
        beyond.append(found.distance > found.resolved)
        n_effective = weights.sum() ** 2 / len(weights)
        forgetful.append(found.distance > resolved_distance(10_000, n_effective))
    assert np.mean(beyond) < 0.12  # 5 % and four standard deviations
    assert np.mean(forgetful) > 0.15


def test_weights_that_add_up_to_nothing_have_no_distribution(data, simulation):
    """Electrons of a simulation whose signs cancel: their features cannot be compared, all others can."""
    has = (simulation.particles[:, LAYOUT.slots("electron"), 0] > 0).any(axis=1)
    weights = np.where(has, np.where(np.arange(len(has)) % 2, 1.0, -1.01), 3.0)
    found = compare(data, WeightedEvents(simulation.particles, weights))
    compared = {quantity.name: quantity.difference for quantity in found.quantities}
    assert compared["electron isolation"] is None
    assert compared["number of jets"] is not None
    (isolation,) = (q for q in found.quantities if q.name == "electron isolation")
    assert isolation.simulation is None
    assert min(isolation.expected) < 0
