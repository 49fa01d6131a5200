"""Studies of signed weights beside studies of unweighted events: the same results, the right type-I error.

    PYTHONPATH=tests python benchmarks/weighted_study.py FOLDER [--seeds 3] [--toys 1000] [--scale 1]

Three kinds of files stand for the simulator's background (tests/weighted_world.py): the unweighted mix; four
files with wrong shares and weights of both signs, with as many effective events; and, as a control, the same
without their signs. Every seed has events of its own.

The first table has what the studies say of encoder, response and test, unweighted beside weighted. Errors are
statistical, or from the spread over the seeds where that is larger.

The second has toys whose data come from an unweighted sample that no study has seen, and whose references
come from the pools of each study: how often p is below that of 1 and 2 sigma, and the chance of such a count.
The script ends with an error if one of the first two kinds is off, at a false-alarm rate of 1 % for each
line, or if the control is not.

Everything is kept in FOLDER, and the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from scipy.stats import binomtest
from weighted_world import effective_share, expected_yields, write_process, write_unweighted, write_weighted

import covad
from covad.embedding.embed import encode
from covad.events.files import open_events
from covad.results.run import Run
from covad.results.summary import NullSummary, Summary, select
from covad.runs.collisions import CollisionData
from covad.runs.directory import RunDirectory
from covad.runs.models import load_models, response_of
from covad.runs.scale import load_scale
from covad.study.plan import main_configuration, space
from covad.toys.pool_files import open_pools, pools_digest, write_pools
from covad.toys.pools import LatentEvents, Pool
from covad.toys.truths import nu_text

UNWEIGHTED, WEIGHTED, CONTROL = "unweighted", "weighted", "unsigned"
EXPECTED, REFERENCE = 3000.0, 15_600
#: Effective background events per role, as in the preset `quick`.
SPLITS = {
    "encoder": 100_000,
    "response": 200_000,
    "check": 80_000,
    "basis": 20_000,
    "reference": 290_000,
    "data": 290_000,
}
#: Unweighted events that no study has.
INDEPENDENT = 290_000
SIGNAL, INJECTED, SIGNAL_EVENTS = "a4l", 60.0, 20_000
#: Chance that a rate that is right is called wrong.
LEVEL = 0.01
#: Standard deviations from the middle to the ends of an interval of 68 % and of 90 %.
ONE, NINETY = 0.9945, 1.645


@dataclass(frozen=True)
class Studies:
    """The studies of one seed, in a folder of their own."""

    folder: Path
    seed: int
    scale: float
    toys: int
    workers: int | None

    def run(self, kind: str) -> Path:
        """Do the study of a kind, of the control no more than its pools; return the run directory."""
        share = 1.0 if kind == UNWEIGHTED else effective_share()
        splits = {role: round(self.scale * number / share) for role, number in SPLITS.items()}
        background, signal = self._events(kind, sum(splits.values()) + 10)  # shares are rounded
        study = {
            "source": {
                "kind": "events",
                "background": background,
                "signals": {SIGNAL: {"files": [str(signal)]}},
                "splits": splits,
                "spaces": {"covariant": {"alpha": 30}},
                "training": {"steps": 400, "warm_up": 50, "validate_every": 100},
                "response": {"epochs": 6},
            },
            "sizes": {"reference": REFERENCE} | ({"expected": EXPECTED} if kind == UNWEIGHTED else {}),
            "configurations": [{"background_toys": self.toys}],
            "nu": [0, 1, -1],
            "signals": {SIGNAL: [INJECTED]},
            "toys": 300,
        }
        return self._run(kind, study, until="pools" if kind == CONTROL else "toys").path

    def crossed(self, kind: str) -> Summary:
        """Test data of the independent sample against references of a study."""
        sample, pools = self.folder / "independent.h5", self.folder / f"{kind}_crossed_pools"
        if not sample.exists():
            write_unweighted(sample, round(self.scale * INDEPENDENT), self._events_seed(0))
        write_crossed(self.run(kind), sample, pools)
        study = {
            "source": {"kind": "pools", "path": str(pools), "space": "covariant"},
            "sizes": {"expected": EXPECTED, "reference": REFERENCE},
            "toys": self.toys,
        }
        return self._run(f"{kind}_crossed", study).summary

    def _events(self, kind: str, n_events: int) -> tuple[dict[str, Any], Path]:
        """Write the events of a study; return the entry of its background, and the file of its signal."""
        made, part = self.folder / f"{kind}_events", self.folder / f"{kind}_events.part"
        signal, yields = f"{SIGNAL}.h5", expected_yields(EXPECTED)
        if not made.exists() and kind == UNWEIGHTED:
            write_unweighted(part / "mix.h5", n_events, self._events_seed(1))
            write_unweighted(part / signal, SIGNAL_EVENTS, self._events_seed(1), SIGNAL)
            part.rename(made)
        elif not made.exists():
            signs = kind == WEIGHTED
            write_weighted(part, n_events, self._events_seed(2), signs=signs)
            write_process(part / signal, SIGNAL, 2 * SIGNAL_EVENTS, self._events_seed(2), signs=signs)
            part.rename(made)
        if kind == UNWEIGHTED:
            return {"files": [str(made / "mix.h5")]}, made / signal
        processes = {process: {"yield": number} for process, number in yields.items()}
        return {"files": [str(made / f"{name}.h5") for name in yields], "processes": processes}, made / signal

    def _events_seed(self, number: int) -> int:
        return 1000 * self.seed + number

    def _run(self, name: str, content: Mapping[str, Any], until: str = "toys") -> Run:
        """Do what is missing of a study with the convex test."""
        common = {"seed": self.seed, "tests": {"convex": {"bumps": 100}}, "nu_norm": [], "prior": False}
        study = self.folder / f"{name}.yaml"
        study.write_text(yaml.safe_dump(common | dict(content), sort_keys=False))
        print(f"{study}: until {until}", file=sys.stderr, flush=True)
        return covad.run(study, self.folder / name, until=until, workers=self.workers)


def write_crossed(run: Path, sample: Path, folder: Path) -> None:
    """Write the pools of a run with other data: those of an unweighted sample, at nu = 0."""
    if folder.exists():
        return
    directory = RunDirectory(run)
    data = CollisionData.of_run(directory.study(), directory)
    where = space(main_configuration(data.study))
    product = data.products.pools(where)
    pools, scale = open_pools(product.verified(), pools_digest(product.path)), load_scale(product)
    encoder, response = load_models(data, where)
    with open_events(sample) as source:
        selected = [data.selection.apply(events)[0].particles for events in source.chunks()]
    z = np.concatenate([encode(encoder, particles) for particles in selected])
    fresh = Pool(LatentEvents(scale(z), response_of(response, z)))
    part = folder.with_suffix(".part")
    write_pools(part, replace(pools, data={(0.0,): fresh}, signals={}, prior={}))
    part.rename(folder)


@dataclass(frozen=True)
class Measured:
    """A result with its statistical error; NaN where there is none."""

    name: str
    value: float
    error: float


def results(summary: Summary) -> Iterator[Measured]:
    """Yield what a study says, but its verdict."""
    (found,) = summary.spaces
    yield Measured("probe, accuracy", found.probe.accuracy, found.probe.accuracy_uncertainty)
    yield Measured("probe, balanced accuracy", found.probe.balanced_accuracy, float("nan"))
    reach = found.reach.average
    ends = [reach.interval.low, reach.n_events, reach.interval.high]
    low, value, high = (np.nan if end is None else float(np.log10(max(end, 1.0))) for end in ends)
    yield Measured("reach, log10 of events", value, (high - low) / (2 * ONE))
    (null,) = summary.nulls
    yield Measured("law of t, mean", null.law.mean, float("nan"))
    yield Measured("law of t, spread", null.law.std, float("nan"))
    yield from moments(null)
    for line in summary.closure:
        shift = line.median_shift
        error = ((shift.interval.high or np.nan) - (shift.interval.low or np.nan)) / (2 * NINETY)
        yield Measured(f"closure {line.point}, shift of the median", shift.shift, error)
        for rate in line.false_positives[:2]:
            error = float(np.sqrt(rate.alpha * (1 - rate.alpha) / rate.n_toys))
            yield Measured(
                f"closure {line.point}, rate at {rate.z_alpha:g} sigma", rate.exceeding / rate.n_toys, error
            )
    for line in select(summary.significance, null="analytic"):
        ends = (line.interval.high, line.interval.low)
        error = (np.nan if None in ends else ends[0] - ends[1]) / (2 * ONE)
        yield Measured(
            f"median Z, {line.injected:g} of {line.signal}, {nu_text(line.nu, summary.shape_names)}",
            line.z,
            error,
        )


def moments(null: NullSummary) -> Iterator[Measured]:
    """Yield mean and spread of the toys of R_0; that of a spread is taken as Gaussian."""
    error = null.std / np.sqrt(null.n_toys)
    yield Measured("toys of R_0, mean of t", null.mean, float(error))
    yield Measured("toys of R_0, spread of t", null.std, float(error / np.sqrt(2)))


def combined(measured: Sequence[Measured]) -> Measured:
    """Return the mean over seeds."""
    values, errors = (np.array([getattr(one, key) for one in measured]) for key in ("value", "error"))
    n = len(values)
    statistical = float(np.sqrt(np.sum(errors**2)) / n)
    spread = float(values.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")
    return Measured(measured[0].name, float(values.mean()), float(np.fmax(statistical, spread)))


def comparison(unweighted: Sequence[Summary], weighted: Sequence[Summary]) -> Iterator[str]:
    """Yield the first table."""
    yield "| | unweighted | weighted | difference, in errors |"
    yield "| --- | ---: | ---: | ---: |"
    sides = [[list(results(summary)) for summary in summaries] for summaries in (unweighted, weighted)]
    for rows in zip(*(zip(*side, strict=True) for side in sides), strict=True):
        first, second = (combined(row) for row in rows)
        pull = (second.value - first.value) / float(np.hypot(first.error, second.error))
        cells = [f"{one.value:.4g} +- {one.error:.2g}" for one in (first, second)]
        yield f"| {first.name} | {' | '.join(cells)} | {pull:+.1f} |"
    for what in ("closure", "KS of the toys of R_0 against the law, p"):
        cells = []
        for summaries in (unweighted, weighted):
            if what == "closure":
                cells.append("; ".join(str(summary.closure[0].verdict) for summary in summaries))
            else:
                found = [select(summary.nulls[0].law.goodness, method="KS")[0] for summary in summaries]
                cells.append("; ".join(f"{one.p:.2g}" for one in found))
        yield f"| {what} | {' | '.join(cells)} | |"


def rates(kind: str, summaries: Sequence[Summary]) -> Iterator[tuple[str, bool]]:
    """Yield the lines of one kind of reference, and whether each is right."""
    nulls = [summary.nulls[0] for summary in summaries]
    mean, spread = (combined(row) for row in zip(*(moments(null) for null in nulls), strict=True))
    law = [float(np.mean([getattr(null.law, key) for null in nulls])) for key in ("mean", "std")]
    for place in (0, 1):  # 1 and 2 sigma
        lines = [null.law.false_positives[place] for null in nulls]
        found, toys = (sum(getattr(line, key) for line in lines) for key in ("exceeding", "n_toys"))
        z_alpha, alpha = lines[0].z_alpha, lines[0].alpha
        p = float(binomtest(found, toys, alpha).pvalue)
        cells = [kind, f"{z_alpha:g} sigma", f"{found} of {toys}", f"{found / toys:.4f}", f"{alpha:.4f}"]
        cells += [f"{p:.2g}", f"{mean.value:.2f} +- {mean.error:.2f}", f"{law[0]:.2f}"]
        cells += [f"{spread.value:.2f} +- {spread.error:.2f}", f"{law[1]:.2f}"]
        yield f"| {' | '.join(cells)} |", p > LEVEL


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--toys", type=int, default=1000, help="of background, per ensemble")
    parser.add_argument("--scale", type=float, default=1.0, help="of all splits")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--kinds", nargs="+", default=[UNWEIGHTED, WEIGHTED, CONTROL])
    given = parser.parse_args()
    folders = {seed: given.folder.absolute() / f"seed_{seed}" for seed in range(1, given.seeds + 1)}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    studies = [
        Studies(folder, seed, given.scale, given.toys, given.workers) for seed, folder in folders.items()
    ]
    compared = {
        kind: [covad.open_run(study.run(kind)).summary for study in studies]
        for kind in given.kinds
        if kind != CONTROL
    }
    if len(compared) == 2:
        print(*comparison(compared[UNWEIGHTED], compared[WEIGHTED]), "", sep="\n", flush=True)
    print("| reference | p below that of | toys | rate | nominal | chance | mean of t | law | spread | law |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    wrong = []
    for kind in given.kinds:
        lines = list(rates(kind, [study.crossed(kind) for study in studies]))
        print(*(line for line, _ in lines), sep="\n", flush=True)
        if all(right for _, right in lines) == (kind == CONTROL):
            wrong.append(kind)
    if wrong:
        sys.exit(f"not as it should be: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
