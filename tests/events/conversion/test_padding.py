"""Lists into slots, against a loop that anybody can check."""

import numpy as np
import pytest

from covad.errors import EventContentError
from covad.events.conversion.padding import Objects, wrapped


def random_objects(seed: int, n_events: int = 300) -> Objects:
    rng = np.random.default_rng(seed)
    counts = rng.poisson(2.5, n_events)
    n = int(counts.sum())
    features = {name: rng.normal(size=n).astype(np.float32) for name in ("pt", "eta")}
    features["pt"] = np.abs(features["pt"])
    return Objects(features, np.concatenate([[0], np.cumsum(counts)]), rng.normal(size=n))


def by_loop(objects: Objects, slots: int, ranked: bool) -> np.ndarray:
    """Events x (one empty slot, then the slots) x (eta, pt)."""
    n_events = len(objects.offsets) - 1
    result = np.zeros((n_events, slots + 1, 2), dtype=np.float32)
    pt, eta = objects.features["pt"], objects.features["eta"]
    for event in range(n_events):
        inside = list(range(objects.offsets[event], objects.offsets[event + 1]))
        key = objects.rank if ranked else pt
        chosen = sorted(inside, key=lambda i, key=key: -key[i])[:slots]
        for slot, i in enumerate(sorted(chosen, key=lambda i: -pt[i])):
            result[event, slot + 1] = eta[i], pt[i]
    return result


@pytest.mark.parametrize("ranked", [False, True])
@pytest.mark.parametrize("slots", [1, 2, 4, 20])
def test_slots_hold_what_a_loop_puts_there(slots: int, ranked: bool) -> None:
    objects = random_objects(seed=slots)
    if not ranked:
        objects = Objects(objects.features, objects.offsets)
    particles = np.zeros((len(objects.offsets) - 1, slots + 1, 2), dtype=np.float32)
    objects.by_scale().filling(slots).place(particles, slice(1, slots + 1), [1, 0])
    np.testing.assert_array_equal(particles, by_loop(objects, slots, ranked))


def test_objects_that_are_cut_leave_the_others_in_their_events() -> None:
    objects = random_objects(seed=7)
    kept = objects.features["eta"] > 0
    left = objects.only(kept)
    np.testing.assert_array_equal(left.counts, np.bincount(objects.events[kept], minlength=300))
    np.testing.assert_array_equal(left.scale, objects.scale[kept])
    assert objects.only(np.ones(len(kept), dtype=bool)) is objects


def test_no_objects_at_all_are_no_problem() -> None:
    empty = np.zeros(0, dtype=np.float32)
    objects = Objects({"pt": empty}, np.zeros(4, dtype=np.int64))
    particles = np.zeros((3, 2, 1), dtype=np.float32)
    objects.by_scale().filling(2).place(particles, slice(0, 2), [0])
    assert not particles.any()


def test_angles_are_brought_between_minus_pi_and_pi() -> None:
    inside = np.array([-3.1415927, 0, 3.1415927], dtype=np.float32)
    assert wrapped(inside) is inside  # float32(pi) is a little more than pi
    np.testing.assert_allclose(
        wrapped(np.array([0, 4, 6.28], np.float32)), [0, 4 - 2 * np.pi, -0.0032], atol=1e-4
    )
    with pytest.raises(EventContentError, match=r"has angles up to 180, which are no radians"):
        wrapped(np.array([10, -180], dtype=np.float32))
    assert np.isnan(wrapped(np.array([np.nan, 4], dtype=np.float32))[0])  # refused later, with its event
