"""Toys with a weighted reference against the law: positive weights, and signed ones that were smoothed.

    python benchmarks/weights_law.py --out toys.jsonl --study lognormal --toys 2000
    python benchmarks/weights_law.py --out toys.jsonl --summary

The latent world, with 2000 expected data of its background, which have no weights; nuisances are profiled.
Every toy has a sample of its own, which is smoothed anew. A toy is a function of (study,
index): a run that was stopped goes on where it was.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click
import numpy as np
from scipy import stats

from covad.nplm.convex.capacity import with_capacity
from covad.nplm.convex.convex import ConvexTest, columns
from covad.nplm.convex.generalised_chi2 import GeneralisedChi2
from covad.nplm.convex.law import analytic_null
from covad.nplm.dataset import Dataset, Normalisation, Response
from covad.nplm.settings import Sizes
from covad.nplm.smoothing import smooth, smoothing_variance
from covad.nplm.statistic import likelihood_ratio
from covad.toys import latent_world as latent

SEED = 20270301
EXPECTED = 2_000.0
#: Times as many events as a toy has give the moments of the law.
FINER = 10


@dataclass(frozen=True)
class Study:
    """Samples of `n_events` with weights, of which a toy has `n_reference` as its reference."""

    key: int
    n_events: int = 10_400
    n_reference: int = 10_400
    spread: float = 0.0  # of the logarithm of positive weights
    tilt: float = 0.0
    uneven: float = 0.0  # 0: no signs; else how much larger negative weights are
    dropped: bool = False  # signs are, before anything else

    def sample(self, rng: np.random.Generator, times: int = 1) -> tuple[np.ndarray, np.ndarray]:
        n = self.n_events * times
        if not self.uneven:
            return latent.weighted_background(n, rng, self.spread, self.tilt)
        z, weights = latent.signed_background(n, rng, uneven=self.uneven)
        return z, np.abs(weights) if self.dropped else weights


STUDIES = {
    "equal": Study(1),
    "lognormal": Study(2, spread=np.sqrt(np.log(3.0))),
    "along": Study(3, spread=0.9, tilt=0.6),
    "heavy": Study(4, spread=np.sqrt(np.log(8.0))),
    "signed": Study(5, n_events=20_800, n_reference=20_800, uneven=1.0),
    "signed-part": Study(6, n_events=20_800, n_reference=10_400, uneven=1.0),
    "signed-uneven": Study(7, n_events=20_800, n_reference=20_800, uneven=3.0),
    "signs-dropped": Study(8, n_events=20_800, n_reference=20_800, uneven=1.0, dropped=True),
}


@cache
def convex() -> ConvexTest:
    pool = latent.background(50_000, np.random.default_rng(SEED))
    return with_capacity(pool, 30, 1, sizes=Sizes(expected=EXPECTED, reference=10_400))


def test_columns(z: np.ndarray) -> np.ndarray:
    return columns(convex().basis, z, Response(latent.response(z)), normalisation=True)


def dataset(reference: np.ndarray, weights: np.ndarray, rng: np.random.Generator) -> Dataset:
    data = latent.tilted_background(EXPECTED, np.zeros(1), rng)
    return Dataset(
        reference=reference,
        data=data,
        weights=weights * (EXPECTED / weights.sum()),
        reference_response=Response(latent.response(reference)),
        data_response=Response(latent.response(data)),
        measured=rng.normal(size=1),
        normalisation=Normalisation(0.1, float(rng.normal(0.0, 0.1))),
    )


def toy(study: Study, index: int) -> dict[str, float]:
    rng = np.random.default_rng(np.random.SeedSequence(SEED, spawn_key=(study.key, index)))
    z, signed = study.sample(rng)
    smoothing = smooth(test_columns(z), signed)
    rows = rng.choice(study.n_events, study.n_reference, replace=False)
    result = likelihood_ratio(dataset(z[rows], smoothing.weights[rows], rng), convex(), seed=0)
    return {"index": index, "t": result.t, "unmatched": smoothing.unmatched}


def laws(study: Study) -> dict[str, GeneralisedChi2]:
    """The law, and what it would be if something were left out."""
    rng = np.random.default_rng(np.random.SeedSequence(SEED, spawn_key=(study.key, 2**31)))
    z, signed = study.sample(rng, FINER)
    x = test_columns(z)
    smoothed = smooth(x, signed).weights
    sample, n = dataset(z, smoothed, rng), study.n_reference
    found = {}
    if study.uneven and not study.dropped:
        further = FINER * smoothing_variance(x, signed, smoothed, EXPECTED)
        found["law"] = analytic_null(convex(), sample, n_reference=n, further=further).law
        found["without the signs' noise"] = analytic_null(convex(), sample, n_reference=n).law
        centred = (x - smoothed @ x / smoothed.sum()) * ((signed - smoothed) / signed.sum())[:, None]
        squared = FINER * EXPECTED**2 * centred.T @ centred
        found["with (w - wbar)^2"] = analytic_null(convex(), sample, n_reference=n, further=squared).law
    else:
        found["law"] = analytic_null(convex(), sample, n_reference=n).law
        if study.spread:
            equal = dataset(latent.background(len(z), rng), np.ones(len(z)), rng)
            found["as if weights were equal"] = analytic_null(convex(), equal, n_reference=n).law
    return found


@click.command()
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option("--study", "name", type=click.Choice(list(STUDIES)))
@click.option("--toys", default=2000)
@click.option("--summary", is_flag=True)
def main(out: Path, name: str | None, toys: int, summary: bool) -> None:
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    if name is not None:
        done = {row["index"] for row in rows if row["study"] == name}
        with out.open("a") as file:
            for index in sorted(set(range(toys)) - done):
                print(json.dumps({"study": name, **toy(STUDIES[name], index)}), file=file, flush=True)
    if summary:
        print("| study | law | toys | mean of t | law | its spread | law | KS p | beyond 2, 3 sigma |")
        print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
        for name in STUDIES:
            t = np.array([row["t"] for row in rows if row["study"] == name])
            if not len(t):
                continue
            for kind, law in laws(STUDIES[name]).items():
                p = stats.kstest(law.sf(t), "uniform").pvalue
                rates = ", ".join(f"{(law.sf(t) < stats.norm.sf(z)).mean():.2%}" for z in (2, 3))
                print(
                    f"| {name} | {kind} | {len(t)} | {t.mean():.2f} +- {t.std() / np.sqrt(len(t)):.2f} | "
                    f"{law.mean:.2f} | {t.std():.2f} | {law.std:.2f} | {p:.2g} | {rates} |"
                )


if __name__ == "__main__":
    main()
