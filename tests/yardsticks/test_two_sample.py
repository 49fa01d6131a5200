"""The classifier two-sample test: its area by a slow count, and samples that are easy to tell apart."""

import numpy as np
import pytest

from covad.errors import MissingExtraError
from covad.nplm.dataset import Dataset, Response
from covad.yardsticks.two_sample import TwoSampleClassifier, area
from covad.yardsticks.yardstick import SeenToy, boosted_trees


def test_the_area_counts_pairs():
    rng = np.random.default_rng(0)
    score, is_data, weights = rng.integers(0, 5, 60).astype(float), rng.random(60) < 0.5, rng.random(60)
    pairs = [
        (weights[i] * weights[j], 1.0 if score[i] > score[j] else 0.5 if score[i] == score[j] else 0.0)
        for i in np.flatnonzero(is_data)
        for j in np.flatnonzero(~is_data)
    ]
    slow = sum(w * x for w, x in pairs) / sum(w for w, _ in pairs)
    assert area(score, is_data, weights) == pytest.approx(slow)


@pytest.mark.parametrize(("shift", "low", "high"), [(0.0, 0.42, 0.58), (2.0, 0.8, 1.0)])
def test_what_is_different_is_told_apart(shift, low, high):
    """Half of 400 and of 2000 events: the area 0.5 has a standard deviation of 0.022."""
    rng = np.random.default_rng(1)
    reference, data = (rng.normal(size=(n, 2)).astype(np.float32) for n in (2000, 400))
    data[:, 0] += shift
    known = Dataset(reference, data, np.full(2000, 0.2), Response.none(2000), Response.none(400), np.empty(0))
    toy = SeenToy(known, {"z": reference}, {"z": data})
    found = TwoSampleClassifier("z").statistic(toy, 3)
    assert low < found < high
    assert found == TwoSampleClassifier("z").statistic(toy, 3)


def test_the_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sklearn.ensemble", None)
    with pytest.raises(MissingExtraError, match="the extra 'yardsticks'"):
        boosted_trees(0)
