from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from samples import random_events

from covad.errors import EventContentError, TooFewEventsError
from covad.events.files import EventWriter, FileSet
from covad.events.layout import Collection, EventLayout
from covad.events.selection import Selection
from covad.events.systematics import JetEnergyScale, Nuisance
from covad.nplm.dataset import Dataset, Response
from covad.observed.dataset import (
    BackgroundEvents,
    BackgroundSample,
    ObservedEvents,
    evenly_spaced,
    make_dataset,
    read_background,
    read_observed,
)
from covad.observed.excess import bin_edges, clipped_counts, find_excess, observables_of
from covad.toys.pools import LatentEvents

LAYOUT = EventLayout((Collection("met", 1, ("pt", "phi")), Collection("photon", 3, ("pt", "eta"))))


def test_observables_of_a_small_layout():
    particles = np.zeros((2, 4, 3), dtype=np.float32)
    particles[0, :, 0] = [7, 30, 20, 0]
    particles[1, :, 0] = [5, 0, 0, 0]
    found = {name: values.tolist() for name, values in observables_of(LAYOUT, particles).items()}
    assert found == {
        "met pt": [7, 5],
        "number of photons": [2, 0],
        "leading photon pt": [30, 0],
        "sum of pt": [50, 0],
    }


def test_observables_agree_with_those_of_the_simulators():
    from covad.simulation.marginals import OBSERVABLES

    events = random_events(500, seed=2)
    found = observables_of(events.layout, events.particles)
    assert found["met pt"] == pytest.approx(OBSERVABLES["met"].values(events.particles))
    assert found["sum of pt"] == pytest.approx(OBSERVABLES["sum_pt"].values(events.particles), rel=1e-5)


def test_histograms_keep_every_event():
    values = np.random.default_rng(1).exponential(20.0, 1000)
    edges = bin_edges("met pt", values)
    assert clipped_counts(values, edges).sum() == 1000
    assert clipped_counts(values, edges)[-1] >= 10
    numbers = np.array([0.0, 1.0, 3.0])
    assert clipped_counts(numbers, bin_edges("number of jets", numbers)).tolist() == [1, 1, 0, 1]
    assert bin_edges("met pt", np.zeros(5))[-1] > 0


def test_stretches_are_spread_over_all_rows_and_share_none():
    rows = np.arange(0, 3000, 3)
    parts = evenly_spaced(rows, 100, 10)
    together = np.concatenate(parts)
    assert len(parts) == 10
    assert len(together) == len(set(together)) == 100
    assert set(together) <= set(rows)
    assert together.min() < 300
    assert together.max() > 2600
    assert np.concatenate(evenly_spaced(rows, 5000, 10)).tolist() == rows.tolist()


@pytest.mark.parametrize("first", [0, 1])
def test_a_short_file_of_heavy_events_has_its_share_of_the_yield(tmp_path, first):
    """1 % of the rows, half of the yield, wherever the file stands in the list."""
    sizes, weights = {"light": 9900, "heavy": 100}, {"light": 1.0, "heavy": 99.0}
    paths = []
    for name in sorted(sizes, reverse=bool(first)):
        events = replace(random_events(sizes[name], 3, LAYOUT), weights=np.full(sizes[name], weights[name]))
        paths.append(tmp_path / f"{name}.h5")
        with EventWriter(paths[-1], LAYOUT, events.process_names, {}, weighted=True) as writer:
            writer.append(events)
    data = SimpleNamespace(open=lambda *_: FileSet(paths))
    some = read_background(data, np.arange(10_000), 1000)
    assert len(some) == 1000
    assert some.weights[some.weights > 1.0].sum() / some.weights.sum() == pytest.approx(0.5, abs=0.01)
    assert len(read_background(data, np.arange(10_000), 50_000)) == 10_000


def weighted_background(weights):
    particles = np.zeros((len(weights), 4, 3), dtype=np.float32)
    particles[:, 0, 0] = np.arange(len(weights)) + 1.0
    z = np.arange(len(weights), dtype=np.float32)[:, None]
    latent = LatentEvents(z, Response.none(len(weights)))
    return BackgroundEvents(particles, latent, np.array(weights) / np.sum(weights))


