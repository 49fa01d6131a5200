from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from toy_world import CHEAP, Mishap, results, small_draw, small_ensemble

from covad.errors import ToyStoreError
from covad.storage.versions import Versions
from covad.toys.blocks import COLUMNS
from covad.toys.drawing import LatentSource
from covad.toys.ensembles import Block, Ensemble, Request
from covad.toys.store import Counts, ToyStore
from covad.toys.toy import BlockToys, run_block


@pytest.fixture
def store(tmp_path):
    return ToyStore(tmp_path / "toys")


@pytest.fixture(scope="module")
def toys():
    return run_block(Block(small_ensemble(), 0, 30)).toys


def fill(store, toys, *edges, ensemble=None):
    """Store blocks between successive edges."""
    ensemble = ensemble or small_ensemble()
    for start, stop in pairwise(edges):
        store.add(Block(ensemble, start, stop), BlockToys(toys[start:stop], Versions.here()))


def blocks(store):
    return sorted(store.directory.glob("*.parquet"))


def missing(store, total):
    return [(b.start, b.stop) for b in store.missing([Block(small_ensemble(), 0, total)])]


def test_what_is_stored_is_loaded_in_order(store, toys):
    fill(store, toys, 20, 30)
    fill(store, toys, 0, 10, 20)
    found = store.load(Request(small_ensemble(), 30))
    assert found.toys == toys
    assert found.t.tolist() == [toy.t for toy in toys]
    assert found.column("nu_delta").shape == (30, 1)
    assert (found.failed, found.missing) == (0, 0)


def test_the_table_has_all_stored_toys_in_order(store, toys):
    """Failed ones too, with nulls; the missing ones are no rows."""
    failing = small_ensemble(Mishap("raise"))
    some = run_block(Block(failing, 0, 10)).toys
    assert 0 < sum(toy.failed for toy in some) < 10
    fill(store, some, 0, 10, ensemble=failing)
    table = store.load(Request(failing, 30)).table()
    assert table.schema == COLUMNS
    assert table["index"].to_pylist() == list(range(10))
    assert table["t"].to_pylist() == [toy.t for toy in some]
    assert table["reason"].to_pylist() == [toy.reason for toy in some]
    assert [tuple(row) if row else None for row in table["nu_tau"].to_pylist()] == [t.nu_tau for t in some]
    assert table["t"].null_count == sum(toy.failed for toy in some)
    empty = store.load(Request(small_ensemble(), 5)).table()
    assert (empty.num_rows, empty.schema) == (0, COLUMNS)


def test_blocks_are_named_by_ensemble_and_range(store, toys):
    fill(store, toys, 10, 20)
    identity = small_ensemble().identity
    assert [path.name for path in blocks(store)] == [f"{identity}-00000010-00000020.parquet"]
    assert (store.directory / f"{identity}.json").exists()


def test_more_toys_reuse_the_old_ones(store, toys):
    fill(store, toys, 0, 10)
    assert missing(store, 10) == []
    assert missing(store, 30) == [(10, 30)]
    fill(store, toys, 20, 25)
    assert missing(store, 30) == [(10, 20), (25, 30)]


def test_fewer_toys_ignore_the_rest(store, toys):
    fill(store, toys, 0, 10, 20)
    assert store.load(Request(small_ensemble(), 15)).toys == toys[:15]
    assert store.counts([Request(small_ensemble(), 15)])[0].done == 15


def test_fewer_toys_take_their_share_of_the_time(store, toys):
    """Else the time per toy, and with it the time left, grows when fewer toys are asked for."""
    timed = tuple(replace(toy, seconds=2.0, draw_seconds=0.0) for toy in toys)
    fill(store, timed, 0, 10, 20, 30)
    fill(store, timed, 5, 15)
    counts = store.counts([Request(small_ensemble(), n) for n in (15, 30)])
    assert [(c.done, c.seconds) for c in counts] == [(15, pytest.approx(30.0)), (30, pytest.approx(60.0))]


def test_ensembles_do_not_mix(store, toys):
    fill(store, toys, 0, 10)
    assert store.load(Request(small_ensemble(seed=2), 10)).toys == ()


def test_requested_is_done_failed_and_missing(store):
    ensemble = small_ensemble(Mishap("raise"))
    toys = run_block(Block(ensemble, 0, 20)).toys
    fill(store, toys, 0, 10, 20, ensemble=ensemble)
    failed = sum(toy.failed for toy in toys)
    counts = store.counts([Request(ensemble, 35), Request(small_ensemble(), 5)])
    assert counts[0] == Counts(
        requested=35,
        done=20 - failed,
        failed=failed,
        missing=15,
        unconverged=0,
        reasons={"ValueError: cannot be fitted": failed},
        seconds=pytest.approx(sum(toy.seconds + toy.draw_seconds for toy in toys)),
    )
    assert counts[1] == Counts(5, 0, 0, 5, 0, {}, 0.0)
    found = store.load(Request(ensemble, 35))
    assert (len(found.done), found.failed, found.missing) == (20 - failed, failed, 15)
    by_index = found.t_by_index()
    assert np.isnan(by_index).sum() == failed + 15
    assert by_index[[toy.index for toy in found.done]].tolist() == found.t.tolist()


