"""`covad bench toys`: one toy of the test by every solver, against the training of the paper, in one run.

Everything is CPU time of one thread. Solvers are measured in turns, so that a machine that slows down
slows all of them. The same data with one nuisance and with many show what a nuisance costs, in time and in
memory.
"""

from __future__ import annotations

import time
import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch

from covad.cli.adam import PAPER_TRAINING, AdamSettings, train
from covad.cli.bench_convex import ConvexCost, bench_convex
from covad.nplm.convex.capacity import with_capacity
from covad.nplm.dataset import Dataset, Float64, Normalisation
from covad.nplm.fit import NplmTest
from covad.nplm.likelihood import fit_nuisances
from covad.nplm.network.architecture import LEFT, RIGHT
from covad.nplm.network.likelihood import NetworkLikelihood
from covad.nplm.network.network import NetworkTest
from covad.nplm.network.search import FULL_SEARCH, ONE_START
from covad.nplm.statistic import likelihood_ratio
from covad.toys.latent_world import LatentWorld, background

#: W of the quality study in docs/explanation/solver.md: there the null of the default search has a mean of
#: about 42.
CLIP = 1.27
CHUNK = 1000
POOL = 20_000
PAPER_WORLD = LatentWorld()
#: Shape nuisances with which the same toys are tested.
NUISANCES = (1, 10, 50)


@dataclass(frozen=True)
class Repetitions:
    """How often each thing is measured in a round."""

    rounds: int
    epochs: int
    chunked_epochs: int
    evaluations: int
    fits: int
    searches: int


FULL = Repetitions(rounds=5, epochs=40, chunked_epochs=4, evaluations=40, fits=6, searches=1)
FAST = Repetitions(rounds=2, epochs=20, chunked_epochs=2, evaluations=20, fits=2, searches=1)


@dataclass(frozen=True)
class NuisanceCost:
    """What one toy costs that has so many nuisances besides the normalisation; t includes Delta."""

    nuisances: int
    delta_ms: float
    convex_ms: float
    one_start_ms: float
    convex_mb: float  # largest size of all arrays of the fits, without those of the toy
    one_start_mb: float


@dataclass(frozen=True)
class ToyTimes:
    """Means over the rounds; speed-ups are over the training of the paper in plain PyTorch."""

    torch_adam_ms_per_epoch: float
    torch_adam_chunked_ms_per_epoch: float
    adam_ms_per_epoch: float
    evaluation_ms: float  # value, gradient and Hessian of the network's likelihood
    evaluation_floor_ms: float  # its arithmetic alone
    torch_adam_core_seconds: float  # of a whole training, extrapolated from its epochs
    one_start_core_seconds: float  # of one toy: the network from one start
    one_start_speedup: float
    search_core_seconds: float  # the network's default search
    search_speedup: float
    convex_core_seconds: float
    convex_speedup: float
    by_nuisances: tuple[NuisanceCost, ...]
    convex_costs: tuple[ConvexCost, ...]


def bench_toys(fast: bool, world: LatentWorld = PAPER_WORLD) -> ToyTimes:
    """Measure epochs, evaluations and whole toys, every solver once a round."""
    torch.set_num_threads(1)
    repetitions = FAST if fast else FULL
    tests: dict[str, NplmTest] = {
        "one_start": NetworkTest(clip=CLIP, search=ONE_START),
        "search": NetworkTest(clip=CLIP, search=FULL_SEARCH),
        "convex": with_capacity(background(POOL, np.random.default_rng(0))),
    }
    toys = [world.toy(np.random.default_rng([7, i])) for i in range(max(repetitions.fits, 2))]
    for test in tests.values():  # compile
        likelihood_ratio(LatentWorld(2000, 400.0).toy(np.random.default_rng(0)), test, 0)
    times: dict[str, list[float]] = defaultdict(list)
    for turn in range(repetitions.rounds):
        for name, milliseconds in _measure_steps(toys[0], repetitions):
            times[name].append(milliseconds)
        for name, test in tests.items():
            count = repetitions.searches if name == "search" else repetitions.fits
            some = (toys[(turn + i) % len(toys)] for i in range(count))
            seconds = [likelihood_ratio(toy, test, turn).seconds for toy in some]
            times[f"{name}_core_seconds"].append(float(np.mean(seconds)))
    mean = {name: float(np.mean(values)) for name, values in times.items()}
    training = 1e-3 * PAPER_TRAINING.epochs * mean["torch_adam_ms_per_epoch"]
    speedups = {f"{name}_speedup": training / mean[f"{name}_core_seconds"] for name in tests}
    costs = _measure_nuisances(world, {name: tests[name] for name in ("convex", "one_start")}, repetitions)
    convex = tuple(bench_convex(world, repetitions.rounds))
    return ToyTimes(
        torch_adam_core_seconds=training, by_nuisances=costs, convex_costs=convex, **mean, **speedups
    )


