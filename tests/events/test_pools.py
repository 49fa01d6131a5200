import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covad.errors import CovadError, TooFewEventsError
from covad.events.pools import PoolSizes, disjoint_pools, split_background

SIZES = st.dictionaries(st.text(min_size=1, max_size=5), st.integers(0, 50), min_size=1, max_size=6)


@given(sizes=SIZES, spare=st.integers(0, 100), seed=st.integers(0, 2**32))
def test_pools_are_disjoint_sorted_reproducible(sizes: dict[str, int], spare: int, seed: int) -> None:
    n_events = sum(sizes.values()) + spare
    pools = disjoint_pools(n_events, sizes, seed)
    assert {name: len(rows) for name, rows in pools.items()} == sizes
    together = np.concatenate(list(pools.values()))
    assert len(np.unique(together)) == len(together)
    assert all(rows.min(initial=0) >= 0 and rows.max(initial=0) < max(n_events, 1) for rows in pools.values())
    assert all((np.diff(rows) > 0).all() for rows in pools.values())
    again = disjoint_pools(n_events, sizes, seed)
    assert all(np.array_equal(pools[name], again[name]) for name in sizes)


@given(encoder=st.integers(5, 200), folds=st.integers(1, 5), seed=st.integers(0, 1000))
def test_background_roles_share_no_event(encoder: int, folds: int, seed: int) -> None:
    sizes = PoolSizes(encoder=encoder, response=30, reference=40, data=20, folds=folds)
    pools = split_background(encoder + 100, sizes, seed)
    parts = [*pools.encoder, pools.response, pools.reference, pools.data]
    assert len(pools.encoder) == folds
    assert sum(len(f) for f in pools.encoder) == encoder
    assert max(len(f) for f in pools.encoder) - min(len(f) for f in pools.encoder) <= 1
    assert len(np.unique(np.concatenate(parts))) == encoder + 90


def test_seeds_matter_and_pools_are_random() -> None:
    first, second = (disjoint_pools(1000, {"a": 500}, seed)["a"] for seed in (1, 2))
    assert not np.array_equal(first, second)
    assert 200 < (first < 500).sum() < 300  # hypergeometric with sigma 8: 6 sigma


def test_too_few_events_are_refused_with_the_numbers() -> None:
    with pytest.raises(TooFewEventsError, match=r"10 events cannot fill pools of 12 \(reference 5, data 7\)"):
        disjoint_pools(10, {"reference": 5, "data": 7}, seed=0)


def test_negative_sizes_are_refused() -> None:
    with pytest.raises(CovadError, match="pool 'lq' cannot have -5 events"):
        disjoint_pools(10, {"lq": -5, "a4l": 7}, seed=0)
    with pytest.raises(CovadError, match="pool 'response' cannot have -1 events"):
        split_background(10, PoolSizes(encoder=2, response=-1, reference=1, data=1), seed=0)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"encoder": -1}, "-1 encoder events cannot be divided"),
        ({"encoder": 3, "folds": 5}, "3 encoder events cannot be divided into 5"),
        ({"folds": 0}, "into 0 folds"),
    ],
)
def test_impossible_sizes_are_refused(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(CovadError, match=message):
        PoolSizes(**({"encoder": 10, "response": 1, "reference": 1, "data": 1} | sizes))
