"""The benchmark gives every figure that it promises."""

from dataclasses import asdict

import numpy as np
import pytest
import torch

from covad.cli import bench
from covad.toys.latent_world import LatentWorld

PROMISED = {
    "torch_adam_ms_per_epoch",
    "torch_adam_chunked_ms_per_epoch",
    "adam_ms_per_epoch",
    "evaluation_ms",
    "one_start_core_seconds",
    "search_core_seconds",
    "one_start_speedup",
    "search_speedup",
    "convex_core_seconds",
    "convex_speedup",
}


@pytest.fixture(scope="module")
def figures():
    return bench.bench_toys(fast=True, world=LatentWorld(3000, 600.0))


def test_every_promised_figure_is_there(figures):
    assert asdict(figures).keys() >= PROMISED
    *numbers, costs, convex = asdict(figures).values()
    assert [cost["nuisances"] for cost in costs] == [1, 10, 50]
    numbers += [value for cost in costs for value in cost.values()]
    assert len(convex) == 15
    numbers += [cost[key] for cost in convex for key in ("core_seconds", "baseline_core_seconds")]
    assert all(value > 0.0 and np.isfinite(value) for value in numbers)


def test_speedups_are_against_the_whole_training(figures):
    training = 50.0 * figures.torch_adam_ms_per_epoch
    assert figures.one_start_speedup == pytest.approx(training / figures.one_start_core_seconds)
    assert figures.search_speedup == pytest.approx(training / figures.search_core_seconds)


def test_the_table_names_every_solver(figures):
    table = bench.format_table(figures)
    for words in (
        "PyTorch Adam, full batch",
        "chunks of 1000",
        "one start",
        "search",
        "convex",
        "50 ",
        "family of 9",
        "Newton",
    ):
        assert words in table


@pytest.mark.parametrize("chunk", [None, 1000])
def test_plain_torch_takes_the_same_steps_as_covads_adam(chunk):
    """The baseline is the same training: the same weights after 30 epochs, up to float32."""
    toy = LatentWorld(2000, 500.0).toy(np.random.default_rng(1))
    torch.manual_seed(0)
    baseline = bench.TorchTraining(toy, chunk)
    start = baseline.theta()
    network = bench.NetworkTest(clip=bench.CLIP)
    settings = bench.AdamSettings(epochs=30)
    ours = bench.train(network.likelihood(toy), start, network.limits(toy), settings)
    baseline.run(30)
    assert np.abs(ours - start).max() > 0.02
    np.testing.assert_allclose(ours, baseline.theta(), atol=2e-5)
