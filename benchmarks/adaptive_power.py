"""Power of the adaptive test and of each of its members, on the same toys.

    python benchmarks/adaptive_power.py --out power.jsonl --toys 100 --seeds 1
    python benchmarks/adaptive_power.py --out power.jsonl --toys 40 --seeds 5
    python benchmarks/adaptive_power.py --out run.jsonl --toys 100 --run RUN --configuration NAME
    python benchmarks/adaptive_power.py --out power.jsonl --summary

Signals are twenty random bumps (`random_bumps.py`; not those that the members were chosen by) and the signal
of the latent world; or those of a run, on its toys at nu = 0. Seeds are those of the centres: each is another
test on the same toys. A run that was stopped goes on where it was.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import click
import numpy as np
from adaptive_grid import global_z
from random_bumps import Bump, random_bumps
from scipy.stats import norm

from covad.nplm.adaptive.adaptive import AdaptiveTest
from covad.nplm.adaptive.members import AdaptiveFit, choose_members
from covad.nplm.adaptive.shared import EVENTS, SharedMoments
from covad.nplm.adaptive.smallest_p import SmallestP
from covad.nplm.dataset import Dataset, Float64, Response
from covad.nplm.likelihood import fit_nuisances
from covad.nplm.settings import AdaptiveSettings, Sizes
from covad.results import collect
from covad.toys import latent_world as latent
from covad.toys.drawing import LatentSource
from covad.toys.ensembles import Ensemble
from covad.toys.tests import ChosenTest, TunedAdaptive

SEED = 20261119
ALARM_Z = 2.0
#: Events of the reference that the law is computed from, in units of those of a toy.
LARGER = 4


class World(Protocol):
    """Signals by name, their toys, and the test with some seed of its centres."""

    @property
    def signals(self) -> Sequence[str]: ...

    def toy(self, name: str, index: int) -> Dataset: ...

    def test(self, seed: int) -> AdaptiveTest: ...

    def law(self, seed: int) -> SmallestP: ...


@dataclass(frozen=True)
class Latent:
    """Bumps in the latent world."""

    @property
    def signals(self) -> Sequence[str]:
        return list(self.bumps())

    @staticmethod
    @cache
    def bumps() -> dict[str, Bump]:
        random = {f"bump {k:2d}": bump for k, bump in enumerate(random_bumps(20, SEED))}
        mean, spread = latent._SIGNAL_MEAN.astype(np.float64), float(latent._SIGNAL_SPREAD)
        return random | {f"latent signal {n}": Bump(mean, spread, float(n)) for n in (50, 100)}

    def toy(self, name: str, index: int) -> Dataset:
        key = (self.signals.index(name), index)
        rng = np.random.default_rng(np.random.SeedSequence(SEED, spawn_key=key))
        background, events = latent.LatentWorld().toy(rng), self.bumps()[name].draw(rng)
        data = np.concatenate([background.data, events])
        return replace(background, data=data, data_response=Response(latent.response(data, 1)))

    @cache  # noqa: B019
    def test(self, seed: int) -> AdaptiveTest:
        pool = latent.background(20_000, np.random.default_rng(SEED))
        members = choose_members(pool, AdaptiveSettings(seed=seed), Sizes())
        return AdaptiveTest(members, SharedMoments(members, LatentSource(1).reference_sample(EVENTS)))

    @cache  # noqa: B019
    def law(self, seed: int) -> SmallestP:
        world = latent.LatentWorld()
        sample = replace(world, n_reference=LARGER * world.n_reference).toy(np.random.default_rng(SEED + 1))
        return self.test(seed).nulls(sample, n_reference=world.n_reference).at_yield().law


@dataclass(frozen=True)
class Run:
    """The signals of a finished run, on the toys that its own tests see."""

    ensembles: dict[str, Ensemble]

    @classmethod
    def open(cls, path: Path, configuration: str) -> Run:
        run = collect(path)
        wanted = run.study.configuration(configuration)
        found = {}
        for entry in run.entries:
            draw, ensemble = entry.draw, entry.ensemble
            if entry.configuration != wanted or ensemble is None or draw.signal is None or any(draw.nu):
                continue
            if isinstance(ensemble.test, ChosenTest) and isinstance(ensemble.test.settings, TunedAdaptive):
                found[f"{draw.injected:g} {draw.signal}"] = ensemble
        if not found:
            raise click.UsageError(f"{path}: {configuration} has no toys of the adaptive test with a signal")
        return cls(found)

    @property
    def signals(self) -> Sequence[str]:
        return list(self.ensembles)

    def toy(self, name: str, index: int) -> Dataset:
        ensemble = self.ensembles[name]
        return ensemble.source.draw(ensemble.draw, ensemble.seeds(index))

    @cache  # noqa: B019
    def test(self, seed: int) -> AdaptiveTest:
        ensemble = next(iter(self.ensembles.values()))
        settings = ensemble.test.settings.model_copy(update={"seed": seed})
        return settings.build(ensemble.source)

    @cache  # noqa: B019
    def law(self, seed: int) -> SmallestP:
        ensemble = next(iter(self.ensembles.values()))
        n_reference = ensemble.draw.n_reference
        large = replace(ensemble.draw, n_reference=LARGER * n_reference, signal=None, injected=0.0)
        sample = ensemble.source.draw(large, ensemble.seeds(2**31))
        return self.test(seed).nulls(sample, n_reference=n_reference).at_yield().law

    def __hash__(self) -> int:
        return id(self)


def run_toy(world: World, name: str, index: int, seeds: list[int]) -> dict[int, list[float]]:
    """Return log p of all members, by the seed of the centres."""
    if not seeds:
        return {}
    dataset = world.toy(name, index)
    delta, found = fit_nuisances(dataset), {}
    for seed in seeds:
        tau = world.test(seed).fit(dataset, delta, seed=0)
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


def run(world: World, toys: int, seeds: int, out: Path) -> None:
    known = set(read_rows(out))
    with out.open("a") as stream:
        for index in range(toys):
            for name in world.signals:
                missing = [seed for seed in range(seeds) if (name, seed, index) not in known]
                for seed, log_p in run_toy(world, name, index, missing).items():
                    row = {"signal": name, "seed": seed, "index": index, "log_p": log_p}
                    print(json.dumps(row), file=stream, flush=True)
            print(f"{index + 1} of {toys} toys of each signal", file=sys.stderr, flush=True)


def z_of(world: World, log_p: Float64, seed: int) -> dict[str, Float64]:
    """Return Z of the smallest p, of the Cauchy combination, and of every member."""
    law = world.law(seed)
    every = list(range(log_p.shape[1]))
    z = {"adaptive": norm.isf(law.sf(-2.0 * log_p.min(axis=1)))}
    z["Cauchy"] = global_z(law.draws, log_p, every, cauchy=True)
    return z | {name: norm.isf(np.exp(log_p[:, k])) for k, name in enumerate(world.test(seed).members.names)}


def summarise(world: World, out: Path) -> None:
    """Print the power of everything against every signal, and how much the centres matter."""
    rows = read_rows(out)
    powers: dict[str, list[float]] = {}
    spreads: dict[str, list[float]] = {}
    shares = []
    for name in world.signals:
        medians: dict[str, list[float]] = {}
        told = ""
        by_seed: dict[int, dict[int, list[float]]] = {}
        for (signal, seed, index), log_p in sorted(rows.items()):
            if signal == name:
                by_seed.setdefault(seed, {})[index] = log_p
        common = set.intersection(*(set(toys) for toys in by_seed.values()))
        for seed, toys in by_seed.items():
            z = z_of(world, np.array(list(toys.values())), seed)
            shared = np.isin(list(toys), list(common))
            for test, values in z.items():
                medians.setdefault(test, []).append(float(np.median(values[shared])))
            if seed == 0:
                power = {test: float((values >= ALARM_Z).mean()) for test, values in z.items()}
                for test, value in power.items():
                    powers.setdefault(test, []).append(value)
                best = max(list(power.values())[2:])
                if 0.2 <= best <= 0.9:
                    shares.append(power["adaptive"] / best)
                z_median = ", ".join(f"{np.median(values):.2f}" for values in z.values())
                told = (
                    f"{power['adaptive']:.2f}, best member {best:.2f}, {len(toys)} toys; median Z {z_median}"
                )
        for test, values in medians.items():
            if len(values) > 1:
                spreads.setdefault(test, []).append(float(np.std(values, ddof=1)))
        print(f"{name}: adaptive {told}")
    if shares:
        print(f"adaptive over its best member: mean {np.mean(shares):.2f}, least {min(shares):.2f}")
    for test, values in powers.items():
        spread = f"; sd of the median Z over seeds {np.mean(spreads[test]):.3f}" if test in spreads else ""
        print(f"  {test:30s} mean power {np.mean(values):.3f}{spread}")


@click.command()
@click.option("--out", type=click.Path(path_type=Path), required=True, help="File of toys, one JSON a line.")
@click.option("--toys", default=40, show_default=True, help="Of each signal.")
@click.option("--seeds", default=1, show_default=True, help="Of the centres.")
@click.option("--run", "path", type=click.Path(path_type=Path), help="Signals of this run, not bumps.")
@click.option("--configuration", default="", help="Of the run, by its name.")
@click.option("--summary", is_flag=True, help="Tell what the toys of the file say.")
def main(out: Path, toys: int, seeds: int, path: Path | None, configuration: str, summary: bool) -> None:
    """Run toys with signals, or summarise them."""
    world = Latent() if path is None else Run.open(path, configuration)
    if summary:
        summarise(world, out)
    else:
        run(world, toys, seeds, out)


if __name__ == "__main__":
    main()
