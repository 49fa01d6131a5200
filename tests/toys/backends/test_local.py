import os
from multiprocessing import active_children

import pytest
from toy_world import Mishap, results, small_ensemble

from covad.errors import PlanError, WorkerError
from covad.parallel import one_thread
from covad.toys.backends.local import MAX_DEATHS, LocalWorkers
from covad.toys.ensembles import Block
from covad.toys.toy import run_block


def blocks(ensemble, total=6, size=2):
    return [Block(ensemble, start, start + size) for start in range(0, total, size)]


def computed(workers, some_blocks):
    with LocalWorkers(workers) as pool:
        found = dict(pool.results(some_blocks))
    return [toy for block in sorted(found, key=lambda b: b.start) for toy in found[block].toys]


def test_workers_compute_what_this_process_would():
    ensemble = small_ensemble()
    expected = results(run_block(Block(ensemble, 0, 6)).toys)
    assert results(computed(2, blocks(ensemble))) == expected


def test_a_worker_that_dies_costs_one_attempt_of_its_block(tmp_path, caplog):
    mishap = Mishap("die once", str(tmp_path / "died"))
    ensemble = small_ensemble(mishap)
    expected = results(run_block(Block(small_ensemble(), 0, 6)).toys)
    found = results(computed(2, blocks(ensemble)))
    assert [toy["t"] for toy in found] == [toy["t"] for toy in expected]
    assert caplog.text.count("a worker died") == 1


def test_a_block_that_kills_every_worker_is_failed_and_the_rest_is_done(caplog):
    ensemble = small_ensemble(Mishap("die"))
    odd = [toy.n_data % 2 for toy in run_block(Block(small_ensemble(), 0, 4)).toys]
    assert 0 < sum(odd) < 4
    toys = computed(1, blocks(ensemble, total=4, size=1))
    assert [toy.failed for toy in toys] == [bool(n) for n in odd]
    assert all("3 workers died" in toy.reason for toy in toys if toy.failed)
    assert caplog.text.count("a worker died") == (MAX_DEATHS - 1) * sum(odd)


def test_an_error_of_the_plan_reaches_the_caller():
    with pytest.raises(PlanError, match="quadratic"):
        computed(1, blocks(small_ensemble(response_order=2)))


def test_no_workers_is_no_plan():
    with pytest.raises(WorkerError):
        LocalWorkers(0)


def test_workers_stay_between_runs_and_leave_with_the_context():
    before = active_children()
    with LocalWorkers(1) as pool:
        list(pool.results(blocks(small_ensemble())))
        first = set(active_children()) - set(before)
        list(pool.results(blocks(small_ensemble(), total=8)))
        assert set(active_children()) - set(before) == first
        assert len(first) == 1
    assert set(active_children()) <= set(before)


def test_leaving_early_leaves_no_process():
    before = active_children()
    with LocalWorkers(2) as pool:
        running = pool.results(blocks(small_ensemble(Mishap("slow")), total=40, size=10))
        next(running)
        assert len(active_children()) == len(before) + 2
        running.close()
        assert set(active_children()) <= set(before)


def test_one_thread_is_said_and_unsaid(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    with one_thread():
        assert os.environ["OMP_NUM_THREADS"] == os.environ["NUMBA_NUM_THREADS"] == "1"
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "NUMBA_NUM_THREADS" not in os.environ
