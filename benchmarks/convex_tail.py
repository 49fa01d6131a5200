"""The far tail of the convex test's null, by importance sampling: what plain toys cannot reach.

    python benchmarks/convex_tail.py --out tail.jsonl --toys 2000
    python benchmarks/convex_tail.py --out tail.jsonl --summary

The null is a pool of events of equal probability: reference and data are drawn from it with replacement, so
that its density, and any tilt of it, is known exactly. Data are drawn from n e^f and the reference from
e^{-N_D/N_R f}, with random coefficients of f from a Gaussian that brings t to about 4.5 sigma. A toy then has
the weight 1/m, with m its likelihood ratio to the null averaged over that Gaussian (Laplace's method around
the exact maximum), and P(t > x) is the mean of weight * [t > x].
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from scipy import stats

from covad.nplm.convex.basis import evaluate
from covad.nplm.convex.capacity import with_capacity
from covad.nplm.convex.convex import ConvexTest
from covad.nplm.convex.law import ConvexNull, analytic_null
from covad.nplm.dataset import Dataset, Float32, Float64, Normalisation, Response
from covad.nplm.maximise import Expansion, maximise
from covad.nplm.statistic import likelihood_ratio
from covad.toys import latent_world as latent

SEED = 20261115
POOL, N_REFERENCE, EXPECTED, N_BUMPS = 100_000, 52_000, 10_000.0, 100
AIM = 4.5  # sigma
REFERENCE_TILT = EXPECTED / N_REFERENCE


def _generator(*key: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(SEED, spawn_key=key))


@dataclass(frozen=True)
class Columns:
    """A basis for events that are rows of columns already."""

    n_columns: int
    n_ridged: int

    def fill(self, events: Float32, out: Float32) -> None:
        out[...] = events


@dataclass(frozen=True)
class Tilted:
    """The discrete null, the test, and the directions in which data are tilted."""

    test: ConvexTest
    phi: Float32
    response: Float32
    null: ConvexNull
    directions: Float32  # f = directions . u with u standard normal

    @classmethod
    def build(cls) -> Tilted:
        bumps = with_capacity(latent.background(50_000, _generator(0, 60)), N_BUMPS, 61)
        events = latent.background(POOL, _generator(0, 62))
        phi = evaluate(bumps.basis, events)
        test = ConvexTest(Columns(phi.shape[1], bumps.basis.n_ridged), bumps.ridge)
        g = latent.response(events)
        whole = _dataset(phi, g, np.arange(POOL), np.arange(POOL), _generator(0, 63))
        null = analytic_null(test, whole, n_reference=N_REFERENCE)
        return cls(test, phi, g, null, (phi @ tilt(null, phi)).astype(np.float32))

    def toy(self, index: int) -> tuple[Dataset, float]:
        """A tilted toy and the logarithm of its weight."""
        rng = _generator(64, index)
        f = self.directions.astype(np.float64) @ rng.standard_normal(self.directions.shape[1])
        data = np.repeat(np.arange(POOL), rng.poisson(EXPECTED / POOL * np.exp(f)))
        counter = np.exp(-REFERENCE_TILT * f)
        reference = rng.choice(POOL, size=N_REFERENCE, p=counter / counter.sum())
        return _dataset(self.phi, self.response, reference, data, rng), -self.log_evidence(data, reference)

    def log_evidence(self, data: np.ndarray, reference: np.ndarray) -> float:
        """log of the likelihood ratio of a tilted toy to the null, averaged over the tilt."""
        sums = self.directions[data].sum(axis=0, dtype=np.float64)
        sums -= REFERENCE_TILT * self.directions[reference].sum(axis=0, dtype=np.float64)
        likelihood = TiltLikelihood(self.directions, sums)
        best = maximise(likelihood, np.zeros(len(sums)), tolerance=1e-5)
        return best.value - 0.5 * float(np.linalg.slogdet(likelihood.expand(best.theta).curvature)[1])


@dataclass(frozen=True)
class TiltLikelihood:
    """log likelihood ratio of data and reference to the null, plus the log of the Gaussian of u."""

    directions: Float32
    sums: Float64  # over the data, minus REFERENCE_TILT times those over the reference

    def value(self, u: Float64) -> float:
        f = (self.directions @ u.astype(np.float32)).astype(np.float64)
        data = EXPECTED * np.expm1(f).mean()
        reference = N_REFERENCE * np.log(np.exp(-REFERENCE_TILT * f).mean())
        return float(self.sums @ u - data - reference - 0.5 * u @ u)

    def expand(self, u: Float64) -> Expansion:
        f = (self.directions @ u.astype(np.float32)).astype(np.float64)
        counter = np.exp(-REFERENCE_TILT * f)
        counter *= REFERENCE_TILT * N_REFERENCE / counter.sum()
        density = EXPECTED / POOL * np.exp(f)
        mean = counter.astype(np.float32) @ self.directions
        gradient = self.sums - density.astype(np.float32) @ self.directions + mean - u
        scaled = self.directions * np.sqrt(density + REFERENCE_TILT * counter).astype(np.float32)[:, None]
        centring = np.outer(mean, mean) / N_REFERENCE
        return Expansion(self.value(u), gradient, np.eye(len(u)) + scaled.T @ scaled - centring)


def tilt(null: ConvexNull, phi: Float32, share: float = 1e-9) -> Float64:
    """Root of the covariance of the coefficients that turns the variance of y into that of its tail.

    A Gaussian y of variance V, tilted by e^{c y.Q.y}, has the variance (V^-1 - 2 c Q)^-1 with c the saddle
    point of the tail; coefficients of covariance S add (1 + N_D/N_R)^2 F S F to it. Directions in
    which the density varies by less than a `share` of the largest variance are left out.
    """
    n = phi.shape[1]
    x = null.law.isf(float(stats.norm.sf(AIM)))
    tilts = np.linspace(0.0, 0.5 / null.law.weights.max(), 10_001)[1:-1]
    means = [np.sum(null.law.weights / (1.0 - 2.0 * null.law.weights * c)) for c in tilts]
    c = float(np.interp(x, means, tilts))
    grown = np.linalg.inv(np.linalg.inv(null.variance) - 2.0 * c * null.form) - null.variance
    columns = phi.astype(np.float64)
    strengths, axes = np.linalg.eigh(EXPECTED / len(phi) * columns.T @ columns)
    told = strengths > 1e-7 * strengths[-1]  # rounding of the columns
    white = axes[:, told] / np.sqrt(strengths[told])
    values, vectors = np.linalg.eigh(white.T @ grown[:n, :n] @ white / (1.0 + REFERENCE_TILT) ** 2)
    keep = values > share * values.max()
    root: Float64 = white @ vectors[:, keep] * np.sqrt(values[keep])
    return root


def _dataset(
    phi: Float32, g: Float32, reference: np.ndarray, data: np.ndarray, rng: np.random.Generator
) -> Dataset:
    weights = np.full(len(reference), EXPECTED / len(reference))
    responses = (Response(g[reference]), Response(g[data]))
    norm = Normalisation(0.1, float(rng.normal(0.0, 0.1)))
    return Dataset(phi[reference], phi[data], weights, *responses, rng.normal(0.0, 1.0, size=1), norm)


def read_rows(path: Path) -> dict[int, dict[str, object]]:
    lines = path.read_text().splitlines() if path.exists() else []
    return {row["index"]: row for row in (json.loads(line) for line in lines if line.endswith("}"))}


def run(toys: int, out: Path) -> None:
    tilted = Tilted.build()
    missing = sorted(set(range(toys)) - set(read_rows(out)))
    with out.open("a") as stream:
        for count, index in enumerate(missing, start=1):
            dataset, log_weight = tilted.toy(index)
            result = likelihood_ratio(dataset, tilted.test, 0)
            row = {"index": index, "t": result.t, "log_weight": log_weight, "status": str(result.status)}
            print(json.dumps(row), file=stream, flush=True)
            if count % 100 == 0:
                print(f"{count} of {len(missing)}", file=sys.stderr, flush=True)


def summarise(out: Path) -> None:
    """P(t > x) at analytic significances, as the weighted toys have it."""
    null = Tilted.build().null
    rows = read_rows(out).values()
    t = np.array([row["t"] for row in rows])
    weight = np.exp([row["log_weight"] for row in rows])
    failed = sum(row["status"] != "converged" for row in rows)
    print(f"{len(t)} toys, {failed} not converged, null {null.law.mean:.2f} +- {null.law.std:.2f}")
    for z in (2.0, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 6.5):
        p = float(stats.norm.sf(z))
        part = weight * (t > null.law.isf(p))
        mean, error = part.mean(), part.std() / np.sqrt(len(t))
        effective = part.sum() ** 2 / np.square(part).sum()
        low, seen, high = stats.norm.isf([mean + error, mean, max(mean - error, 1e-300)])
        print(f"analytic Z {z}: toys / analytic {mean / p:.3f} +- {error / p:.3f}, Z {seen:.3f}", end=" ")
        print(f"[{low:.3f}, {high:.3f}], {int((part > 0).sum())} toys, {effective:.0f} effective")


@click.command()
@click.option("--out", type=click.Path(path_type=Path), required=True, help="File of toys, one JSON a line.")
@click.option("--toys", default=0, show_default=True)
@click.option("--summary", is_flag=True, help="Compare what is there with the analytic null.")
def main(out: Path, toys: int, summary: bool) -> None:
    """Run tilted toys of the convex test, or summarise them."""
    if toys:
        run(toys, out)
    if summary:
        summarise(out)


if __name__ == "__main__":
    main()
