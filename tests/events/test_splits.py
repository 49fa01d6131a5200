import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covad.errors import CovadError, TooFewEventsError
from covad.events.splits import disjoint_splits, split_folds

SIZES = st.dictionaries(st.text(min_size=1, max_size=5), st.integers(0, 50), min_size=1, max_size=6)


@given(sizes=SIZES, spare=st.integers(0, 100), seed=st.integers(0, 2**32))
def test_splits_are_disjoint_sorted_reproducible(sizes: dict[str, int], spare: int, seed: int) -> None:
    n_events = sum(sizes.values()) + spare
    splits = disjoint_splits(n_events, sizes, seed)
    assert {name: len(rows) for name, rows in splits.items()} == sizes
    together = np.concatenate(list(splits.values()))
    assert len(np.unique(together)) == len(together)
    assert all(
        rows.min(initial=0) >= 0 and rows.max(initial=0) < max(n_events, 1) for rows in splits.values()
    )
    assert all((np.diff(rows) > 0).all() for rows in splits.values())
    again = disjoint_splits(n_events, sizes, seed)
    assert all(np.array_equal(splits[name], again[name]) for name in sizes)


@given(n=st.integers(5, 200), folds=st.integers(1, 5), seed=st.integers(0, 1000))
def test_folds_share_no_event_and_lose_none(n: int, folds: int, seed: int) -> None:
    rows = disjoint_splits(n + 100, {"encoder": n}, seed)["encoder"]
    parts = split_folds(rows, folds, seed)
    assert len(parts) == folds
    assert max(len(part) for part in parts) - min(len(part) for part in parts) <= 1
    assert np.array_equal(np.sort(np.concatenate(parts)), rows)
    assert all((np.diff(part) > 0).all() for part in parts)
    assert all(np.array_equal(*pair) for pair in zip(parts, split_folds(rows, folds, seed), strict=True))


def test_seeds_matter_and_splits_are_random() -> None:
    first, second = (disjoint_splits(1000, {"a": 500}, seed)["a"] for seed in (1, 2))
    assert not np.array_equal(first, second)
    assert 200 < (first < 500).sum() < 300  # hypergeometric with sigma 8: 6 sigma


def test_too_few_events_are_refused_with_the_numbers() -> None:
    with pytest.raises(
        TooFewEventsError, match=r"10 events cannot fill splits of 12 \(reference 5, data 7\)"
    ):
        disjoint_splits(10, {"reference": 5, "data": 7}, seed=0)


def test_negative_sizes_are_refused() -> None:
    with pytest.raises(CovadError, match="split 'lq' cannot have -5 events"):
        disjoint_splits(10, {"lq": -5, "a4l": 7}, seed=0)


@pytest.mark.parametrize("folds", [0, 4])
def test_impossible_folds_are_refused(folds: int) -> None:
    with pytest.raises(CovadError, match=f"3 events cannot be divided into {folds} folds"):
        split_folds(np.arange(3), folds, seed=0)
