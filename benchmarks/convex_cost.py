"""Cost of the convex test in core-seconds, and how well its maximum is one.

    python benchmarks/convex_cost.py

Median of several fresh toys a line, Delta and the bumps included, the drawing of the toy not.
"""

from __future__ import annotations

import click
import numpy as np
from quantile_rule import with_quantile

from covad.nplm.convex.convex import ConvexProblem, ConvexTest
from covad.nplm.statistic import likelihood_ratio
from covad.toys import latent_world as latent
from covad.toys.latent_world import LatentWorld

SEED = 20261115
CASES = {
    "M = 50": (50, LatentWorld()),
    "M = 100": (100, LatentWorld()),
    "M = 300": (300, LatentWorld()),
    "M = 100, two nuisances": (100, LatentWorld(n_nuisances=2)),
    "M = 100, no nuisances": (100, LatentWorld(n_nuisances=0, normalisation_sigma=None)),
    "M = 100, ten times the events": (100, LatentWorld(n_reference=520_000, expected=100_000.0)),
}


def _generator(*key: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(SEED, spawn_key=key))


def convex(n_bumps: int) -> ConvexTest:
    return with_quantile(latent.background(50_000, _generator(0, 70)), n_bumps, 71)


def median_seconds(world: LatentWorld, test: ConvexTest, toys: int) -> float:
    results = [likelihood_ratio(world.toy(_generator(72, index)), test, 0) for index in range(toys)]
    return float(np.median([result.seconds for result in results]))


def spread_over_starts(test: ConvexTest, starts: int = 20) -> float:
    """Range of t over random starts, coefficients drawn from the prior that the ridge is."""
    dataset = LatentWorld().toy(_generator(75), expected_signal=50.0)
    problem = ConvexProblem.of(test, dataset)
    rng = _generator(76)
    scale = np.append(np.full(test.n_parameters, test.ridge**-0.5), [1.0, 0.1])
    maxima = [problem.maximum(scale * rng.standard_normal(len(scale))) for _ in range(starts)]
    print({str(maximum.status) for maximum in maxima}, "evaluations", [best.evaluations for best in maxima])
    return float(np.ptp([2.0 * best.value for best in maxima]))


@click.command()
@click.option("--toys", default=15, show_default=True)
def main(toys: int) -> None:
    """Print the table of costs and the spread of t over starts."""
    for name, (n_bumps, world) in CASES.items():
        print(f"{name}: {median_seconds(world, convex(n_bumps), toys):.3f} core-s a toy", flush=True)
    for n_bumps in (50, 100, 300):
        print(f"M = {n_bumps}, range of t over 20 random starts: {spread_over_starts(convex(n_bumps)):.1e}")


if __name__ == "__main__":
    main()
