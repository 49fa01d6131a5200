"""Which rows of the data split are embedded at which points of the prior."""

import numpy as np
import pytest
from finished_run import tiny_study

from covad.pipeline.pools import prior_parts
from covad.runs.collisions import CollisionData
from covad.runs.directory import RunDirectory
from covad.toys.drawing import largest_number

ROWS = np.sort(np.random.default_rng(1).permutation(12_000)[:2200])


def collisions(path, expected=200, **changes):
    """A run before its events are there: the rows of the data split are told."""
    sizes = {"expected": expected, "reference": 1000}
    data = CollisionData.of(tiny_study(sizes=sizes, prior=True, **changes), RunDirectory(path))
    vars(data)["rows"] = {"data": ROWS}
    return data


@pytest.mark.parametrize(("expected", "n_parts"), [(10, 16), (200, 2), (600, 1), (900, 1)])
def test_every_point_has_a_part_that_is_large_enough(tmp_path, expected, n_parts):
    """2200 rows: a toy takes up to 200 e^{0.4} + 6 sqrt(200 e^{0.4}) = 402; a part has half as many more."""
    data = collisions(tmp_path, expected)
    parts = list(prior_parts(data, 2200))
    assert len(parts) == n_parts
    points = [point for _, chosen in parts for point in chosen]
    assert len(points) == len(set(points)) == 64
    assert {len(chosen) for _, chosen in parts} <= {64 // n_parts, 64 // n_parts + 1}
    rows = np.concatenate([rows for rows, _ in parts])
    assert sorted(rows) == sorted(ROWS)
    if n_parts > 1:
        needed = 1.5 * largest_number(expected * np.exp(0.4))
        assert min(len(rows) for rows, _ in parts) >= np.floor(needed)


def test_parts_are_as_large_as_what_the_cuts_leave_asks_for(tmp_path):
    data = collisions(tmp_path)
    assert [len(list(prior_parts(data, n))) for n in (2200, 1300, 600)] == [2, 1, 1]


def test_every_part_is_a_fair_sample_of_files_that_are_sorted(tmp_path):
    """16 parts of 137 rows: the share from the first half of the files is within 5 standard errors."""
    for rows, _ in prior_parts(collisions(tmp_path, 10), 2200):
        assert (np.diff(rows) > 0).all()
        assert abs((rows < 6000).mean() - (ROWS < 6000).mean()) < 5 * 0.5 / np.sqrt(len(rows))


def test_the_points_depend_on_the_study_alone(tmp_path):
    points = [
        [point for _, chosen in prior_parts(collisions(tmp_path, expected), 2200) for point in chosen]
        for expected in (10, 200)
    ]
    assert sorted(points[0]) == sorted(points[1])
    other = [p for _, chosen in prior_parts(collisions(tmp_path, seed=6), 2200) for p in chosen]
    assert sorted(other) != sorted(points[0])


def test_the_largest_configuration_decides(tmp_path):
    large = {"treatment": "profiled", "sizes": {"expected": 600, "reference": 1000}}
    data = collisions(tmp_path, 10, configurations=[{"treatment": "profiled"}, large])
    assert len(list(prior_parts(data, 2200))) == 1
    without = collisions(
        tmp_path, 10, configurations=[{"treatment": "profiled"}, large | {"treatment": "none"}]
    )
    assert len(list(prior_parts(without, 2200))) == 16


def test_without_toys_of_the_prior_nothing_is_embedded(tmp_path):
    data = CollisionData.of(tiny_study(), RunDirectory(tmp_path))
    assert list(prior_parts(data, 2200)) == []
    none = collisions(tmp_path, configurations=[{"treatment": "none"}])
    assert list(prior_parts(none, 2200)) == []
