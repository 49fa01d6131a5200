import os
import signal
import time
from dataclasses import replace

import pytest
from toy_world import Mishap, latent_pools, results, small_ensemble

from covad.storage.versions import Versions
from covad.toys.backends.local import LocalWorkers
from covad.toys.drawing import PoolSource
from covad.toys.ensembles import BLOCK, Block, Ensemble, Request, Shard
from covad.toys.pool_files import write_pools
from covad.toys.run import RunStopped, run_toys, stoppable
from covad.toys.store import ToyStore
from covad.toys.toy import run_block

TOYS = 3 * BLOCK + 3


@pytest.fixture(scope="module")
def expected():
    """The toys, computed one after the other in this process."""
    return results(run_block(Block(small_ensemble(), 0, TOYS)).toys)


def local(number):
    """Workers for one run."""

    def results(blocks):
        with LocalWorkers(number) as pool:
            yield from pool.results(blocks)

    return results


def stored(directory):
    return results(ToyStore(directory).load(Request(small_ensemble(), TOYS)).toys)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_the_number_of_workers_changes_nothing(tmp_path, expected, workers):
    found = run_toys([Request(small_ensemble(), TOYS)], ToyStore(tmp_path), local(workers))
    assert (found.computed, found.failed) == (TOYS, 0)
    assert stored(tmp_path) == expected


def test_shards_in_any_order_make_the_whole(tmp_path, expected):
    computed = [
        run_toys([Request(small_ensemble(), TOYS)], ToyStore(tmp_path), local(1), Shard(number, 3)).computed
        for number in (3, 1, 2)
    ]
    assert sum(computed) == TOYS
    assert min(computed) > 0
    assert stored(tmp_path) == expected


def test_more_toys_are_added_to_those_that_are_there(tmp_path, expected):
    store = ToyStore(tmp_path)
    first = run_toys([Request(small_ensemble(), BLOCK + 4)], store, local(1))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.parquet")}
    more = run_toys([Request(small_ensemble(), TOYS)], store, local(1))
    assert (first.computed, more.computed) == (BLOCK + 4, TOYS - BLOCK - 4)
    assert all(path.stat().st_mtime_ns == then for path, then in before.items())
    assert stored(tmp_path) == expected


def test_a_complete_run_starts_no_workers(tmp_path):
    def refuse(blocks):
        raise AssertionError("nothing is missing")

    store = ToyStore(tmp_path)
    store.add(Block(small_ensemble(), 0, 5), run_block(Block(small_ensemble(), 0, 5)))
    assert run_toys([Request(small_ensemble(), 5)], store, refuse).computed == 0


def test_toys_of_other_versions_are_added_with_a_warning_and_known_by_them(tmp_path, caplog):
    """Workers elsewhere may have other versions than this process: what counts is who computed."""
    now = Versions.here()
    old, elsewhere = replace(now, numpy="1.0", torch="0.9"), replace(now, numba="7.7")

    def computed_with(versions):
        return lambda blocks: ((block, replace(run_block(block), versions=versions)) for block in blocks)

    def warnings(toys, versions):
        caplog.clear()
        run_toys([Request(small_ensemble(), toys)], ToyStore(tmp_path), computed_with(versions))
        return caplog.messages

    assert warnings(20, old) == []
    assert warnings(30, old) == []
    promise = "the same toys to the last bit are not promised"
    after = f"numpy {now.numpy}, torch {now.torch}"
    said = f"30 toys here were made with numpy 1.0, torch 0.9, and now it is {after}: {promise}"
    assert warnings(50, now) == [said]
    assert len(warnings(60, elsewhere)) == 1
    assert ToyStore(tmp_path).versions() == {old: 30, now: 20, elsewhere: 10}
    found = ToyStore(tmp_path).load(Request(small_ensemble(), 45))
    assert found.versions == (old,) * 30 + (now,) * 15


def test_damaged_blocks_are_computed_again(tmp_path, expected, caplog):
    store = ToyStore(tmp_path)
    for start in range(0, TOYS, BLOCK):
        block = Block(small_ensemble(), start, min(start + BLOCK, TOYS))
        store.add(block, run_block(block))
    truncated, flipped, *_ = sorted(tmp_path.glob("*.parquet"))
    truncated.write_bytes(truncated.read_bytes()[:500])
    content = bytearray(flipped.read_bytes())
    content[300] ^= 1
    flipped.write_bytes(content)
    found = run_toys([Request(small_ensemble(), TOYS)], store, local(1))
    assert (found.corrupt, found.computed) == (2, 2 * BLOCK)
    assert truncated.name in caplog.text
    assert flipped.name in caplog.text
    assert stored(tmp_path) == expected


def test_failed_toys_are_stored_and_not_tried_again(tmp_path):
    ensemble = small_ensemble(Mishap("raise"))
    store = ToyStore(tmp_path)
    found = run_toys([Request(ensemble, BLOCK)], store, local(1))
    counts = store.counts([Request(ensemble, BLOCK)])[0]
    assert found.failed == counts.failed > 0
    assert counts.done + counts.failed == BLOCK
    assert run_toys([Request(ensemble, BLOCK)], store, local(1)).computed == 0


def test_small_pools_are_warned_of(tmp_path, caplog):
    write_pools(tmp_path / "pools", latent_pools())
    source = PoolSource.open(tmp_path / "pools")
    ensemble = Ensemble(small_ensemble().draw, small_ensemble().test, source, 1)
    run_toys([Request(ensemble, 3)], ToyStore(tmp_path / "toys"), local(1))
    assert "toys share finite pools" in caplog.text
    assert len(ToyStore(tmp_path / "toys").load(Request(ensemble, 3)).done) == 3


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_becomes_a_stop(number, code):
    before = signal.getsignal(number)

    def be_told():
        with stoppable():
            os.kill(os.getpid(), number)
            time.sleep(1)

    with pytest.raises(RunStopped, match="the same command") as stop:
        be_told()
    assert stop.value.exit_code == code
    assert signal.getsignal(number) is before