def _measure_nuisances(
    world: LatentWorld, tests: dict[str, NplmTest], repetitions: Repetitions
) -> tuple[NuisanceCost, ...]:
    """Test the same data with few and with many nuisances."""
    times: dict[tuple[int, str], list[float]] = defaultdict(list)
    memory: dict[tuple[int, str], float] = {}
    for turn in range(repetitions.rounds * repetitions.fits):
        for k in NUISANCES:
            toy = replace(world, n_nuisances=k).toy(np.random.default_rng([8, turn]))
            delta = fit_nuisances(toy)
            if turn == 0:  # a first fit compiles; this one is watched, and not timed
                for name, test in tests.items():
                    likelihood_ratio(toy, test, turn)
                    memory[k, name] = _peak_mb(toy, test)
                delta = fit_nuisances(toy)
            times[k, "delta"].append(delta.seconds)
            for name, test in tests.items():
                times[k, name].append(delta.seconds + likelihood_ratio(toy, test, turn, delta).seconds)
    mean = {key: 1e3 * float(np.mean(values)) for key, values in times.items()}
    return tuple(
        NuisanceCost(
            nuisances=k,
            delta_ms=mean[k, "delta"],
            convex_ms=mean[k, "convex"],
            one_start_ms=mean[k, "one_start"],
            convex_mb=memory[k, "convex"],
            one_start_mb=memory[k, "one_start"],
        )
        for k in NUISANCES
    )


