import numpy as np
import pytest

from covad.embedding.metrics import ProbeResult
from covad.embedding.probe import linear_probe
from covad.errors import TrainingError


def clusters(n_events: int, seed: int, distance: float) -> tuple[np.ndarray, np.ndarray]:
    """Two Gaussians along the first axis, 80 % and 20 % of the events; labels are not consecutive."""
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random(n_events) < 0.8, 5, 2)
    z = rng.normal(size=(n_events, 3))
    z[:, 0] += distance * (labels == 2)
    return z.astype(np.float32), labels


def test_accuracies_are_those_of_the_optimal_classifier() -> None:
    """Two Gaussians at 3: balanced accuracy is Phi(1.5) = 0.933 with a cut in the middle."""
    result = linear_probe(*clusters(20_000, 1, 3.0), *clusters(40_000, 2, 3.0))
    assert result.majority == pytest.approx(0.8, abs=0.01)
    # natural mix: cut at 1.5 + ln(4)/3, 0.8 Phi(1.962) + 0.2 Phi(1.038) = 0.950; 5 sigma of 40 000 events
    assert result.accuracy == pytest.approx(0.9503, abs=0.0055)
    assert result.balanced_accuracy == pytest.approx(0.9332, abs=0.01)
    assert result.accuracy_uncertainty == pytest.approx(np.sqrt(0.95 * 0.05 / 40_000), rel=0.1)


def test_without_separation_the_probe_guesses_the_majority() -> None:
    result = linear_probe(*clusters(5000, 1, 0.0), *clusters(5000, 2, 0.0))
    assert result.accuracy == pytest.approx(result.majority, abs=0.002)
    assert result.balanced_accuracy == pytest.approx(0.5, abs=0.04)


def test_samples_of_other_processes_are_refused() -> None:
    z, labels = clusters(100, 1, 1.0)
    with pytest.raises(TrainingError, match="two processes"):
        linear_probe(z, np.zeros(100, int), z, np.zeros(100, int))
    with pytest.raises(TrainingError, match="the same ones"):
        linear_probe(z, labels, z, labels + 1)


def figures(result: ProbeResult) -> list[float]:
    return [result.accuracy, result.balanced_accuracy, result.majority]


def test_weights_are_sums_of_events() -> None:
    """Ones are as none; copies of +2 and -1 are one event, and a weight of 3 is three events."""
    (z, labels), (fresh, truth) = clusters(3000, 1, 2.0), clusters(2000, 2, 2.0)
    plain = linear_probe(z, labels, fresh, truth)
    ones = linear_probe(z, labels, fresh, truth, np.ones(3000), np.ones(2000))
    assert vars(ones) == pytest.approx(vars(plain))
    twice = (np.repeat(x, 2, axis=0) for x in (z, labels, fresh, truth))
    copies = linear_probe(*twice, np.tile([2.0, -1.0], 3000), np.tile([2.0, -1.0], 2000))
    assert figures(copies) == pytest.approx(figures(plain), abs=1e-3)
    assert copies.accuracy_uncertainty == pytest.approx(
        np.sqrt(2.5) * plain.accuracy_uncertainty * np.sqrt(2), rel=0.01
    )
    rng = np.random.default_rng(3)
    first, second = rng.integers(0, 4, 3000), rng.integers(0, 4, 2000)
    weighted = linear_probe(z, labels, fresh, truth, 1.0 * first, 1.0 * second)
    repeated = linear_probe(
        *(np.repeat(x, n, axis=0) for x, n in ((z, first), (labels, first), (fresh, second), (truth, second)))
    )
    assert figures(weighted) == pytest.approx(figures(repeated), abs=1e-3)


def test_signed_weights_have_the_mix_of_their_sums() -> None:
    """The rarer process is simulated four times too often, with a quarter of negative weights."""
    rng = np.random.default_rng(4)

    def signed(n_events: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        z, labels = clusters(n_events, seed, 3.0)
        rare = np.flatnonzero(labels == 2)
        rows = np.concatenate([np.flatnonzero(labels == 5), np.repeat(rare, 4)])
        moved = z[rows] + 0.1 * rng.normal(size=(len(rows), 3)).astype(np.float32)
        weights = np.where(labels[rows] == 5, 1.0, np.where(rng.random(len(rows)) < 0.25, -0.5, 0.5))
        return moved, labels[rows], weights

    (z, labels, weights), (fresh, truth, fresh_weights) = signed(20_000, 1), signed(40_000, 2)
    found = linear_probe(z, labels, fresh, truth, weights, fresh_weights)
    plain = linear_probe(*clusters(20_000, 1, 3.0), *clusters(40_000, 2, 3.0))
    error = np.hypot(found.accuracy_uncertainty, plain.accuracy_uncertainty)
    assert found.accuracy == pytest.approx(plain.accuracy, abs=4 * error)  # a false alarm once in 16 000
    assert found.majority == pytest.approx(plain.majority, abs=0.01)
    assert found.balanced_accuracy == pytest.approx(plain.balanced_accuracy, abs=0.01)
    dropped = linear_probe(z, labels, fresh, truth, np.abs(weights), np.abs(fresh_weights))
    assert dropped.majority < plain.majority - 0.1


def test_weights_that_add_up_to_nothing_are_refused() -> None:
    z, labels = clusters(100, 1, 1.0)
    with pytest.raises(TrainingError, match="no process add up"):
        linear_probe(z, labels, z, labels, -np.ones(100), np.ones(100))
    with pytest.raises(TrainingError, match="fresh events add up"):
        linear_probe(z, labels, z, labels, np.ones(100), -np.ones(100))
    # a process without a positive sum has no recall, and is no part of the mean
    weights = np.where(labels == 2, -0.1, 1.0)
    assert linear_probe(z, labels, z, labels, np.ones(100), weights).balanced_accuracy <= 1.0
