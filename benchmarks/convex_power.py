"""Power of the convex test on the latent world's signal: against the network, and between seeds of centres.

    python benchmarks/convex_power.py --out power.jsonl --test convex-100-0 --test network --toys 400
    python benchmarks/convex_power.py --out power.jsonl --summary

A test `convex-M-S` has M bumps with the centres of seed S, as wide as the 10 % quantile of distances;
`matched-M-S` has the same centres and the width that gives it the capacity of the network, as in studies;
`network` is the paper's, with one start. All
tests see the same toys; null and signal toys are independent. Stopped runs go on where they were.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path

import click
import numpy as np
from quantile_rule import with_quantile
from scipy import stats

from covad.nplm.convex.capacity import with_capacity
from covad.nplm.convex.convex import ConvexTest
from covad.nplm.convex.law import ConvexNull, analytic_null
from covad.nplm.fit import NplmTest
from covad.nplm.network.network import NetworkTest
from covad.nplm.network.search import ONE_START
from covad.nplm.statistic import likelihood_ratio
from covad.toys import latent_world as latent
from covad.toys.latent_world import LatentWorld

SEED = 20261115
#: Expected signal events on top of 10 000 of background, by ensemble; the key is part of the seed.
ENSEMBLES = {"null": (50, 0.0), "signal-0.5%": (51, 50.0), "signal-1%": (52, 100.0)}
#: Clip of the network: with one start its null has a mean of 47 (docs/explanation/convex.md).
CLIP = 1.45


def _generator(*key: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(SEED, spawn_key=key))


@cache
def named(name: str) -> NplmTest:
    """A test by its name."""
    if name == "network":
        return NetworkTest(clip=CLIP, search=ONE_START)
    kind, *numbers = name.split("-")
    n_bumps, seed = (int(part) for part in numbers)
    pool = latent.background(50_000, _generator(0, 53, seed))
    rule = {"convex": with_quantile, "matched": with_capacity}[kind]
    return rule(pool, n_bumps, np.random.SeedSequence(SEED, spawn_key=(0, 54, seed)))


@cache
def null_of(name: str) -> ConvexNull:
    """The analytic null of a convex test."""
    test = named(name)
    assert isinstance(test, ConvexTest)
    return analytic_null(test, LatentWorld(n_reference=520_000).toy(_generator(0, 0)), n_reference=52_000)


def read_rows(path: Path) -> dict[tuple[str, str, int], dict[str, object]]:
    """Finished tests by (test, ensemble, index)."""
    lines = path.read_text().splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines if line.endswith("}")]
    return {(row["test"], row["ensemble"], row["index"]): row for row in rows}


def run(names: tuple[str, ...], toys: int, out: Path) -> None:
    """Run what is missing, toy by toy, so that a toy is drawn once for all tests."""
    done = read_rows(out)
    with out.open("a") as stream:
        for index in range(toys):
            for ensemble, (key, expected_signal) in ENSEMBLES.items():
                missing = [name for name in names if (name, ensemble, index) not in done]
                if not missing:
                    continue
                dataset = LatentWorld().toy(_generator(key, index), expected_signal=expected_signal)
                for name in missing:
                    result = likelihood_ratio(
                        dataset, named(name), np.random.SeedSequence(SEED, spawn_key=(key, index, 1))
                    )
                    row = {"test": name, "ensemble": ensemble, "index": index, "t": result.t}
                    row |= {"status": str(result.status), "seconds": round(result.seconds, 4)}
                    print(json.dumps(row), file=stream, flush=True)
            print(f"{index + 1} of {toys}", file=sys.stderr, flush=True)


def values(rows: dict[tuple[str, str, int], dict[str, object]], name: str, ensemble: str) -> np.ndarray:
    """t of an ensemble by index, NaN where it is missing or did not converge."""
    found = {
        index: row for (test_name, kind, index), row in rows.items() if (test_name, kind) == (name, ensemble)
    }
    t = np.full(1 + max(found, default=-1), np.nan)
    for index, row in found.items():
        if row["status"] == "converged":
            t[index] = row["t"]
    return t


def median_with_interval(z: np.ndarray) -> str:
    """Median with its 68 % interval from order statistics."""
    ordered = np.sort(z)
    low, high = (int(stats.binom.ppf(p, len(z), 0.5)) for p in (0.16, 0.84))
    return f"{np.median(z):5.2f} [{ordered[low]:.2f}, {ordered[min(high, len(z) - 1)]:.2f}]"


def power_at(null: np.ndarray, t: np.ndarray, rate: float) -> str:
    """Share of t beyond the null toys' quantile, with its Clopper-Pearson 68 % interval."""
    beyond = int((t > np.quantile(null, 1.0 - rate)).sum())
    interval = stats.binomtest(beyond, len(t)).proportion_ci(0.68)
    return f"{beyond / len(t):.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def summarise(out: Path) -> None:
    rows = read_rows(out)
    names = sorted({name for name, _, _ in rows})
    for name in names:
        null = values(rows, name, "null")
        null = null[np.isfinite(null)]
        print(f"{name}: null {null.mean():.2f} +- {null.std():.2f} of {len(null)}")
        for ensemble in ENSEMBLES:
            t = values(rows, name, ensemble)
            lost, t = int(np.isnan(t).sum()), t[np.isfinite(t)]
            p = (1 + (null >= t[:, None]).sum(axis=1)) / (1 + len(null))
            line = f"  {ensemble:12} n {len(t)} lost {lost}"
            line += f"  Z from toys {median_with_interval(stats.norm.isf(p))}"
            if name != "network":
                line += f"  analytic {median_with_interval(null_of(name).law.z(t))}"
            line += "  power at 5 %, 1 %: " + ", ".join(power_at(null, t, rate) for rate in (0.05, 0.01))
            print(line)
    _print_spread_between_seeds(rows, names)


