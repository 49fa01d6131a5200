"""Anomalies that nobody tuned for: reproducible, of the strength drawn, hidden in the background."""

import numpy as np
import pytest

from covad.errors import TooFewEventsError
from covad.nplm.dataset import Response
from covad.toys import anomalies
from covad.toys.drawing import draw_from
from covad.toys.ensembles import Draw, Treatment
from covad.toys.pools import LatentEvents, Pool, Pools

DRAW = Draw("space", Treatment.PROFILED, 300.0, 1000, (0.0,))


def sample(n_events: int, seed: int) -> LatentEvents:
    z = np.random.default_rng(seed).normal(size=(n_events, 2)).astype(np.float32)
    return LatentEvents(z, Response(z[:, :1].copy()))


@pytest.fixture(scope="module")
def background() -> Pools:
    return Pools(Pool(sample(4000, 1)), sample(500, 2).z, {(0.0,): Pool(sample(2000, 3))})


@pytest.mark.parametrize("b", [0.0, 0.5, 30.0, 4000.0])
def test_the_strength_of_a_bump_is_that_of_a_counting_experiment(b):
    s = anomalies.events_of_known_z(5.0, b)
    b = max(b, 1e-3)
    assert np.sqrt(2.0 * ((s + b) * np.log1p(s / b) - s)) == pytest.approx(5.0, rel=1e-6) or s == 3.0


def test_bumps_depend_on_the_seed_alone(background):
    one, again, other = (anomalies.random_bumps(background, DRAW, 5, seed) for seed in (1, 1, 2))
    assert [a.injected for a in one.anomalies] == [a.injected for a in again.anomalies]
    assert [a.injected for a in one.anomalies] != [a.injected for a in other.anomalies]
    assert all(a.injected >= 3.0 for a in one.anomalies)


def test_events_of_bumps_have_the_response_of_their_neighbours(background):
    family = anomalies.random_bumps(background, DRAW, 10, 1)
    for anomaly in family.anomalies:
        z, g = anomaly.pool.sample.z, anomaly.pool.sample.response.linear[:, 0]
        inside = np.linalg.norm(z, axis=1) < 1.5
        assert np.abs(z[inside, 0] - g[inside]).max(initial=0.0) < 0.3


def test_toys_without_anomaly_are_those_of_the_background(background):
    family = anomalies.random_bumps(background, DRAW, 3, 1)
    seeds = anomalies.toy_seeds(7, family.name, 0, False)
    ours, plain = family.toy(DRAW, seeds, None), draw_from(background, DRAW, seeds)
    np.testing.assert_array_equal(ours.data, plain.data)
    with_anomaly = family.toy(DRAW, seeds, family.anomalies[0])
    np.testing.assert_array_equal(with_anomaly.reference, plain.reference)
    np.testing.assert_array_equal(with_anomaly.data[: len(plain.data)], plain.data)


def test_few_toys_see_anomalies_from_all_of_the_family(background):
    family = anomalies.random_bumps(background, DRAW, 10, 1)
    assert [family.turn(i, 5).name for i in range(5)] == [f"bump {k}" for k in (0, 2, 4, 6, 8)]
    assert [family.turn(i, 12).name for i in (0, 9, 10)] == ["bump 0", "bump 9", "bump 0"]


def test_a_process_that_is_left_out_is_nowhere_in_the_background(background):
    reference, data = background.reference.sample.z, background.data[(0.0,)].sample.z
    parts = {"reference": reference, "data": data, "basis": background.basis}
    labels = {role: np.where(z[:, 0] > 1.0, "rare", "usual") for role, z in parts.items()}
    family = anomalies.left_out(background, DRAW, "rare", labels)
    assert family.background.reference.sample.z[:, 0].max() <= 1.0
    assert family.background.basis[:, 0].max() <= 1.0
    assert family.background.data[(0.0,)].sample.z[:, 0].max() <= 1.0
    assert [a.injected for a in family.anomalies] == [1.5, 3.0, 6.0]
    assert family.anomalies[0].pool.sample.z[:, 0].min() > 1.0


def test_toys_that_need_more_events_than_there_are_are_refused(background):
    labels = {
        "reference": np.full(4000, "usual"),
        "data": np.full(2000, "usual"),
        "basis": np.full(500, "usual"),
    }
    labels["data"][:3] = "rare"
    family = anomalies.left_out(background, DRAW, "rare", labels)
    with pytest.raises(TooFewEventsError, match="'rare left out' has 3 events"):
        anomalies.check_sizes(family, DRAW)
