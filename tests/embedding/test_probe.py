import numpy as np
import pytest

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
