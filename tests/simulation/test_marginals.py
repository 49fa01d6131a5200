import json

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import ks_2samp

from covad.errors import FileFormatError
from covad.events.processes import ADC2021_LAYOUT, BACKGROUND, PROCESS_NAMES
from covad.simulation import marginals
from covad.simulation.detector import Detector
from covad.simulation.marginals import KS_LIMIT, OBSERVABLES, REAL_SUM_PT, Marginals

#: A KS distance from statistics alone is above 1.63 / sqrt(n) once in 100 samples.
KS_NOISE = 1.63


def sample(n_events, scale=20.0, seed=0):
    """Events with one muon, some missing momentum and at most one jet."""
    rng = np.random.default_rng(seed)
    particles = np.zeros((n_events, *ADC2021_LAYOUT.shape), dtype=np.float32)
    particles[:, 0, 0] = rng.exponential(scale, n_events)
    particles[:, ADC2021_LAYOUT.slots("muon").start, 0] = 23 + rng.exponential(scale, n_events)
    jet = 15 + rng.exponential(scale, n_events)
    particles[:, ADC2021_LAYOUT.slots("jet").start, 0] = np.where(rng.random(n_events) < 0.5, jet, 0)
    return particles


@pytest.mark.parametrize("name", OBSERVABLES)
def test_binned_distance_is_that_of_the_samples(name):
    first, second = sample(3000), sample(2000, scale=25.0, seed=1)
    binned = marginals.ks_distance(Marginals.of(first), Marginals.of(second), name)
    exact = ks_2samp(OBSERVABLES[name].values(first), OBSERVABLES[name].values(second)).statistic
    assert exact - 0.02 < binned <= exact + 1e-12


def test_same_sample_has_no_distance_and_no_background_fraction_is_lost():
    everything = {name: Marginals.of(sample(1000)) for name in PROCESS_NAMES}
    assert all(d.ks == 0 for d in marginals.ks_distances(everything, everything))
    fractions = marginals.sum_pt_fractions(everything, BACKGROUND)
    assert fractions.sum() == pytest.approx(1)
    direct = np.mean(OBSERVABLES["sum_pt"].values(sample(1000)) < 50)
    assert fractions[0] == pytest.approx(direct)


def test_saved_histograms_come_back(tmp_path):
    path = tmp_path / "marginals.json"
    saved = {"w": Marginals.of(sample(500), n_effective=123.4)}
    marginals.save(path, saved, {"generator": "test"})
    loaded = marginals.load(path)["w"]
    assert (loaded.n_events, loaded.n_effective) == (500, 123.4)
    for name in OBSERVABLES:
        np.testing.assert_array_equal(loaded.histograms[name], saved["w"].histograms[name])


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"edges": {}, "processes": {"w": 3}}'])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(FileFormatError, match=r"bad\.json"):
        marginals.load(path)


def test_other_bins_are_refused(tmp_path):
    path = tmp_path / "old.json"
    marginals.save(path, {"w": Marginals.of(sample(50))}, {})
    document = json.loads(path.read_text())
    document["edges"]["met"][3] += 0.1
    path.write_text(json.dumps(document))
    with pytest.raises(FileFormatError, match="met"):
        marginals.load(path)


def test_packaged_histograms_are_small_and_complete():
    assert marginals.pythia_file().stat().st_size < 200_000
    pythia = marginals.load_pythia()
    assert set(pythia) == set(PROCESS_NAMES)
    assert all(m.n_events >= 5000 for m in pythia.values())
    assert pythia["qcd"].n_effective < pythia["qcd"].n_events


@pytest.mark.parametrize("signal", ["lq", "h0", "hpm"])
def test_pythia_signals_have_the_real_sum_of_pt(signal):
    found = marginals.sum_pt_fractions(marginals.load_pythia(), signal)
    # Fixed numbers on both sides: no false alarm.
    assert np.abs(found - REAL_SUM_PT[signal].fractions).max() <= REAL_SUM_PT[signal].tolerance


@pytest.mark.parametrize("process", PROCESS_NAMES)
def test_embedded_simulator_is_near_pythia(process):
    """The acceptance limit, with a margin for the statistical error of 20 000 embedded events."""
    generate = pytest.importorskip("covad.simulation.parametric").generate
    events = generate(process, 20_000, np.random.default_rng(3), Detector())
    pythia = marginals.load_pythia()
    margin = KS_NOISE / np.sqrt(len(events))
    for distance in marginals.ks_distances({process: Marginals.of(events.particles)}, pythia):
        assert distance.ks <= KS_LIMIT[process] + margin, distance.observable


def test_command_prints_both_tables_and_writes_histograms(tmp_path):
    for process in PROCESS_NAMES:
        np.savez(tmp_path / f"{process}.npz", particles=sample(200), hard_event=np.arange(200) // 2)
    written = tmp_path / "out.json"
    arguments = ["--events", "300", "--samples", str(tmp_path), "--write", str(written)]
    result = CliRunner().invoke(marginals.main, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "| qcd |" in result.output
    assert "| background | real | .655 .242 .090 .006 .001 |" in result.output
    assert marginals.load(written)["lq"].n_effective == 100


@pytest.mark.parametrize(("factor", "accepted"), [(1 + 2**-52, True), (1 + 1e-9, False)])
def test_bins_may_differ_by_the_rounding_of_another_processor(tmp_path, factor, accepted):
    document = json.loads(marginals.pythia_file().read_text())
    document["edges"]["met"] = [edge * factor for edge in document["edges"]["met"]]
    path = tmp_path / "marginals.json"
    path.write_text(json.dumps(document))
    if accepted:
        assert set(marginals.load(path)) == set(PROCESS_NAMES)
    else:
        with pytest.raises(FileFormatError, match="bins of 'met'"):
            marginals.load(path)


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
