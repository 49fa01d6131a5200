"""The same input gives the same bits: again, in another process, compiled afresh or taken from the cache."""

import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from convex_world import bumps

from covad.nplm.fit import Status
from covad.nplm.network.network import NetworkTest
from covad.nplm.network.search import ONE_START, Search
from covad.nplm.statistic import likelihood_ratio
from covad.toys import latent_world as latent
from covad.toys.latent_world import LatentWorld

FINGERPRINT = """
import hashlib, sys
import numpy as np
from covad.toys.latent_world import LatentWorld
from covad.nplm.network.network import NetworkTest
from covad.nplm.network.search import Search
from covad.nplm.statistic import likelihood_ratio
padding = np.ones(int(sys.argv[1]), dtype=np.uint8)  # moves the arrays that follow
dataset = LatentWorld(7001, 1800.0).toy(np.random.default_rng(3))
result = likelihood_ratio(dataset, NetworkTest(clip=1.4, search=Search(2, 2)), 4)
print(result.t.hex(), hashlib.sha256(result.tau.parameters.tobytes()).hexdigest())
"""


def fingerprint(cache=None, padding=0):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)} if cache else dict(os.environ)
    command = [sys.executable, "-c", FINGERPRINT, str(padding)]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


@pytest.mark.slow
def test_bits_do_not_depend_on_the_compilation(tmp_path):
    fresh = fingerprint(tmp_path / "one")
    assert any((tmp_path / "one").rglob("*.nbc"))
    assert fingerprint(tmp_path / "one") == fresh
    assert fingerprint(tmp_path / "one", padding=1000) == fresh
    assert fingerprint(tmp_path / "two") == fresh


def test_bits_do_not_depend_on_the_process_or_on_where_arrays_lie():
    assert len({fingerprint(padding=padding) for padding in (0, 8, 12345)}) == 1


def test_a_result_carries_status_costs_and_both_fits():
    dataset = LatentWorld(3000, 800.0).toy(np.random.default_rng(2))
    result = likelihood_ratio(
        dataset, NetworkTest(clip=1.4, search=ONE_START), seed=np.random.SeedSequence(5, spawn_key=(1, 2))
    )
    assert result.status is Status.CONVERGED
    assert result.seconds >= result.tau.seconds > 0.0
    assert result.tau.evaluations > result.delta.evaluations > 0
    assert len(result.tau.h_data) == len(dataset.data)
    assert len(result.tau.h_reference) == len(dataset.reference)
    assert len(result.delta.nu) == len(result.tau.nu) == 1


@pytest.mark.parametrize("kind", ["network", "convex"])
def test_a_fit_of_the_papers_size_takes_less_than_100_megabytes(kind):
    """Of arrays, beyond the dataset itself; the compiler has done its work before."""
    pool = latent.background(5_000, np.random.default_rng(0))
    test = NetworkTest(clip=1.4, search=ONE_START) if kind == "network" else bumps(pool, 100)
    likelihood_ratio(LatentWorld(3000, 800.0).toy(np.random.default_rng(2)), test, 0)
    dataset = LatentWorld().toy(np.random.default_rng(2))
    tracemalloc.start()
    likelihood_ratio(dataset, test, 0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 1e6 < peak < 100e6


@pytest.mark.parametrize(
    ("statuses", "worst"),
    [
        ((Status.CONVERGED, Status.CONVERGED), Status.CONVERGED),
        ((Status.CONVERGED, Status.UNCONVERGED), Status.UNCONVERGED),
        ((Status.FAILED, Status.UNCONVERGED), Status.FAILED),
    ],
)
def test_a_test_is_as_good_as_the_worse_fit(statuses, worst):
    assert Status.worst(*statuses) is worst


def test_more_candidates_do_not_end_lower():
    dataset = LatentWorld(6000, 1500.0).toy(np.random.default_rng(7))
    one = likelihood_ratio(dataset, NetworkTest(clip=1.4, search=ONE_START), seed=0)
    many = likelihood_ratio(dataset, NetworkTest(clip=1.4, search=Search(starts=8, hops=10)), seed=0)
    assert many.t >= one.t - 1e-2
