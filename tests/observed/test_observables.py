import numpy as np
import pytest
from samples import random_events

from covad.events.layout import Collection, EventLayout
from covad.observed.dataset import evenly_spaced
from covad.observed.excess import bin_edges, clipped_counts, observables_of

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
