"""Null toys of the latent world against the law of the adaptive test.

    python benchmarks/adaptive_null.py --out toys.jsonl --toys 1000 --nu 1
    python benchmarks/adaptive_null.py --out toys.jsonl --toys 1000 --nuisances 2 --nu prior
    python benchmarks/adaptive_null.py --out toys.jsonl --summary

A toy is a function of its study and its index: a run that was stopped goes on where it was, and `--first`
lets several processes share a study, each with a file of its own. The law is that of all toys of a study: at
nu = 0, from a reference four times as large. The control has p of its members, and their law, without the
fluctuations of the reference: it has to fail. The summary takes p of the members from their t anew, by the
law as it is now.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import click
import numpy as np
from scipy import stats

from covad.nplm.adaptive.adaptive import AdaptiveTest
from covad.nplm.adaptive.law import AdaptiveNull, sketched_null
from covad.nplm.adaptive.members import AdaptiveFit, choose_members
from covad.nplm.adaptive.shared import EVENTS, SharedMoments
from covad.nplm.adaptive.smallest_p import SmallestP
from covad.nplm.convex.law import ScoreMoments
from covad.nplm.dataset import Dataset, Float64, Normalisation
from covad.nplm.likelihood import join_nuisances
from covad.nplm.settings import AdaptiveSettings, Sizes
from covad.nplm.statistic import likelihood_ratio
from covad.toys import latent_world as latent
from covad.toys.drawing import LatentSource
from covad.toys.latent_world import LatentWorld

SEED = 20261118
#: Toys of a study whose control is computed.
WITH_CONTROL = 100
SIGMA = 0.1


@dataclass(frozen=True)
class Study:
    """Null toys at one truth; without nuisances the yield is known, too."""

    nuisances: int
    expected: float
    nu: str  # a number, of all nuisances, or 'prior'

    @property
    def world(self) -> LatentWorld:
        sigma = SIGMA if self.nuisances else None
        return LatentWorld(round(5.2 * self.expected), self.expected, self.nuisances, sigma)

    def toy(self, index: int) -> Dataset:
        """Draw one toy; of the prior, at a truth of its own, the yield included."""
        words = json.dumps(asdict(self), sort_keys=True).encode()
        rng = np.random.default_rng(np.random.SeedSequence(SEED, spawn_key=(*words, index)))
        if self.nu != "prior":
            return self.world.toy(rng, float(self.nu))
        log_yield = float(rng.normal(0.0, SIGMA))
        grown = replace(self.world, expected=self.expected * np.exp(log_yield))
        toy = grown.toy(rng, rng.normal(0.0, 1.0, self.nuisances))
        measured = log_yield + (toy.normalisation.measured if toy.normalisation else 0.0)
        weights = toy.weights * (self.expected / toy.weights.sum())
        return replace(toy, weights=weights, normalisation=Normalisation(SIGMA, measured))


@cache
def adaptive(expected: float, nuisances: int) -> AdaptiveTest:
    """Return the default test for datasets of this size, with moments from events of its own."""
    pool = latent.background(20_000, np.random.default_rng(SEED))
    sizes = Sizes(expected=expected, reference=round(5.2 * expected))
    members = choose_members(pool, AdaptiveSettings(), sizes)
    return AdaptiveTest(members, SharedMoments(members, LatentSource(nuisances).reference_sample(EVENTS)))


@cache
def law_of(study: Study, control: bool = False) -> SmallestP:
    """Return the law of all toys of a study."""
    world = replace(study.world, n_reference=4 * study.world.n_reference)
    sample = world.toy(np.random.default_rng(SEED + 1))
    null = (
        adaptive(study.expected, study.nuisances)
        .nulls(sample, n_reference=study.world.n_reference)
        .at_yield()
    )
    return (without_reference(null) if control else null).law


def without_reference(null: AdaptiveNull) -> AdaptiveNull:
    """Return the null as if the reference did not fluctuate."""
    information = null.moments.information
    return replace(null, moments=ScoreMoments(information, np.zeros_like(information)))


def run_toy(study: Study, index: int) -> dict[str, Any]:
    test, dataset = adaptive(study.expected, study.nuisances), study.toy(index)
    result = likelihood_ratio(dataset, test, seed=0)
    tau = result.tau
    if not isinstance(tau, AdaptiveFit):
        raise TypeError("the adaptive test returns a fit of its own")
    row: dict[str, Any] = {
        "index": index,
        "t": result.t,
        "member_t": tau.member_t.tolist(),
        "log_p": tau.log_p.tolist(),
        "nu": join_nuisances(result.delta, dataset).tolist(),
        "status": str(result.status),
        "seconds": round(result.seconds, 3),
    }
    if index < WITH_CONTROL:
        null = sketched_null(test.members, dataset, join_nuisances(result.delta, dataset))
        row["control"] = float(-2.0 * without_reference(null).log_p(tau.member_t).min())
    return row


def read_rows(path: Path) -> dict[Study, dict[int, dict[str, Any]]]:
    """Return finished toys by study and index; the last line may have been cut short."""
    rows: dict[Study, dict[int, dict[str, Any]]] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        if line.endswith("}"):
            row = json.loads(line)
            rows.setdefault(Study(**row["study"]), {})[row["index"]] = row
    return rows


def run(study: Study, indices: range, out: Path) -> None:
    """Run what is missing of these toys."""
    missing = sorted(set(indices) - set(read_rows(out).get(study, {})))
    with out.open("a") as stream:
        for count, index in enumerate(missing, start=1):
            print(json.dumps({"study": asdict(study)} | run_toy(study, index)), file=stream, flush=True)
            if count % 100 == 0:
                print(f"{study}: {count} of {len(missing)}", file=sys.stderr, flush=True)


def agreement(p: Float64) -> str:
    """Return KS against uniform, and the toys beyond 1, 2, 3 sigma beside those expected."""
    told = [f"KS p {stats.kstest(p, 'uniform').pvalue:.3g}"]
    for z in (1, 2, 3):
        tail = float(stats.norm.sf(z))
        beyond = int((p < tail).sum())
        chance = stats.binomtest(beyond, len(p), tail).pvalue
        told.append(f"{z} sigma {beyond} ({tail * len(p):.1f} expected, p {chance:.2g})")
    return ", ".join(told)


def lines(study: Study, rows: list[dict[str, Any]]) -> Iterator[str]:
    law, names = law_of(study), adaptive(study.expected, study.nuisances).members.names
    seconds = np.median([row["seconds"] for row in rows])
    failed = sum(row["status"] != "converged" for row in rows)
    yield f"{study}: {len(rows)} toys, {failed} not converged, {seconds:.2f} core-s each"
    test, like = adaptive(study.expected, study.nuisances), study.toy(0)
    log_p = np.array([test.log_p(np.array(row["member_t"]), like, np.array(row["nu"])) for row in rows])
    yield f"  smallest p: {agreement(law.sf(-2.0 * log_p.min(axis=1)))}"
    member_t, nulls = np.array([row["member_t"] for row in rows]), [tail.law for tail in law.tails]
    for j, name in enumerate(names):
        t, null = member_t[:, j], nulls[j]
        moved = (t.mean() - null.mean) / null.std
        yield (
            f"  {name}: mean {t.mean():.2f} (law {null.mean:.2f}: {moved:+.3f} +- {len(t) ** -0.5:.3f} sd), "
            f"sd {t.std(ddof=1):.2f} ({null.std:.2f}); {agreement(np.exp(log_p[:, j]))}"
        )
    controls = [row["control"] for row in rows if "control" in row]
    if controls:
        yield f"  control, to fail: {agreement(law_of(study, control=True).sf(controls))}"


@click.command()
@click.option("--out", type=click.Path(path_type=Path), required=True, help="File of toys, one JSON a line.")
@click.option("--toys", default=400, show_default=True)
@click.option("--first", default=0, show_default=True, help="Index of the first toy.")
@click.option("--nuisances", default=1, show_default=True)
@click.option("--expected", default=10_000.0, show_default=True)
@click.option("--nu", default="0", show_default=True, help="True nuisances in sigma, or 'prior'.")
@click.option("--summary", is_flag=True, help="Compare all toys of the file with their laws.")
def main(out: Path, toys: int, first: int, nuisances: int, expected: float, nu: str, summary: bool) -> None:
    """Run null toys of the adaptive test, or summarise them."""
    if summary:
        for study, rows in read_rows(out).items():
            for line in lines(study, [rows[index] for index in sorted(rows)]):
                print(line, flush=True)
        return
    study = Study(nuisances, expected, nu if nu == "prior" else f"{float(nu):g}")
    run(study, range(first, first + toys), out)


if __name__ == "__main__":
    main()
