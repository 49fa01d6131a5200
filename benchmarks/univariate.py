"""Power on the published univariate benchmark of kernel NPLM (arXiv:2408.12296), beside the published one.

    python benchmarks/univariate.py --out toys.jsonl --test convex --test adaptive --toys 400
    python benchmarks/univariate.py --out toys.jsonl --summary

Background Exp(1), 2000 events expected, reference 200 000, no nuisances; five signals, Poisson on top.
A test is any that `covad.toys.tests` can choose for a sample: `convex` is its class TunedConvex. All see
the same toys. Stopped runs go on where they were; `--ensemble` computes a part. The summary is a table.

Sums over the reference are those over two points in each of its cells of width 0.0025, which have the cell's
moments up to the third: bumps are so wide that t is the same within 1e-3, and a fit takes a twentieth of the
time. Without nuisances the law of t is the same for all toys: it is computed once, from a whole reference.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import click
import numpy as np
from scipy import stats

from covad.nplm.adaptive.adaptive import AdaptiveTest
from covad.nplm.adaptive.law import AdaptiveNull
from covad.nplm.convex.convex import ConvexTest
from covad.nplm.convex.law import ConvexNull
from covad.nplm.dataset import Dataset, Response
from covad.nplm.statistic import likelihood_ratio
from covad.toys import tests

SEED = 20261118
EXPECTED, REFERENCE, POOL = 2000.0, 200_000, 50_000
#: One-sided rate of Z = 2, at which powers are published.
RATE = float(stats.norm.sf(2.0))
#: Width of the cells in which reference events are summed up; the narrowest bumps are 0.05 wide.
CELL = 0.0025
#: Toys of the null for each of a signal: their quantile decides the power of a test without a law.
NULL_TOYS = 2


@dataclass(frozen=True)
class Signal:
    """Expected events of a normal density; `widths` and `smallest_p` are published powers at Z = 2."""

    events: float
    mean: float
    deviation: float
    widths: tuple[float, float]
    smallest_p: float

    @property
    def label(self) -> str:
        return f"{self.events:g} events N({self.mean:g}, {self.deviation:g})"


#: The key is part of the seed.
SIGNALS = {
    "1": Signal(10, 6.4, 0.16, (0.03, 0.66), 0.58),
    "2": Signal(13, 4.0, 0.64, (0.02, 0.08), 0.08),
    "3": Signal(18, 4.0, 0.16, (0.05, 0.37), 0.33),
    "4": Signal(7, 4.0, 0.01, (0.03, 0.12), 0.10),
    "5": Signal(90, 1.6, 0.16, (0.25, 0.91), 0.88),
}
ENSEMBLES = ("null", *SIGNALS)


def seeds(*key: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(SEED, spawn_key=key)


@dataclass(frozen=True)
class KnownLaw:
    """The laws of the members of an adaptive test, which are those of every toy where nothing is fitted."""

    null: AdaptiveNull

    def log_p(self, t: np.ndarray, dataset: Dataset, nu: np.ndarray) -> np.ndarray:  # noqa: ARG002
        return self.null.log_p(t)

    def information(self, dataset: Dataset, nu: np.ndarray) -> np.ndarray:  # noqa: ARG002
        return self.null.moments.information


@cache
def named(name: str) -> ConvexTest | AdaptiveTest:
    """Choose a test by its rules, from events that no toy uses."""
    settings = getattr(tests, f"Tuned{name.capitalize()}", None)
    if not hasattr(settings, "choose"):
        raise click.UsageError(f"covad.toys.tests has no test '{name}' that can be chosen for a sample")
    pool = np.random.default_rng(seeds(0)).exponential(size=(POOL, 1)).astype(np.float32)
    chosen = settings(expected=EXPECTED, reference=REFERENCE).choose(pool)
    return replace(chosen, shared=KnownLaw(null_of(chosen))) if isinstance(chosen, AdaptiveTest) else chosen


def null_of(test: ConvexTest | AdaptiveTest) -> ConvexNull | AdaptiveNull:
    """Return the law of t, from a reference that no toy has."""
    return test.nulls(toy("null", 10**6)).at_yield()


def toy(ensemble: str, index: int) -> Dataset:
    rng = np.random.default_rng(seeds(1 + ENSEMBLES.index(ensemble), index))
    reference = rng.exponential(size=(REFERENCE, 1)).astype(np.float32)
    data = rng.exponential(size=rng.poisson(EXPECTED))
    if ensemble in SIGNALS:
        signal = SIGNALS[ensemble]
        data = np.append(data, rng.normal(signal.mean, signal.deviation, rng.poisson(signal.events)))
    return Dataset(
        reference=reference,
        data=data[:, None].astype(np.float32),
        weights=np.full(REFERENCE, EXPECTED / REFERENCE),
        reference_response=Response.none(REFERENCE),
        data_response=Response.none(len(data)),
        measured=np.empty(0),
    )


def summed_up(dataset: Dataset) -> Dataset:
    """Put two points in the place of the reference events of a cell, with its moments up to the third."""
    z = np.sort(dataset.reference[:, 0].astype(np.float64))
    first = np.flatnonzero(np.diff(np.floor(z / CELL), prepend=-1.0))
    n = np.diff(first, append=len(z))
    mean = np.add.reduceat(z, first) / n
    away = z - np.repeat(mean, n)
    variance, third = (np.add.reduceat(away**power, first) / n for power in (2, 3))
    spread = np.sqrt(variance)
    skew = np.divide(third, spread**3, out=np.zeros_like(third), where=spread > 0)
    root = np.sqrt(1.0 + 0.25 * skew**2)
    points = np.concatenate([mean + spread * (0.5 * skew + sign * root) for sign in (1.0, -1.0)])
    shares = np.concatenate([0.5 * (1.0 - sign * 0.5 * skew / root) for sign in (1.0, -1.0)])
    return replace(
        dataset,
        reference=points[:, None].astype(np.float32),
        weights=np.tile(n, 2) * shares * (EXPECTED / len(z)),
        reference_response=Response.none(len(points)),
    )


def read_rows(path: Path) -> dict[tuple[str, str, int], dict[str, object]]:
    """Return finished toys by (test, ensemble, index)."""
    lines = path.read_text().splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
    return {(row["test"], row["ensemble"], row["index"]): row for row in rows}


def run(names: tuple[str, ...], ensembles: tuple[str, ...], toys: int, out: Path) -> None:
    """Compute what is missing, toy by toy, so that a toy is drawn once for all tests."""
    done = read_rows(out)
    with out.open("a") as stream:
        print(file=stream)  # ends a line that a kill left torn
        for index in range(NULL_TOYS * toys):
            for ensemble in ensembles:
                if ensemble != "null" and index >= toys:
                    continue
                missing = [name for name in names if (name, ensemble, index) not in done]
                dataset = summed_up(toy(ensemble, index)) if missing else None
                for name in missing:
                    assert dataset is not None
                    result = likelihood_ratio(dataset, named(name), seeds(99, index))
                    row = {"test": name, "ensemble": ensemble, "index": index, "t": result.t}
                    row |= {"status": str(result.status), "seconds": round(result.seconds, 4)}
                    print(json.dumps(row), file=stream, flush=True)
            if (index + 1) % 50 == 0:
                print(f"{index + 1} of {NULL_TOYS * toys}", file=sys.stderr, flush=True)


def values(rows: dict[tuple[str, str, int], dict[str, object]], name: str, ensemble: str) -> np.ndarray:
    """Return t of an ensemble; a fit that failed counts as no excess."""
    mine = [row for (test, kind, _), row in rows.items() if (test, kind) == (name, ensemble)]
    return np.array([row["t"] if row["status"] != "failed" else -np.inf for row in mine], dtype=float)


def share(beyond: np.ndarray) -> str:
    """Return a rate with its Clopper-Pearson 68 % interval."""
    found = stats.binomtest(int(beyond.sum()), len(beyond))
    interval = found.proportion_ci(0.68)
    return f"{beyond.mean():.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def summarise(out: Path) -> None:
    """Print a table: power at Z = 2 by the law and by toys of the null, beside the published powers."""
    rows = read_rows(out)
    print("| test | signal | toys | power, law | power, null toys | published, widths | smallest p |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for name in dict.fromkeys(test for test, _, _ in rows):
        null, law = values(rows, name, "null"), null_of(named(name)).law
        by_toys = float(np.quantile(null, 1.0 - RATE)) if len(null) else np.inf
        for ensemble in ENSEMBLES:
            t = values(rows, name, ensemble)
            if not len(t):
                continue
            signal = SIGNALS.get(ensemble)
            published = (
                ["", ""]
                if signal is None
                else [f"{signal.widths[0]:.2f} - {signal.widths[1]:.2f}", f"{signal.smallest_p:.2f}"]
            )
            cells = [name, signal.label if signal else "none", str(len(t))]
            by_law = law.sf(np.maximum(t, 0.0)) < RATE  # a fit that failed has t = -inf
            cells += [share(by_law), share(t > by_toys) if len(null) else ""]
            print("| " + " | ".join([*cells, *published]) + " |")


@click.command(help=__doc__.splitlines()[0])
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Results, one JSON a line.")
@click.option("--test", "names", multiple=True, help="Test by name, such as convex; several at once.")
@click.option("--toys", default=400, show_default=True, help="Toys of every signal; twice as many of none.")
@click.option("--ensemble", "ensembles", multiple=True, type=click.Choice(ENSEMBLES), help="Default: all.")
@click.option("--summary", is_flag=True, help="Print the table of what is there.")
def main(out: Path, names: tuple[str, ...], toys: int, ensembles: tuple[str, ...], summary: bool) -> None:
    if names:
        run(names, ensembles or ENSEMBLES, toys, out)
    if summary:
        summarise(out)


if __name__ == "__main__":
    main()
