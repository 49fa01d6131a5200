"""The far tail of the adaptive test's null, by importance sampling: what plain toys cannot reach.

    python benchmarks/adaptive_tail.py --out tail.jsonl --toys 600
    python benchmarks/adaptive_tail.py --out tail.jsonl --summary

As `convex_tail.py`, with the members in turns: a toy is tilted so that t of one of them comes to about 4.5
sigma. Its weight is 1/m, with m the mean over the members of its likelihood ratio to the null, each averaged
over the tilts of that member (Laplace's method around the maximum).
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import click
import numpy as np
from convex_tail import EXPECTED, N_REFERENCE, POOL, REFERENCE_TILT, read_rows, tilt
from scipy import stats
from scipy.linalg import cho_factor, cho_solve

from covad.nplm.adaptive.adaptive import AdaptiveTest
from covad.nplm.adaptive.law import AdaptiveNull
from covad.nplm.adaptive.members import choose_members
from covad.nplm.convex.basis import evaluate
from covad.nplm.dataset import Dataset, Float32, Float64, Normalisation, Response
from covad.nplm.settings import AdaptiveSettings, Sizes
from covad.nplm.statistic import likelihood_ratio
from covad.toys import latent_world as latent

SEED = 20261118
#: Directions of a member are left out below this share of the largest; steps to the maximum, at most.
SHARE, STEPS = 1e-2, 60


def _generator(*key: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(SEED, spawn_key=key))


@dataclass(frozen=True)
class Tilts:
    """The tilts of one member: f = directions . u at every event of the pool, u standard normal."""

    directions: Float32

    def draw(self, rng: np.random.Generator) -> Float64:
        return self.directions.astype(np.float64) @ rng.standard_normal(self.directions.shape[1])

    def log_evidence(self, data: np.ndarray, reference: np.ndarray) -> float:
        """Return the log of the likelihood ratio of a toy to the null, averaged over the tilts."""
        sums = self.directions[data].sum(axis=0, dtype=np.float64)
        sums -= REFERENCE_TILT * self.directions[reference].sum(axis=0, dtype=np.float64)
        u = np.zeros(len(sums))
        for _ in range(STEPS):
            value, gradient, _ = self._at(u, sums)
            step = cho_solve(self._start, gradient)
            u += step
            if gradient @ step < 1e-5:
                break
        else:
            raise RuntimeError("the maximum over the tilts was not found")
        value, _, density = self._at(u, sums)
        return value - 0.5 * float(np.linalg.slogdet(self._curvature(density))[1])

    def _at(self, u: Float64, sums: Float64) -> tuple[float, Float64, Float64]:
        """Return log likelihood ratio plus log of the Gaussian of u, its gradient, and f."""
        f = (self.directions @ u.astype(np.float32)).astype(np.float64)
        counter = np.exp(-REFERENCE_TILT * f)
        density = EXPECTED / POOL * np.exp(f)
        value = sums @ u - (density - EXPECTED / POOL).sum() - N_REFERENCE * np.log(counter.mean())
        counter *= REFERENCE_TILT * N_REFERENCE / counter.sum()
        gradient = sums - (density - counter).astype(np.float32) @ self.directions - u
        return float(value - 0.5 * u @ u), gradient, f

    def _curvature(self, f: Float64) -> Float64:
        counter = np.exp(-REFERENCE_TILT * f)
        counter *= REFERENCE_TILT * N_REFERENCE / counter.sum()
        mean = counter.astype(np.float32) @ self.directions
        size = np.sqrt(EXPECTED / POOL * np.exp(f) + REFERENCE_TILT * counter)
        scaled = self.directions * size.astype(np.float32)[:, None]
        return np.asarray(np.eye(len(mean)) + scaled.T @ scaled - np.outer(mean, mean) / N_REFERENCE)

    @cached_property
    def _start(self) -> tuple[Float64, bool]:
        return cho_factor(self._curvature(np.zeros(POOL)))


@dataclass(frozen=True)
class Tilted:
    """The discrete null, the test, and the tilts of its members."""

    test: AdaptiveTest
    events: Float32
    null: AdaptiveNull
    tilts: tuple[Tilts, ...]

    @classmethod
    def build(cls) -> Tilted:
        sizes = Sizes(expected=EXPECTED, reference=N_REFERENCE)
        members = choose_members(latent.background(20_000, _generator(0, 60)), AdaptiveSettings(), sizes)
        test, events = AdaptiveTest(members), latent.background(POOL, _generator(0, 62))
        whole = _dataset(events, np.arange(POOL), np.arange(POOL), _generator(0, 63))
        null = test.nulls(whole, n_reference=N_REFERENCE).at_yield()
        phi = evaluate(members.basis, events)
        tilts = []
        for own, one in zip(members.columns, null.nulls, strict=True):
            mine = phi[:, own]
            tilts.append(Tilts((mine @ tilt(one, mine, SHARE)).astype(np.float32)))
        return cls(test, events, null, tuple(tilts))

    def toy(self, index: int) -> tuple[Dataset, float]:
        """Return a tilted toy and the logarithm of its weight."""
        rng = _generator(64, index)
        f = self.tilts[index % len(self.tilts)].draw(rng)
        data = np.repeat(np.arange(POOL), rng.poisson(EXPECTED / POOL * np.exp(f)))
        counter = np.exp(-REFERENCE_TILT * f)
        reference = rng.choice(POOL, size=N_REFERENCE, p=counter / counter.sum())
        evidence = [each.log_evidence(data, reference) for each in self.tilts]
        weight = np.log(len(evidence)) - np.logaddexp.reduce(evidence)
        return _dataset(self.events, reference, data, rng), float(weight)


def _dataset(z: Float32, reference: np.ndarray, data: np.ndarray, rng: np.random.Generator) -> Dataset:
    weights = np.full(len(reference), EXPECTED / len(reference))
    responses = (Response(latent.response(z[reference])), Response(latent.response(z[data])))
    norm = Normalisation(0.1, float(rng.normal(0.0, 0.1)))
    return Dataset(z[reference], z[data], weights, *responses, rng.normal(0.0, 1.0, size=1), norm)


def run(toys: int, out: Path) -> None:
    tilted = Tilted.build()
    missing = sorted(set(range(toys)) - set(read_rows(out)))
    with out.open("a") as stream:
        for count, index in enumerate(missing, start=1):
            dataset, log_weight = tilted.toy(index)
            result = likelihood_ratio(dataset, tilted.test, 0)
            row = {"index": index, "t": result.t, "log_weight": log_weight, "status": str(result.status)}
            print(json.dumps(row), file=stream, flush=True)
            if count % 50 == 0:
                print(f"{count} of {len(missing)}", file=sys.stderr, flush=True)


def summarise(out: Path) -> None:
    """Print P(t > x) at the law's significances, as the weighted toys have it."""
    law = Tilted.build().null.law
    rows = read_rows(out).values()
    p = law.sf([row["t"] for row in rows])
    weight = np.exp([row["log_weight"] for row in rows])
    failed = sum(row["status"] != "converged" for row in rows)
    print(f"{len(p)} toys, {failed} not converged")
    for z in (2.0, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0):
        tail = float(stats.norm.sf(z))
        part = weight * (p < tail)
        mean, error = part.mean(), part.std() / np.sqrt(len(p))
        effective = part.sum() ** 2 / np.square(part).sum()
        low, seen, high = stats.norm.isf([mean + error, mean, max(mean - error, 1e-300)])
        print(f"law Z {z}: toys / law {mean / tail:.3f} +- {error / tail:.3f}, Z {seen:.3f}", end=" ")
        print(f"[{low:.3f}, {high:.3f}], {int((part > 0).sum())} toys, {effective:.0f} effective")


@click.command()
@click.option("--out", type=click.Path(path_type=Path), required=True, help="File of toys, one JSON a line.")
@click.option("--toys", default=0, show_default=True)
@click.option("--summary", is_flag=True, help="Compare what is there with the law.")
def main(out: Path, toys: int, summary: bool) -> None:
    """Run tilted toys of the adaptive test, or summarise them."""
    if toys:
        run(toys, out)
    if summary:
        summarise(out)


if __name__ == "__main__":
    main()
