"""A changed study is told key by key, points of several nuisances by their names."""

from dataclasses import replace

import pytest

from covad.study import changes

NAMES = (*(f"scale_{k}" for k in range(25)), "qcd_rate")


def point(**values):
    return [values.get(name, 0.0) for name in NAMES]


def told(before, after, names=NAMES):
    (change,) = changes(before, after)
    return str(replace(change, names=names))


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ([point(), point(qcd_rate=1.0)], "has got (qcd_rate = +1)"),
        ([], "has lost (nu = 0)"),
        ([point(scale_3=-2.0, qcd_rate=1.0)], "has lost (nu = 0) and has got (scale_3 = -2, qcd_rate = +1)"),
        ([point(), point(scale_0=1.0), point(scale_0=-1.0)], "has got (scale_0 = +1), (scale_0 = -1)"),
    ],
)
def test_points_that_came_and_went_are_told_by_names(after, words):
    assert told({"nu": [point()]}, {"nu": after}) == f"nu {words}"
    inside = {"configurations": [{"nu": [point()]}]}, {"configurations": [{"nu": after}]}
    assert told(*inside) == f"configurations.0.nu {words}"


def test_points_in_another_order_are_told_as_such():
    points = [point(), point(qcd_rate=1.0)]
    assert told({"nu": points}, {"nu": points[::-1]}) == "nu has its points in another order"


def test_points_of_one_nuisance_are_told_as_they_are_written():
    words = "nu was [[0.0]] and is now [[0.0], [1.0]]"
    assert told({"nu": [[0.0]]}, {"nu": [[0.0], [1.0]]}, ("jets",)) == words
