"""Power of the adaptive test and of each of its members, on the same toys of the latent world.

    python benchmarks/adaptive_power.py --out power.jsonl --toys 100 --seeds 1
    python benchmarks/adaptive_power.py --out power.jsonl --toys 40 --seeds 5
    python benchmarks/adaptive_power.py --out power.jsonl --summary

Signals are twenty random bumps (`random_bumps.py`; not those that the members were chosen by) and the signal
of the latent world. Seeds are those of the centres: each is another test on the same toys. A run that was
stopped goes on where it was.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import click
import numpy as np
from adaptive_grid import global_z
from random_bumps import Bump, random_bumps
from scipy.stats import norm

from covad.nplm.adaptive.adaptive import AdaptiveTest
from covad.nplm.adaptive.members import AdaptiveFit, choose_members
from covad.nplm.adaptive.smallest_p import SmallestP
from covad.nplm.dataset import Dataset, Float64, Response
from covad.nplm.likelihood import fit_nuisances
from covad.nplm.settings import AdaptiveSettings, Sizes
from covad.toys import latent_world as latent

SEED = 20261119
ALARM_Z = 2.0
WORLD = latent.LatentWorld()


@cache
def signals() -> dict[str, Bump]:
    """Return all signals by their names."""
    bumps = {f"bump {k:2d}": bump for k, bump in enumerate(random_bumps(20, SEED))}
    mean, spread = latent._SIGNAL_MEAN.astype(np.float64), float(latent._SIGNAL_SPREAD)
    return bumps | {f"latent signal {n}": Bump(mean, spread, float(n)) for n in (50, 100)}


@cache
def adaptive(seed: int) -> AdaptiveTest:
    pool = latent.background(20_000, np.random.default_rng(SEED))
    return AdaptiveTest(choose_members(pool, AdaptiveSettings(seed=seed), Sizes()))


@cache
def law_of(seed: int) -> SmallestP:
    sample = replace(WORLD, n_reference=4 * WORLD.n_reference).toy(np.random.default_rng(SEED + 1))
    return adaptive(seed).nulls(sample, n_reference=WORLD.n_reference).at_yield().law


def toy(name: str, index: int) -> Dataset:
    key = (list(signals()).index(name), index)
    rng = np.random.default_rng(np.random.SeedSequence(SEED, spawn_key=key))
    background, events = WORLD.toy(rng), signals()[name].draw(rng)
    data = np.concatenate([background.data, events])
    return replace(background, data=data, data_response=Response(latent.response(data, 1)))


def run_toy(name: str, index: int, seeds: list[int]) -> dict[int, list[float]]:
    """Return log p of all members, by the seed of the centres."""
    dataset = toy(name, index)
    delta, found = fit_nuisances(dataset), {}
    for seed in seeds:
        tau = adaptive(seed).fit(dataset, delta, seed=0)
        found[seed] = tau.log_p.tolist() if isinstance(tau, AdaptiveFit) else []
    return found


def read_rows(path: Path) -> dict[tuple[str, int, int], list[float]]:
    """Return log p by signal, seed and index; the last line may have been cut short."""
    rows: dict[tuple[str, int, int], list[float]] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        if line.endswith("}"):
            row: dict[str, Any] = json.loads(line)
            rows[row["signal"], row["seed"], row["index"]] = row["log_p"]
    return rows


def run(toys: int, seeds: int, out: Path) -> None:
    known = set(read_rows(out))
    with out.open("a") as stream:
        for index in range(toys):
            for name in signals():
                missing = [seed for seed in range(seeds) if (name, seed, index) not in known]
                for seed, log_p in run_toy(name, index, missing).items():
                    row = {"signal": name, "seed": seed, "index": index, "log_p": log_p}
                    print(json.dumps(row), file=stream, flush=True)
            print(f"{index + 1} of {toys} toys of each signal", file=sys.stderr, flush=True)


def z_of(log_p: Float64, seed: int) -> dict[str, Float64]:
    """Return Z of the smallest p, of the Cauchy combination, and of every member."""
    law = law_of(seed)
    every = list(range(log_p.shape[1]))
    z = {"adaptive": norm.isf(law.sf(-2.0 * log_p.min(axis=1)))}
    z["Cauchy"] = global_z(law.draws, log_p, every, cauchy=True)
    return z | {name: norm.isf(np.exp(log_p[:, k])) for k, name in enumerate(adaptive(seed).members.names)}


def summarise(out: Path) -> None:
    """Print the power of everything against every signal, and how much the centres matter."""
    rows = read_rows(out)
    powers: dict[str, list[float]] = {}
    spreads: dict[str, list[float]] = {}
    shares = []
    for name, bump in signals().items():
        medians: dict[str, list[float]] = {}
        told = ""
        for seed in sorted({key[1] for key in rows if key[0] == name}):
            found = np.array([rows[key] for key in sorted(rows) if key[:2] == (name, seed)])
            z = z_of(found, seed)
            for test, values in z.items():
                medians.setdefault(test, []).append(float(np.median(values)))
            if seed == 0:
                power = {test: float((values >= ALARM_Z).mean()) for test, values in z.items()}
                for test, value in power.items():
                    powers.setdefault(test, []).append(value)
                best = max(list(power.values())[2:])
                if 0.2 <= best <= 0.9:
                    shares.append(power["adaptive"] / best)
                told = f"{power['adaptive']:.2f}, best member {best:.2f}, {len(found)} toys"
        for test, values in medians.items():
            if len(values) > 1:
                spreads.setdefault(test, []).append(float(np.std(values, ddof=1)))
        print(f"{name} (width {bump.width:.2f}, {bump.expected:.0f} events): adaptive {told}")
    if shares:
        print(f"adaptive over its best member: mean {np.mean(shares):.2f}, least {min(shares):.2f}")
    for test, values in powers.items():
        spread = f"; sd of the median Z over seeds {np.mean(spreads[test]):.3f}" if test in spreads else ""
        print(f"  {test:30s} mean power {np.mean(values):.3f}{spread}")


@click.command()
@click.option("--out", type=click.Path(path_type=Path), required=True, help="File of toys, one JSON a line.")
@click.option("--toys", default=40, show_default=True, help="Of each signal.")
@click.option("--seeds", default=1, show_default=True, help="Of the centres.")
@click.option("--summary", is_flag=True, help="Tell what the toys of the file say.")
def main(out: Path, toys: int, seeds: int, summary: bool) -> None:
    """Run toys with signals, or summarise them."""
    if summary:
        summarise(out)
    else:
        run(toys, seeds, out)


if __name__ == "__main__":
    main()