def test_unconverged_toys_are_done_and_counted(store):
    ensemble = small_ensemble(Mishap("budget"))
    toys = run_block(Block(ensemble, 0, 10)).toys
    fill(store, toys, 0, 10, ensemble=ensemble)
    counts = store.counts([Request(ensemble, 10)])[0]
    assert counts.done == 10
    assert counts.unconverged == sum(toy.n_data % 2 for toy in toys) > 0


def test_a_stored_block_is_never_replaced(store, toys):
    fill(store, toys, 0, 10)
    before = blocks(store)[0].read_bytes()
    again = tuple(replace(toy, seconds=99.0) for toy in toys[:10])
    assert not store.add(Block(small_ensemble(), 0, 10), BlockToys(again, Versions.here()))
    assert blocks(store)[0].read_bytes() == before


def test_overlapping_blocks_count_once(store, toys):
    """Two runs with different numbers of toys can leave blocks that overlap."""
    fill(store, toys, 0, 10)
    fill(store, toys, 0, 7)
    fill(store, toys, 5, 15)
    found = store.load(Request(small_ensemble(), 15))
    assert found.toys == toys[:15]
    assert store.counts([Request(small_ensemble(), 15)])[0].done == 15


def test_colliding_seeds_between_blocks_are_refused(store, toys):
    fill(store, toys, 0, 10)
    twins = tuple(replace(toy, index=toy.index + 10) for toy in toys[:10])
    store.add(Block(small_ensemble(), 10, 20), BlockToys(twins, Versions.here()))
    with pytest.raises(ToyStoreError, match="toys 0 and 10 have the same seed"):
        store.load(Request(small_ensemble(), 20))


def truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


def flip(path):
    content = bytearray(path.read_bytes())
    content[200] ^= 16
    path.write_bytes(content)


def swap(path):
    """A whole block under another's name."""
    path.rename(path.with_name(path.name.replace("00000010-00000020", "00000020-00000030")))


@pytest.mark.parametrize("damage", [truncate, flip, swap, lambda path: path.write_bytes(b"")])
def test_corrupt_blocks_are_set_aside_and_missing(store, toys, damage, caplog):
    fill(store, toys, 0, 10, 20)
    request = Request(small_ensemble(), 20)
    damage(blocks(store)[1])
    damaged = blocks(store)[1]
    found = store.load(request)
    assert found.toys == toys[:10]
    assert [str(damaged) in said for said in found.damaged] == [True]
    assert f"{damaged}" in caplog.text
    assert "run again" in caplog.text
    moved = store.set_corrupt_aside([request])
    assert len(moved) == 1
    assert moved == store.corrupt()
    assert moved[0].name in caplog.text
    assert missing(store, 20) == [(10, 20)]
    fill(store, toys, 10, 20)
    assert store.set_corrupt_aside([request]) == []
    assert store.load(request).toys == toys[:20]


@pytest.mark.parametrize("use", ["counts", "load_all", "set_corrupt_aside"])
def test_blocks_of_another_schema_are_refused_and_stay(store, toys, use, monkeypatch):
    """They are sound: a run of an earlier version must not be set aside and computed again."""
    fill(store, toys, 0, 10, 20)
    before = {path: path.read_bytes() for path in blocks(store)}
    monkeypatch.setattr("covad.toys.blocks.STORE_SCHEMA", 99)
    with pytest.raises(ToyStoreError, match=r"^\S+\.parquet: has schema 3 .* 99 was expected"):
        getattr(store, use)([Request(small_ensemble(), 20)])
    assert {path: path.read_bytes() for path in blocks(store)} == before
    assert store.corrupt() == []
    assert getattr(store, use)([]) in ([], {})  # blocks that nobody asks for do not matter


def test_sound_blocks_are_left_alone(store, toys):
    fill(store, toys, 0, 10, 20, 30)
    assert store.set_corrupt_aside([Request(small_ensemble(), 30)]) == []
    assert len(blocks(store)) == 3


def test_strange_files_are_ignored(store, toys):
    fill(store, toys, 0, 10)
    (store.directory / "notes.parquet").write_text("mine")
    (store.directory / f".{blocks(store)[0].name}.abc.part").write_text("half")
    assert store.load(Request(small_ensemble(), 10)).toys == toys[:10]


def test_only_old_leftovers_are_swept(store, toys):
    import os

    fill(store, toys, 0, 10)
    old, fresh = store.directory / ".a.parquet.1.part", store.directory / ".b.parquet.2.part"
    for path in (old, fresh):
        path.write_text("half")
    os.utime(old, (1, 1))
    store.sweep()
    assert not old.exists()
    assert fresh.exists()


def test_an_empty_place_has_nothing(store):
    assert store.load(Request(small_ensemble(), 3)).missing == 3
    assert store.counts([Request(small_ensemble(), 3)])[0].missing == 3
    assert store.corrupt() == []


def test_results_leave_out_times(toys):
    assert "seconds" not in results(toys)[0]


def test_toys_with_ten_nuisances_are_stored_whole(store):
    truth = tuple(0.1 * k for k in range(10))
    ensemble = Ensemble(small_draw(nu=truth), CHEAP, LatentSource(10), 1)
    block = Block(ensemble, 0, 2)
    found = run_block(block)
    store.add(block, found)
    loaded = store.load(Request(ensemble, 2))
    assert loaded.toys == found.toys
    assert loaded.toys[0].true_nu == truth
    assert loaded.column("nu_delta").shape == loaded.column("nu_tau").shape == (2, 10)
