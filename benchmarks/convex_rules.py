"""What the rules for width and ridge do to the convex test of a finished run, without toys.

    python benchmarks/convex_rules.py RUN

The expected excess of t over its null is the quadratic form of the null in the expected score of the signal,
plus the signal's own fluctuations; Z of the expected t comes from the analytic null.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
from quantile_rule import with_quantile

from covad.nplm.convex.capacity import with_capacity
from covad.nplm.convex.convex import ConvexTest, columns
from covad.nplm.convex.law import ConvexNull, ScoreMoments
from covad.nplm.dataset import Float32, Float64, Response
from covad.runs.directory import RunDirectory
from covad.runs.products import Products
from covad.toys.pool_files import open_pools, pools_digest
from covad.toys.pools import LatentEvents

EVENTS = 60_000
SIGNAL_EVENTS = 20_000
N_BUMPS = 100
#: Spread of h by the ridge, and capacity; without one the width is the 10 % quantile of distances.
RULES = ((1.0, None), (1.0, 45.0), (3.0, 45.0), (10.0, 45.0), (3.0, 30.0), (3.0, 60.0))


def test_of(events: Float32, spread: float, target: float | None) -> ConvexTest:
    if target is None:
        return with_quantile(events, N_BUMPS, seed=0, spread=spread)
    return with_capacity(events, N_BUMPS, 0, target, spread)


def null_of(test: ConvexTest, x: Float32, expected: float, n_reference: int) -> ConvexNull:
    """All nuisances profiled, the normalisation to 10 %."""
    n = test.basis.n_columns
    weights = np.full(len(x), expected / len(x))
    moments = ScoreMoments.of(x, weights, np.ones(len(x))).for_reference_of(n_reference, sampled=len(x))
    ridge = np.append(test.ridge_by_column, np.zeros(x.shape[1] - n))
    auxiliary = np.zeros(x.shape[1])
    auxiliary[n:] = 1.0
    auxiliary[-1] = 100.0
    return ConvexNull.of(moments, ridge, auxiliary, n)


def expected_z(null: ConvexNull, x: Float64, injected: float) -> float:
    score = injected * x.mean(axis=0)
    fluctuation = injected * np.trace(null.form @ (x.T @ x)) / len(x)
    return float(null.law.z(null.law.mean + null.quadratic_t(score) + fluctuation))


def first(sample: LatentEvents, n: int) -> tuple[Float32, Response]:
    return np.asarray(sample.z[:n]), Response(np.asarray(sample.response.linear[:n]))


def lines(directory: RunDirectory) -> Iterator[str]:
    study = directory.study()
    for space in study.spaces:
        if space[1] != 1:
            continue
        folder = Products(study, directory).pools(space).verified()
        pools = open_pools(folder, pools_digest(folder))
        centre = tuple(0.0 for _ in study.nu[0])
        for spread, target in RULES:
            test = test_of(pools.basis, spread, target)
            x = columns(test.basis, *first(pools.reference.sample, EVENTS), True)
            null = null_of(test, x, study.sizes.expected, study.sizes.reference)
            found = []
            for name, yields in study.signals.items():
                signal = first(pools.signal(name, centre).sample, SIGNAL_EVENTS)
                of_signal = columns(test.basis, *signal, True).astype(np.float64)
                found += [f"{expected_z(null, of_signal, injected):.2f}" for injected in yields]
            rule = "10 % quantile" if target is None else f"capacity {target:g}"
            numbers = [
                f"{test.basis.width:.2f}",
                f"{test.ridge:.2f}",
                f"{null.law.mean:.1f}",
                *found,
            ]
            yield f"| {space[0]} | {rule} | {spread:g} | " + " | ".join(numbers) + " |"


@click.command(help=__doc__.splitlines()[0])
@click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))
def main(run: Path) -> None:
    directory = RunDirectory(run)
    names = [f"{name} {y:g}" for name, found in directory.study().signals.items() for y in found]
    print("| embedding | width | spread | s | lambda | mean of t | " + " | ".join(names) + " |")
    print("| --- " * 2 + "| ---: " * (4 + len(names)) + "|")
    for line in lines(directory):
        print(line, flush=True)


if __name__ == "__main__":
    main()