def test_an_expectation_of_signed_weights_has_their_errors():
    """h = z: the observed event at 2.5 is followed by background events of the weights 1, -3 and 1."""
    background = weighted_background([4.0, 4.0, 3.0, 1.0, -3.0, 1.0])
    particles = np.zeros((3, 4, 3), dtype=np.float32)
    events = ObservedEvents(LAYOUT, particles, np.arange(3), 3)
    outcome = SimpleNamespace(
        tau=SimpleNamespace(h_data=np.array([5.0, 4.0, 2.5]), parameters=None),
        delta=SimpleNamespace(nu=np.zeros(0), nu_norm=0.0),
    )
    dataset = Dataset(
        reference=background.embedded.z,
        data=np.zeros((3, 1), np.float32),
        weights=np.full(6, 5.0),
        reference_response=Response.none(6),
        data_response=Response.none(3),
        measured=np.zeros(0),
        normalisation=None,
    )
    test = SimpleNamespace(h=lambda _, z: z[:, 0])
    found = find_excess(events, background, dataset, test, outcome)
    assert found.expected == pytest.approx(3.0 * (1 - 3 + 1))
    assert found.expected_error == pytest.approx(3.0 * np.sqrt(1 + 9 + 1))
    (met,) = (o for o in found.observables if o.name == "met pt")
    assert met.region_mean is None
    assert sum(met.region) == pytest.approx(found.expected)
    assert sum(met.everywhere) == pytest.approx(30.0)


def observed_file(path, events):
    with EventWriter(
        path, events.layout, events.process_names, weighted=events.weights is not None
    ) as writer:
        writer.append(events)
    return path


def test_observed_files_with_weights_are_refused(tmp_path):
    events = random_events(50, seed=3)
    plain, ones = (
        observed_file(tmp_path / f"{n}.h5", replace(events, weights=w))
        for n, w in enumerate((None, np.ones(50)))
    )
    read = [read_observed(path, events.layout, Selection()) for path in (plain, ones)]
    assert np.array_equal(read[0].particles, read[1].particles)
    weights = np.ones(50)
    for weight in (-0.5, 1.000000001):
        weights[7] = weight
        weighted = observed_file(tmp_path / "weighted.h5", replace(events, weights=weights))
        with pytest.raises(
            EventContentError,
            match=rf"weighted\.h5: event 7 has the weight {weight}, but observed events count once",
        ):
            read_observed(weighted, events.layout, Selection())


def test_background_samples_count_with_signs():
    events = random_events(40_000, seed=4)
    weights = np.where(np.random.default_rng(1).random(40_000) < 0.3, -1.0, 1.0)
    scale = JetEnergyScale()
    data = SimpleNamespace(systematics=(Nuisance(scale.name, (scale,)),), selection=Selection())
    plain, signed = (BackgroundSample.of(data, replace(events, weights=w)) for w in (None, weights))
    assert len(plain.nominal.particles) == len(signed.nominal.particles)
    assert len(plain.shifts.nominal.particles) == pytest.approx(10_000, rel=0.01)
    # a sixth of the events is effective: all of them tell less than the others do
    assert len(signed.shifts.nominal.particles) == len(signed.nominal.particles)
    assert (signed.shifts.pairs[0][0].weights < 0).any()
    with pytest.raises(TooFewEventsError, match=r"40000 background events add up to -4e\+04"):
        BackgroundSample.of(data, replace(events, weights=-np.ones(40_000)))


def test_a_reference_enters_with_its_weights():
    run = SimpleNamespace(
        nuisances=(),
        study=SimpleNamespace(normalisation=None),
        configuration=SimpleNamespace(treatment=None),
        data=SimpleNamespace(source=SimpleNamespace(correlation=None)),
    )
    data = LatentEvents(np.zeros((2, 1), np.float32), Response.none(2))
    for weights, expected in ((None, [4.0, 4.0]), (np.array([1.0, 3.0]), [2.0, 6.0])):
        reference = LatentEvents(np.ones((2, 1), np.float32), Response.none(2), weights)
        assert make_dataset(run, data, reference, 8.0, {}).weights.tolist() == expected