def _peak_mb(toy: Dataset, test: NplmTest) -> float:
    tracemalloc.start()
    likelihood_ratio(toy, test, 0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def _measure_steps(toy: Dataset, repetitions: Repetitions) -> Iterator[tuple[str, float]]:
    """Yield milliseconds of epochs of the baselines and of evaluations of the likelihood."""
    network = NetworkTest(clip=CLIP)
    likelihood = network.likelihood(toy)
    theta = np.random.default_rng(1).uniform(-1.0, 1.0, likelihood.architecture.n_variables)
    epochs = AdamSettings(epochs=repetitions.epochs)
    steps: dict[str, tuple[int, Callable[[int], object]]] = {
        "torch_adam_ms_per_epoch": (repetitions.epochs, TorchTraining(toy, chunk=None).run),
        "torch_adam_chunked_ms_per_epoch": (repetitions.chunked_epochs, TorchTraining(toy, chunk=CHUNK).run),
        "adam_ms_per_epoch": (
            repetitions.epochs,
            lambda _: train(likelihood, theta, network.limits(toy), epochs),
        ),
        "evaluation_ms": (
            repetitions.evaluations,
            lambda count: [likelihood.expand(theta) for _ in range(count)],
        ),
    }
    for name, (count, step) in steps.items():
        yield name, 1e3 * _seconds(step, count) / count
    yield "evaluation_floor_ms", arithmetic_floor_ms(likelihood)


def _seconds(step: Callable[[int], object], count: int) -> float:
    clock = time.process_time()
    step(count)
    return time.process_time() - clock


def arithmetic_floor_ms(likelihood: NetworkLikelihood) -> float:
    """Return the time of the multiply-adds of one evaluation, at the speed of a large matrix product."""
    size = 512
    matrix = np.ones((size, size), dtype=np.float32)
    seconds = _seconds(lambda count: [matrix @ matrix for _ in range(count)], 10)
    per_second = 10 * size**3 / seconds
    return 1e3 * len(likelihood.architecture.tiles) * LEFT * RIGHT * len(likelihood.sample) / per_second


class TorchTraining:
    """The paper's training in plain PyTorch: one batch, or gradients accumulated over chunks."""

    def __init__(self, toy: Dataset, chunk: int | None, widths: tuple[int, ...] = (4, 4, 4, 1)) -> None:
        layers = [torch.nn.Linear(n_in, n_out) for n_in, n_out in pairwise(widths)]
        activated = [module for layer in layers for module in (layer, torch.nn.Sigmoid())]
        self.network = torch.nn.Sequential(*activated[:-1])
        self.nu = torch.zeros(toy.n_nuisances + 1, requires_grad=True)
        self.optimiser = torch.optim.Adam(
            [*self.network.parameters(), self.nu], lr=PAPER_TRAINING.learning_rate
        )
        norm = toy.normalisation or Normalisation()
        self.z = torch.from_numpy(np.concatenate([toy.data, toy.reference]))
        self.g = torch.from_numpy(np.concatenate([toy.data_response.linear, toy.reference_response.linear]))
        self.expected = torch.zeros(len(self.z))
        self.expected[len(toy.data) :] = torch.from_numpy(toy.weights)
        self.observed = (self.expected == 0).float()
        self.centre = torch.tensor([*toy.measured, norm.measured])
        self.sigma = torch.tensor([1.0] * toy.n_nuisances + [norm.sigma])
        size = chunk or len(self.z)
        self.chunks = [slice(first, first + size) for first in range(0, len(self.z), size)]

    def run(self, epochs: int) -> None:
        for _ in range(epochs):
            self.optimiser.zero_grad()
            for rows in self.chunks:
                f = self.network(self.z[rows])[:, 0] + self.g[rows] @ self.nu[:-1] + self.nu[-1]
                loss = 2.0 * (self.expected[rows] * torch.expm1(f) - self.observed[rows] * f).sum()
                torch.autograd.backward(loss)
            torch.autograd.backward((((self.nu - self.centre) / self.sigma) ** 2).sum())
            self.optimiser.step()
            with torch.no_grad():
                for weights in self.network.parameters():
                    weights.clamp_(-CLIP, CLIP)

    def theta(self) -> Float64:
        """Return weights and nuisances in covad's order: each unit's weights, then its bias."""
        parts = list(self.network.parameters())
        layers = [torch.cat([w, b[:, None]], dim=1) for w, b in zip(parts[::2], parts[1::2], strict=True)]
        flat = torch.cat([*(layer.flatten() for layer in layers), self.nu])
        return flat.detach().numpy().astype(np.float64)


def format_table(times: ToyTimes) -> str:
    """Return the times as a table, one line per solver."""
    steps = (
        ("PyTorch Adam, full batch", times.torch_adam_ms_per_epoch, "ms / epoch"),
        ("PyTorch Adam, chunks of 1000", times.torch_adam_chunked_ms_per_epoch, "ms / epoch"),
        ("covad's Adam", times.adam_ms_per_epoch, "ms / epoch"),
        ("value + gradient + Hessian", times.evaluation_ms, "ms"),
        ("  of which arithmetic alone", times.evaluation_floor_ms, "ms"),
        ("PyTorch Adam, 50 000 epochs (extrapolated)", times.torch_adam_core_seconds, "s"),
    )
    toys = (
        ("convex, one toy", times.convex_core_seconds, times.convex_speedup),
        ("one start, one toy", times.one_start_core_seconds, times.one_start_speedup),
        ("search, one toy", times.search_core_seconds, times.search_speedup),
    )
    lines = [f"{label:44s}{value:12.3f} {unit}" for label, value, unit in steps]
    lines += [f"{label:44s}{t:12.3f} s    {speedup:8.0f} times PyTorch Adam" for label, t, speedup in toys]
    first = times.by_nuisances[0]
    lines += ["", "the same data with so many nuisances:  Delta       convex                 one start"]
    for cost in times.by_nuisances:
        convex, one_start = cost.convex_ms / first.convex_ms, cost.one_start_ms / first.one_start_ms
        lines.append(
            f"{cost.nuisances:28d}{cost.delta_ms:13.1f} ms"
            f"{cost.convex_ms:7.0f} ms {convex:5.2f} x {cost.convex_mb:4.0f} MB"
            f"{cost.one_start_ms:7.0f} ms {one_start:5.2f} x {cost.one_start_mb:4.0f} MB"
        )
    lines += ["", "the convex test:"]
    lines += [
        f"{cost.what:44s}{cost.core_seconds:12.3f} s    {cost.speedup:8.1f} times {cost.baseline}"
        for cost in times.convex_costs
    ]
    return "\n".join(lines)