def _print_spread_between_seeds(
    rows: dict[tuple[str, str, int], dict[str, object]], names: list[str]
) -> None:
    """How t and Z of one toy, and the median Z of an ensemble, move with the seed of the centres."""
    for rule in sorted({name.rsplit("-", 1)[0] for name in names if name != "network"}):
        seeds = [name for name in names if name.startswith(f"{rule}-")]
        for ensemble in ENSEMBLES:
            t = [values(rows, name, ensemble) for name in seeds]
            common = min(len(found) for found in t)
            if len(seeds) < 2 or common < 2:
                continue
            z = np.array([null_of(name).law.z(found[:common]) for name, found in zip(seeds, t, strict=True)])
            of_t, of_z = (_spread(x) for x in (np.array([found[:common] for found in t]), z))
            medians = np.median(z, axis=1)
            print(f"{rule} {ensemble:12} {len(seeds)} seeds, {common} toys: std of t {of_t:.2f}", end=", ")
            print(f"of Z {of_z:.2f}; median Z {medians.min():.2f} to {medians.max():.2f}", end=", ")
            print(f"std {medians.std(ddof=1):.2f}")


def _spread(x: np.ndarray) -> float:
    """Standard deviation between seeds (rows), averaged over toys."""
    return float(np.sqrt(np.nanmean(np.var(x, axis=0, ddof=1))))


@click.command()
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="File of results, one JSON a line."
)
@click.option("--test", "names", multiple=True, help="Tests: convex-M-S, or network.")
@click.option("--toys", default=200, show_default=True, help="Toys of every ensemble.")
@click.option("--summary", is_flag=True, help="Tables of what is there.")
def main(out: Path, names: tuple[str, ...], toys: int, summary: bool) -> None:
    """Compare tests on the signal of the latent world."""
    if names:
        run(names, toys, out)
    if summary:
        summarise(out)


if __name__ == "__main__":
    main()
