"""Which rows of the data split are embedded at which points of the prior."""

import numpy as np
import pytest
from finished_run import TINY, run_here, tiny_study
from weighted_files import weighted_study, write_processes

from covad.nplm.dataset import Response
from covad.pipeline.pools import n_parts, n_worth, prior_parts
from covad.runs.collisions import CollisionData
from covad.runs.directory import RunDirectory
from covad.study.plan import draws
from covad.toys.drawing import PoolSource, largest_number
from covad.toys.pool_files import open_pools
from covad.toys.pools import Cost, LatentEvents, Pool

ROWS = np.sort(np.random.default_rng(1).permutation(12_000)[:2200])


def collisions(path, expected=200, **changes):
    """A run before its events are there: the rows of the data split are told."""
    sizes = {"expected": expected, "reference": 1000}
    data = CollisionData.of(tiny_study(sizes=sizes, prior=True, **changes), RunDirectory(path))
    vars(data)["rows"] = {"data": ROWS}
    return data


def divided(data, n_events):
    """The rows and points of every part, of so many events that all rows are worth."""
    return prior_parts(data, n_parts(data.study, n_events))


@pytest.mark.parametrize(("expected", "n_found"), [(10, 16), (200, 2), (600, 1), (900, 1)])
def test_every_point_has_a_part_that_is_large_enough(tmp_path, expected, n_found):
    """2200 rows: a toy takes up to 200 e^{0.4} + 6 sqrt(200 e^{0.4}) = 402; a part has half as many more."""
    data = collisions(tmp_path, expected)
    parts = list(divided(data, 2200))
    assert len(parts) == n_found
    points = [point for _, chosen in parts for point in chosen]
    assert len(points) == len(set(points)) == 64
    assert {len(chosen) for _, chosen in parts} <= {64 // n_found, 64 // n_found + 1}
    rows = np.concatenate([rows for rows, _ in parts])
    assert sorted(rows) == sorted(ROWS)
    if n_found > 1:
        needed = 1.5 * largest_number(expected * np.exp(0.4))
        assert min(len(rows) for rows, _ in parts) >= np.floor(needed)


def test_parts_are_as_large_as_what_the_cuts_leave_asks_for(tmp_path):
    data = collisions(tmp_path)
    assert [len(list(divided(data, n))) for n in (2200, 1300, 600)] == [2, 1, 1]


def test_every_part_is_a_fair_sample_of_files_that_are_sorted(tmp_path):
    """16 parts of 137 rows: the share from the first half of the files is within 5 standard errors."""
    for rows, _ in divided(collisions(tmp_path, 10), 2200):
        assert (np.diff(rows) > 0).all()
        assert abs((rows < 6000).mean() - (ROWS < 6000).mean()) < 5 * 0.5 / np.sqrt(len(rows))


def test_the_points_depend_on_the_study_alone(tmp_path):
    points = [
        [point for _, chosen in divided(collisions(tmp_path, expected), 2200) for point in chosen]
        for expected in (10, 200)
    ]
    assert sorted(points[0]) == sorted(points[1])
    other = [p for _, chosen in divided(collisions(tmp_path, seed=6), 2200) for p in chosen]
    assert sorted(other) != sorted(points[0])


def test_the_largest_configuration_decides(tmp_path):
    large = {"treatment": "profiled", "sizes": {"expected": 600, "reference": 1000}}
    data = collisions(tmp_path, 10, configurations=[{"treatment": "profiled"}, large])
    assert len(list(divided(data, 2200))) == 1
    without = collisions(
        tmp_path, 10, configurations=[{"treatment": "profiled"}, large | {"treatment": "none"}]
    )
    assert len(list(divided(without, 2200))) == 16


def test_without_toys_of_the_prior_nothing_is_embedded(tmp_path):
    data = CollisionData.of(tiny_study(), RunDirectory(tmp_path))
    assert list(divided(data, 2200)) == []
    none = collisions(tmp_path, configurations=[{"treatment": "none"}])
    assert list(divided(none, 2200)) == []


def accepted_pool(n, effective_signed):
    """So many events that were accepted of 5000."""
    events = LatentEvents(np.zeros((n, 2), np.float32), Response.none(n))
    cost = Cost(events=5000, accepted=n, negative=0.1, effective=2500.0, effective_signed=effective_signed)
    return Pool(events, cost=None if effective_signed is None else cost)


def test_events_with_weights_are_worth_what_is_accepted_where_this_is_least():
    centre, up = (0.0,), (1.0,)
    plain = accepted_pool(900, None)
    assert n_worth({centre: plain, up: accepted_pool(100, 2500.0)}, centre) == 900  # as all that are selected
    assert n_worth({centre: accepted_pool(900, 2500.0), up: accepted_pool(800, 2500.0)}, centre) == 800
    # signs: 1 / 900 + 1 / 1000 - 1 / 2500
    assert n_worth({centre: accepted_pool(900, 1000.0)}, centre) == pytest.approx(1 / 0.0017111, rel=1e-3)


def test_toys_of_the_prior_can_be_drawn_of_events_with_weights(tmp_path, monkeypatch):
    """Of 3500 events less than half are accepted: a third of these are too few for toys of 214 events."""
    yields = {"w": 24.0, "qcd": 176.0, "z": 10.0, "ttbar": 4.0}  # events of qcd weigh ten times as much
    splits = TINY["source"]["splits"] | {"encoder": 2700, "response": 2200, "check": 2100, "data": 3500}
    study = weighted_study(
        write_processes(tmp_path),
        {name: {"yield": value} for name, value in yields.items()},
        source={"splits": splits},
        prior=True,
    )
    monkeypatch.setattr("covad.study.plan._PRIOR_POINTS", 8)
    run = run_here(study, tmp_path / "run", until="pools")
    study = RunDirectory(run).study()
    source = PoolSource.open(run / "pools/covariant_linear")
    (draw,) = (draw for draw in draws(study, study.configurations[0]) if draw.prior)
    source.check(draw)
    there = open_pools(source.directory, source.digest)
    assert len(there.prior) == 8
    assert len(there.data[0.0,]) < 3 * largest_number(draw.largest.expected_background)
