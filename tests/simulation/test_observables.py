import numpy as np
import pytest

from covad.events.processes import ADC2021_LAYOUT
from covad.simulation.marginals import OBSERVABLES


@pytest.fixture
def events():
    """One event with everything, and one with a muon only."""
    particles = np.zeros((2, *ADC2021_LAYOUT.shape), dtype=np.float32)
    particles[0, ADC2021_LAYOUT.slots("met"), 0] = 50
    particles[0, ADC2021_LAYOUT.slots("electron"), 0] = [40, 10, 0, 0]
    particles[0, ADC2021_LAYOUT.slots("muon"), 0] = [25, 0, 0, 0]
    particles[0, ADC2021_LAYOUT.slots("jet").start :][:3, 0] = [100, 31, 20]
    particles[1, ADC2021_LAYOUT.slots("muon").start, 0] = 3000
    return particles


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("lepton_pt", [40, 3000]),
        ("met", [50, 0]),
        ("n_jets_15", [3, 0]),
        ("n_jets_23", [2, 0]),
        ("jet_pt", [100]),
        ("sum_pt", [226, 3000]),
        ("sum_pt_30", [206, 3000]),
    ],
)
def test_values_and_histogram(events, name, values):
    observable = OBSERVABLES[name]
    np.testing.assert_allclose(observable.values(events), values)
    histogram = observable.histogram(events)
    assert histogram.sum() == len(values)
    last = np.searchsorted(observable.edges, values[-1], side="right") - 1
    assert histogram[min(last, len(histogram) - 1)] >= 1


def test_continuous_observables_have_fine_bins_and_multiplicities_one_each():
    for name, observable in OBSERVABLES.items():
        assert len(observable.edges) - 1 >= (11 if name.startswith("n_jets") else 100)
    assert len(OBSERVABLES["n_jets_15"].edges) == ADC2021_LAYOUT.collection("jet").slots + 2
