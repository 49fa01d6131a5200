"""Which members the adaptive test should have: power over random bumps in second order, without fits.

    python benchmarks/adaptive_grid.py --bumps 60 --seeds 3

The score of a dataset with a bump is that of the null, y ~ N(0, V), plus the columns summed over the events
of the bump; every t_j is a quadratic form of it. The bumps of the choice are not those of the table of power
(`adaptive_power.py`), and no signal of the paper has a say.
"""

from __future__ import annotations

import click
import numpy as np
from random_bumps import Bump, random_bumps
from scipy.stats import norm

from covad.nplm.adaptive.law import AdaptiveNull, adaptive_nulls
from covad.nplm.adaptive.members import choose_members
from covad.nplm.convex.convex import columns
from covad.nplm.dataset import Float64, Response
from covad.nplm.settings import AdaptiveSettings, Sizes
from covad.toys import latent_world as latent

SEED = 20261118
#: Capacities of the scales, and their bumps; every scale and all together with these spreads.
GRIDS = {
    "four scales": ((10.0, 20.0, 45.0, 90.0), (25, 50, 100, 200)),
    "three scales": ((10.0, 30.0, 90.0), (50, 100, 200)),
    "four narrower scales": ((10.0, 30.0, 90.0, 150.0), (50, 100, 200, 300)),
}
SPREADS = (3.0, 10.0, 30.0)


def log_p_of(null: AdaptiveNull, bump: Bump | None, toys: int, rng: np.random.Generator) -> Float64:
    """Return log p of all members in toys of the second order, (toys, members)."""
    y = null.draw_scores(toys, rng)
    if bump is not None:
        for row in y:
            z = bump.draw(rng)
            if len(z):
                row += columns(null.members.basis, z, Response(latent.response(z, 1)), True).sum(axis=0)
    return null.log_p_of_scores(y)


def global_z(null_log_p: Float64, log_p: Float64, chosen: list[int], cauchy: bool = False) -> Float64:
    """Return Z of the combination over some of the members, by the rank among draws of the null."""

    def combined(values: Float64) -> Float64:
        if not cauchy:
            return -values[:, chosen].min(axis=1)
        p = np.clip(np.exp(values[:, chosen]), 1e-300, 1 - 1e-12)
        return np.where(p < 1e-8, 1.0 / (np.pi * p), np.tan((0.5 - p) * np.pi)).mean(axis=1)

    null = np.sort(combined(null_log_p))
    beyond = len(null) - np.searchsorted(null, combined(log_p))
    return np.asarray(norm.isf((beyond + 0.5) / (len(null) + 1)))


def subsets(names: tuple[str, ...]) -> dict[str, list[int]]:
    """Return the families of members to compare."""
    every = list(range(len(names)))

    def of(*words: str) -> list[int]:
        return [
            k
            for k in every
            if any(names[k].startswith("all") if w == "all" else names[k].endswith(f" {w}") for w in words)
        ]

    together, widest = of("all"), [k for k in every if names[k].startswith("capacity 10,")]
    return {
        "all": every,
        "spreads 3, 10": of("3", "10"),
        "spreads 10, 30": of("10", "30"),
        "spread 10": of("10"),
        "single widths": [k for k in every if k not in together],
        "all widths": together,
        "all widths, 3 and 10": together[:2],
        "all widths, 10 and 30": together[1:],
        "all widths; widest": together + widest,
        "all widths, 3 and 10; widest with 3": [*together[:2], widest[0]],
        "all widths, 10; widest with 3": [together[1], widest[0]],
        "all widths, 10; widest with 10": [together[1], widest[1]],
        "all widths; spread 3": sorted({*together, *of("3")}),
    }


@click.command(help=__doc__.splitlines()[0])
@click.option("--bumps", default=60, show_default=True)
@click.option("--toys", default=200, show_default=True)
@click.option("--seeds", default=3, show_default=True, help="Seeds of the centres.")
def main(bumps: int, toys: int, seeds: int) -> None:
    family = random_bumps(bumps, SEED)
    pool = latent.background(20_000, np.random.default_rng(SEED + 1))
    sample = latent.LatentWorld().toy(np.random.default_rng(SEED + 2))
    for grid, (capacities, numbers) in GRIDS.items():
        power: dict[str, list[list[float]]] = {}
        median: dict[str, list[list[float]]] = {}
        for seed in range(seeds):
            scales = {"capacities": capacities, "bumps": numbers}
            settings = AdaptiveSettings(**scales, spreads=SPREADS, together=SPREADS, seed=seed)
            members = choose_members(pool, settings, Sizes())
            null = adaptive_nulls(members, sample).at_yield()
            draws = null.law.draws
            found: dict[str, tuple[list[float], list[float]]] = {}
            for number, bump in enumerate(family):
                log_p = log_p_of(null, bump, toys, np.random.default_rng([SEED, number]))
                z = {name: global_z(draws, log_p, chosen) for name, chosen in subsets(members.names).items()}
                z["all, Cauchy"] = global_z(draws, log_p, list(range(len(members))), cauchy=True)
                z |= {n: global_z(draws, log_p, [k]) for k, n in enumerate(members.names)}
                for name, values in z.items():
                    found.setdefault(name, ([], []))
                    found[name][0].append(float((values >= 2.0).mean()))
                    found[name][1].append(float(np.median(values)))
            for name, (powers, medians) in found.items():
                power.setdefault(name, []).append(powers)
                median.setdefault(name, []).append(medians)
        print(f"{grid}: capacities {capacities}, bumps {numbers}")
        best = np.max([np.mean(power[name], axis=0) for name in members.names], axis=0)
        told = (best >= 0.2) & (best <= 0.9)
        for name, values in power.items():
            by_bump = np.array(values).mean(axis=0)
            spread = np.array(median[name]).std(axis=0, ddof=1).mean() if seeds > 1 else float("nan")
            share = (by_bump / best)[told]
            print(
                f"  {name:38s} power {by_bump.mean():.3f}; of the best member's {share.mean():.2f}, at least "
                f"{share.min():.2f}; standard deviation of Z over seeds {spread:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
