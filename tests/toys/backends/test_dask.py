"""The same blocks on a real Dask scheduler with worker processes of its own."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from toy_world import Mishap, results, small_ensemble

import covad
from covad.errors import PlanError, WorkerError
from covad.storage.versions import Versions
from covad.study import read_study
from covad.toys.backends import dask as dask_run
from covad.toys.backends.dask import BatchCluster, DaskWorkers
from covad.toys.ensembles import BLOCK, Block, Request
from covad.toys.run import run_toys
from covad.toys.store import ToyStore
from covad.toys.toy import run_block

TOYS = 6 * BLOCK


def start(program, *arguments):
    """A Dask process that finds our test modules, computes on one thread, and gives a task two tries."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), str(Path(covad.__file__).parents[1])]),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
    }
    command = [sys.executable, "-m", f"distributed.cli.dask_{program}", "--no-dashboard", *arguments]
    return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)


def stop(process):
    process.kill()
    process.wait()


@pytest.fixture(scope="module")
def scheduler_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("dask") / "scheduler.json"
    process = start("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(path))
    end = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    yield path
    stop(process)


@pytest.fixture
def address(scheduler_file):
    return json.loads(scheduler_file.read_text())["address"]


@pytest.fixture
def two_workers(scheduler_file):
    options = ("--scheduler-file", str(scheduler_file), "--nthreads", "1", "--no-nanny")
    processes = [start("worker", *options) for _ in range(2)]
    yield processes
    for process in processes:
        stop(process)


@pytest.fixture
def pool(address):
    with DaskWorkers(address) as workers:
        yield workers


def test_a_killed_worker_costs_its_block_only(tmp_path, two_workers, pool, monkeypatch):
    monkeypatch.setattr(dask_run, "IN_FLIGHT", 4)

    def kill_one_mid_run(blocks):
        for number, result in enumerate(pool.results(blocks)):
            if number == 1:
                stop(two_workers[0])
            yield result

    ensemble = small_ensemble(Mishap("slow"))
    store = ToyStore(tmp_path)
    found = run_toys([Request(ensemble, TOYS)], store, kill_one_mid_run)
    assert (found.computed, found.failed) == (TOYS, 0)
    expected = results(run_block(Block(small_ensemble(), 0, TOYS)).toys)
    assert results(store.load(Request(ensemble, TOYS)).toys) == expected


def test_a_block_that_kills_its_workers_is_failed(two_workers, pool):
    odd = next(toy for toy in run_block(Block(small_ensemble(), 0, 20)).toys if toy.n_data % 2)
    block = Block(small_ensemble(Mishap("die")), odd.index, odd.index + 1)
    [(found, toys)] = pool.results([block])
    assert found == block
    assert [toy.failed for toy in toys.toys] == [True]
    assert "Dask workers died" in toys.toys[0].reason


def test_blocks_carry_the_versions_of_the_worker(two_workers, pool):
    [(_, found)] = pool.results([Block(small_ensemble(), 0, 1)])
    assert found.versions == Versions.here()


def test_workers_with_another_covad_are_named(two_workers, pool, monkeypatch):
    """One that answers with something else than we expect: the length of a block."""
    monkeypatch.setattr(dask_run, "run_block", len)
    with pytest.raises(WorkerError, match="workers need the covad of this process"):
        list(pool.results([Block(small_ensemble(), 0, 1)]))


def test_an_error_of_the_plan_reaches_the_caller(two_workers, pool):
    with pytest.raises(PlanError, match="quadratic"):
        list(pool.results([Block(small_ensemble(response_order=2), 0, 1)]))


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nonsense", "magic://127.0.0.1:9"])
def test_a_scheduler_that_does_not_answer_is_named(monkeypatch, address):
    monkeypatch.setattr(dask_run, "ANSWER_SECONDS", 1)
    with pytest.raises(WorkerError, match=f"no Dask scheduler answers at '{address}'"), DaskWorkers(address):
        pass


@pytest.fixture
def stranger(request):
    """A service that greets every caller with some bytes, and then waits."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        callers = []

        def greet():
            with suppress(OSError):
                while True:
                    callers.append(server.accept()[0])
                    callers[-1].sendall(request.param)

        threading.Thread(target=greet, daemon=True).start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        for caller in callers:
            caller.close()


@pytest.mark.parametrize(
    "stranger",
    [b"", b"SSH-2.0-OpenSSH_9.2p1\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(4096)],
    indirect=True,
    ids=["silence", "ssh", "http", "zeros"],
)
def test_another_service_at_the_address_is_no_scheduler(monkeypatch, stranger):
    """An SSH server used to end in 'Unable to allocate 2.82 EiB', a silent one never."""
    monkeypatch.setattr(dask_run, "ANSWER_SECONDS", 2)
    with pytest.raises(WorkerError, match=r"no Dask scheduler answers at .tcp:.*is the address right"):
        DaskWorkers(stranger).__enter__()


@pytest.mark.parametrize(
    ("system", "options", "wanted"),
    [
        ("slurm", {"walltime": "02:00:00", "queue": "short"}, ["#SBATCH -p short", "#SBATCH -t 02:00:00"]),
        ("htcondor", {"disk": "1 GB"}, ["MY.DaskWorkerCores = 4", "Queue"]),
    ],
)
def test_jobs_of_a_batch_system_have_one_thread_per_worker(system, options, wanted):
    with BatchCluster(system=system, jobs=3, cores=4, memory="8 GB", options=options).prepared() as cluster:
        script = cluster.job_script()
    assert "--nthreads 1 " in script
    assert "--nworkers 4 " in script
    assert all(line in script for line in wanted)


def test_an_option_that_the_batch_system_lacks_is_named():
    cluster = BatchCluster(system="slurm", jobs=1, cores=1, memory="1 GB", options={"wall": "1"})
    with pytest.raises(WorkerError, match=r"options\.wall: SLURMCluster"):
        cluster.prepared()


@pytest.mark.parametrize("name", ["slurm", "htcondor"])
def test_the_cluster_examples_make_jobs(name):
    study = read_study(Path(__file__).parents[3] / "examples" / "cluster" / f"{name}.yaml")
    with study.cluster.prepared() as cluster:
        assert "--nthreads 1 " in cluster.job_script()
