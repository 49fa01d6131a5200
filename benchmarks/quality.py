"""How good the maxima are: the Newton searches against the paper's 50 000 epochs of Adam, on null toys.

    python benchmarks/quality.py run FILE.jsonl --clip 1.27 --toys 60     # resumable, a minute or two a toy
    python benchmarks/quality.py summary FILE.jsonl

Toy i is drawn with the seed 1000 + i. Fits of one toy share the dataset and differ in solver and seed.
"""

from __future__ import annotations

import json
import time
from itertools import pairwise
from pathlib import Path

import click
import numpy as np

from covad.cli.adam import PAPER_TRAINING, train
from covad.nplm.dataset import Dataset
from covad.nplm.fit import Fit, Seed, Status, TauFit
from covad.nplm.likelihood import join_nuisances
from covad.nplm.network.network import NetworkTest
from covad.nplm.network.search import ONE_START
from covad.nplm.statistic import likelihood_ratio
from covad.toys.latent_world import LatentWorld

FIRST_SEED = 1000


class AdamNetwork(NetworkTest):
    """tau by the paper's training, from the starting weights that PyTorch would draw.

    The paper has no test of convergence, so a training that ran to its last epoch counts as converged.
    """

    def fit(self, dataset: Dataset, null: Fit, seed: Seed) -> TauFit:
        clock = time.process_time()
        likelihood = self.likelihood(dataset)
        rng = np.random.default_rng(seed)
        layers = [
            rng.uniform(-1.0, 1.0, n_out * (n_in + 1)) / np.sqrt(n_in)
            for n_in, n_out in pairwise(self.widths)
        ]
        start = np.concatenate([*layers, join_nuisances(null, dataset)])
        theta = train(likelihood, start, self.limits(dataset), PAPER_TRAINING)
        status = Status.CONVERGED if np.isfinite(theta).all() else Status.FAILED
        return self.fit_at(theta, dataset, null, status, likelihood.evaluations, clock)


def contenders(clip: float) -> dict[str, tuple[NetworkTest, int]]:
    """Name -> (test, seed)."""
    return {
        "one start": (NetworkTest(clip=clip, search=ONE_START), 0),
        "one start, other seed": (NetworkTest(clip=clip, search=ONE_START), 1),
        "search": (NetworkTest(clip=clip), 0),
        "search, other seed": (NetworkTest(clip=clip), 1),
        "adam": (AdamNetwork(clip=clip), 0),
    }


@click.group()
def main() -> None:
    """Quality of the maxima."""


@main.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--clip", type=float, required=True)
@click.option("--toys", type=int, default=60)
@click.option("--only", multiple=True, help="Names of the contenders; all of them without this.")
def run(path: Path, clip: float, toys: int, only: tuple[str, ...]) -> None:
    """Fit what is missing in FILE.jsonl."""
    known = {(line["toy"], line["name"], line["clip"]) for line in read(path)}
    for toy in range(toys):
        dataset = LatentWorld().toy(np.random.default_rng(FIRST_SEED + toy))
        for name, (test, seed) in contenders(clip).items():
            if (toy, name, clip) in known or (only and name not in only):
                continue
            result = likelihood_ratio(dataset, test, seed)
            line = {"toy": toy, "name": name, "clip": clip, "t": result.t, "seconds": result.seconds}
            line |= {"status": result.status.value, "active_bounds": result.tau.active_bounds}
            with path.open("a") as out:
                out.write(json.dumps(line) + "\n")


def read(path: Path) -> list[dict]:
    """The lines of a file that may not exist yet."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@main.command()
@click.argument("path", type=click.Path(path_type=Path, exists=True))
def summary(path: Path) -> None:
    """Means, differences to Adam and differences between seeds."""
    lines = read(path)
    for clip in sorted({line["clip"] for line in lines}):
        values: dict[str, dict[int, float]] = {}
        for line in lines:
            if line["clip"] == clip:
                values.setdefault(line["name"], {})[line["toy"]] = line["t"]
        click.echo(f"W = {clip}")
        for name, by_toy in values.items():
            t = np.array(list(by_toy.values()))
            click.echo(
                f"  {name:24s}{len(t):4d} toys, t = {t.mean():6.2f} +- {error(t):.2f}, sd {t.std(ddof=1):.2f}"
            )
        for name in ("one start", "search"):
            compare(values, name, "adam")
            compare(values, name, f"{name}, other seed")


def compare(values: dict[str, dict[int, float]], name: str, other: str) -> None:
    """Paired differences of two contenders."""
    shared = sorted(values.get(name, {}).keys() & values.get(other, {}).keys())
    if len(shared) < 2:
        return
    d = np.array([values[name][toy] - values[other][toy] for toy in shared])
    click.echo(
        f"  {name} - {other}: {d.mean():+.2f} +- {error(d):.2f} ({len(d)} toys), median |difference| "
        f"{np.median(np.abs(d)):.2f}, not below by more than 0.1 in {np.mean(d >= -0.1):.0%}"
    )


def error(values: np.ndarray) -> float:
    """Standard error of the mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))


if __name__ == "__main__":
    main()
