"""Toys of the latent world against the analytic null of the convex test.

    python benchmarks/convex_null.py --out toys.jsonl --study m100 --toys 20000
    python benchmarks/convex_null.py --out toys.jsonl --summary

Every toy has fresh events, so no finite pool adds to t. A toy is a function of (study, index): a run that was
stopped goes on where it was.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click
import numpy as np
from quantile_rule import with_quantile
from scipy import stats

from covad.nplm.convex.capacity import with_capacity
from covad.nplm.convex.convex import ConvexProblem, ConvexTest
from covad.nplm.convex.law import ConvexNull, analytic_null
from covad.nplm.dataset import Dataset
from covad.nplm.settings import Sizes
from covad.nplm.statistic import likelihood_ratio
from covad.toys import latent_world as latent
from covad.toys.latent_world import LatentWorld

SEED = 20261115
#: Chance that any of the comparisons which should agree is called a disagreement.
FAMILY_WISE_RATE = 0.01
#: The second-order t is computed beside t for the first toys of a study.
WITH_QUADRATIC = 500


@dataclass(frozen=True)
class Study:
    """An ensemble of null toys. `agrees` says what is expected of it; a control is not in the family."""

    key: int
    n_bumps: int = 100
    nu: float = 0.0
    nuisances: int = 1
    normalisation: bool = True
    expected: float = 10_000.0
    agrees: bool = True
    control: bool = False
    matched: bool = False  # width by capacity, as in studies; else by the 10 % quantile, with a spread of 1

    def world(self, reference_factor: int = 1) -> LatentWorld:
        sigma = 0.1 if self.normalisation else None
        n_reference = round(5.2 * self.expected) * reference_factor
        return LatentWorld(n_reference, self.expected, self.nuisances, sigma)

    def toy(self, index: int) -> Dataset:
        rng = np.random.default_rng(np.random.SeedSequence(SEED, spawn_key=(self.key, index)))
        return self.world().toy(rng, self.nu)


STUDIES = {
    "m100": Study(1),
    "m50": Study(2, n_bumps=50),
    "m300": Study(3, n_bumps=300),
    "m100-up": Study(4, nu=1.0),
    "m100-down": Study(5, nu=-1.0),
    "m100-none": Study(6, nuisances=0, normalisation=False),
    "m100-none-up": Study(7, nu=1.0, nuisances=0, normalisation=False, agrees=False),
    "m100-none-down": Study(8, nu=-1.0, nuisances=0, normalisation=False, agrees=False),
    "m100-two": Study(9, nuisances=2),
    "m100-n1000": Study(10, expected=1_000.0, control=True),
    "m100-n200": Study(11, expected=200.0, control=True),
    "matched": Study(12, matched=True),
    "matched-up": Study(13, nu=1.0, matched=True),
    "matched-down": Study(14, nu=-1.0, matched=True),
    "matched-none": Study(15, nuisances=0, normalisation=False, matched=True),
    "matched-two": Study(16, nuisances=2, matched=True),
    "matched-n1000": Study(17, expected=1_000.0, control=True, matched=True),
    "matched-n200": Study(18, expected=200.0, control=True, matched=True),
}


@cache
def convex(study: Study) -> ConvexTest:
    """The test of the study: bumps and ridge by one of the rules, from events of their own."""
    seeds = np.random.SeedSequence(SEED, spawn_key=(0, study.n_bumps)).spawn(2)
    pool = latent.background(50_000, np.random.default_rng(seeds[0]))
    if not study.matched:
        return with_quantile(pool, study.n_bumps, seeds[1])
    sizes = Sizes(expected=study.expected, reference=study.world().n_reference)
    return with_capacity(pool, study.n_bumps, seeds[1], sizes=sizes)


def null_of(study: Study) -> ConvexNull:
    """The analytic null, from a reference ten times as large as that of a toy."""
    rng = np.random.default_rng(np.random.SeedSequence(SEED, spawn_key=(0, 0)))
    sample = study.world(reference_factor=10).toy(rng)
    return analytic_null(convex(study), sample, _truth(study), study.world().n_reference)


def _truth(study: Study) -> np.ndarray:
    """True values of the nuisances that are fitted."""
    return np.array([study.nu] * study.nuisances + [0.0] * study.normalisation)


def run_toy(study: Study, null: ConvexNull, index: int) -> dict[str, object]:
    test = convex(study)
    dataset = study.toy(index)
    result = likelihood_ratio(dataset, test, seed=0)
    row: dict[str, object] = {"index": index, "t": result.t, "status": str(result.status)}
    row |= {"evaluations": result.tau.evaluations, "seconds": round(result.seconds, 4)}
    if index < WITH_QUADRATIC:
        likelihood = ConvexProblem.of(test, dataset).likelihood.penalised
        truth = np.concatenate([np.zeros(test.n_parameters), _truth(study)])
        row["quadratic_t"] = null.quadratic_t(likelihood.ascent(truth)[1])
    return row


def read_rows(path: Path) -> dict[str, dict[int, dict[str, object]]]:
    """Finished toys by study and index; the last line may have been cut short."""
    rows: dict[str, dict[int, dict[str, object]]] = {name: {} for name in STUDIES}
    for line in path.read_text().splitlines() if path.exists() else []:
        if line.endswith("}"):
            row = json.loads(line)
            rows[row["study"]][row["index"]] = row
    return rows


def run(name: str, toys: int, out: Path) -> None:
    """Run what is missing of the first `toys` toys of a study."""
    study = STUDIES[name]
    null = null_of(study)
    missing = sorted(set(range(toys)) - set(read_rows(out)[name]))
    with out.open("a") as stream:
        for count, index in enumerate(missing, start=1):
            print(json.dumps({"study": name} | run_toy(study, null, index)), file=stream, flush=True)
            if count % 100 == 0:
                print(f"{name}: {count} of {len(missing)}", file=sys.stderr, flush=True)


def compare(null: ConvexNull, t: np.ndarray) -> dict[str, float]:
    """p-values of the agreement: KS, and the number of toys beyond 1, 2 and 3 sigma (two-sided binomial)."""
    p = null.law.sf(t)
    result = {"ks": float(stats.kstest(p, "uniform").pvalue)}
    for z in (1, 2, 3):
        tail = float(stats.norm.sf(z))
        beyond = int((p < tail).sum())
        result |= {f"n{z}": beyond, f"expected{z}": tail * len(p)}
        result[f"p{z}"] = float(stats.binomtest(beyond, len(p), tail).pvalue)
    return result


def summarise(out: Path) -> None:
    """The table of the documentation."""
    rows = {name: found for name, found in read_rows(out).items() if found}
    family = [name for name in rows if STUDIES[name].agrees and not STUDIES[name].control]
    threshold = FAMILY_WISE_RATE / max(4 * len(family), 1)
    print(f"p-values below {threshold:.1e} disagree: {4 * len(family)} tests, family-wise {FAMILY_WISE_RATE}")
    for name, found in rows.items():
        null = null_of(STUDIES[name])
        done = [row for row in found.values() if row["status"] == "converged"]
        t = np.array([row["t"] for row in done])
        agreement = compare(null, t)
        verdict = (
            "agrees" if min(agreement[key] for key in ("ks", "p1", "p2", "p3")) > threshold else "DISAGREES"
        )
        print(f"{name}: {len(t)} toys, {len(found) - len(t)} not converged, {verdict}")
        print(f"  t {t.mean():.3f} +- {t.std() / np.sqrt(len(t)):.3f}, std {t.std():.3f}", end="; ")
        print(f"analytic {null.law.mean:.3f}, std {null.law.std:.3f}, dof {null.law.effective_dof:.1f}")
        print("  " + ", ".join(f"{key} {value:.4g}" for key, value in agreement.items()))
        _print_nonlinearity(done, null)
        print(f"  core-s {np.median([row['seconds'] for row in done]):.3f}")


def _print_nonlinearity(done: list[dict[str, object]], null: ConvexNull) -> None:
    """How t differs from its second-order value: shift, and stretch of the distance from the mean."""
    both = np.array([(row["t"], row["quadratic_t"]) for row in done if "quadratic_t" in row])
    if len(both) > 2:
        beyond = stats.linregress(both[:, 1] - null.law.mean, both[:, 0] - both[:, 1])
        print(f"  t - quadratic t: {beyond.intercept:.3f} +- {beyond.intercept_stderr:.3f}", end=", ")
        print(f"stretch {beyond.slope:.4f} +- {beyond.stderr:.4f}, of {len(both)}")


@click.command()
@click.option("--out", type=click.Path(path_type=Path), required=True, help="File of toys, one JSON a line.")
@click.option("--study", "names", multiple=True, type=click.Choice(list(STUDIES)), help="Studies to run.")
@click.option("--toys", default=2_000, show_default=True)
@click.option("--summary", is_flag=True, help="Compare what is there with the analytic null.")
def main(out: Path, names: tuple[str, ...], toys: int, summary: bool) -> None:
    """Run null toys of the convex test, or summarise them."""
    for name in names:
        run(name, toys, out)
    if summary:
        summarise(out)


if __name__ == "__main__":
    main()
