"""Spaces beside each other: median Z of 1 % of each signal, profiled, by one test, with three trainings each.

    python benchmarks/space_table.py FOLDER              # train, check, draw toys; stop it and go on
    python benchmarks/space_table.py FOLDER --summary    # the table, of what is there
    python benchmarks/space_table.py FOLDER --space NAME # some of the spaces, say to begin with them

The study is FOLDER/study.yaml, its run directory FOLDER/run: the adaptive test, linear responses, nu = 0. The
work is done by `covad run`. Spaces were chosen before, without these signals (`benchmarks/spaces.py`): the
table is for the record.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import yaml

from covad.inference.frontier import shown_reach
from covad.inference.reach import Reach
from covad.results import Summary, collect, select, summarise
from covad.results.summary import SignalSignificance
from covad.study import Configuration

#: An MLP that sees every event in a frame of its own.
MLP = {"encoder": {"kind": "mlp", "frame": "event"}}
KEPT = {"alpha": 0, "beta": 1, "keep": "observables"}
UNUSUAL = {"alpha": 0, "contrast": 0, "beta": 2, "keep": ["observables", "changes"]}
PLAIN = ["log_met", "ht", "st", "mt", "m_leptons", "n_jets", "n_leptons"]


@dataclass(frozen=True)
class Row:
    """A line of the table: a space, trained with several seeds if it is learned, or other lines joined.

    A title without a frame means that of the event.
    """

    title: str
    space: dict[str, Any]
    learned: bool = True
    joins: tuple[str, ...] = ()

    def spaces(self, name: str, seeds: int) -> dict[str, dict[str, Any]]:
        """Return its entries in the study."""
        if not self.learned:
            return {name: self.space}
        if self.joins:
            parts = [list(ROWS[part].spaces(part, seeds)) for part in self.joins]
            return {
                f"{name}_s{seed}": self.space | {"of": [part[seed % len(part)] for part in parts]}
                for seed in range(seeds)
            }
        return {f"{name}_s{seed}": self.space | {"seed": seed} for seed in range(seeds)}


def _mlp(outputs: int, **objective: Any) -> dict[str, Any]:
    return objective | {"encoder": {"kind": "mlp", "frame": "event", "outputs": outputs}}


ROWS = {
    "contrastive": Row("the paper's: contrastive, transformer, frame of the detector", {"alpha": 0}),
    "alpha_1": Row("the paper's, alpha = 1", {"alpha": 1}),
    "alpha_30": Row("the paper's, alpha = 30", {"alpha": 30}),
    "turned": Row("contrastive, transformer", {"alpha": 0, "encoder": {"frame": "event"}}),
    "mlp": Row("contrastive, MLP", {"alpha": 0} | MLP),
    "kept": Row("keeps observables, MLP", KEPT | MLP),
    "kept_6": Row("keeps observables, MLP, 6 dimensions", _mlp(6, **KEPT)),
    "kept_8": Row("keeps observables, MLP, 8 dimensions", _mlp(8, **KEPT)),
    "no_labels": Row("keeps observables, no labels, MLP", KEPT | {"contrast": 0} | MLP),
    "kept_turned": Row(
        "keeps observables (beta = 10), transformer",
        KEPT | {"beta": 10, "encoder": {"frame": "event"}},
    ),
    "chosen": Row(
        "keeps observables and changes, no labels, transformer (chosen)",
        UNUSUAL | {"encoder": {"frame": "event"}},
    ),
    "plain": Row("seven observables", {"kind": "observables", "observables": PLAIN}, learned=False),
    "both": Row("chosen and seven observables, joined", {"kind": "joined"}, joins=("chosen", "plain")),
}
SIGNALS = {"lq": "LQ", "a4l": "A → 4ℓ", "h0": "h⁰", "hpm": "h±"}
EXPECTED, INJECTED = 10_000, 100
#: Background events per role, before the cuts.
SPLITS = {
    "encoder": 400_000,
    "response": 400_000,
    "check": 200_000,
    "basis": 20_000,
    "reference": 440_000,
    "data": 440_000,
}


def study_of(names: Sequence[str], seeds: int, toys: int) -> dict[str, Any]:
    """Return the study, as its file says it."""
    needed = dict.fromkeys(each for name in names for each in (*ROWS[name].joins, name))
    spaces = {key: entry for name in needed for key, entry in ROWS[name].spaces(name, seeds).items()}
    tested = [key for name in names for key in ROWS[name].spaces(name, seeds)]
    return {
        "seed": 1,
        "source": {
            "kind": "events",
            "background": {"simulate": 2_000_000},
            "signals": {name: {"simulate": 30_000} for name in SIGNALS},
            "systematics": [{"name": "jet_energy_scale", "sigma": 0.025}],
            "splits": SPLITS,
            "spaces": spaces,
            "training": {"steps": 1000, "batch": 512, "validate_every": 250},
            "response": {"hidden": [64, 64], "epochs": 6, "batch": 8192, "learning_rate": 5e-3},
        },
        "sizes": {"expected": EXPECTED, "reference": 52_000},
        "normalisation": 0.1,
        "tests": {"adaptive": {}},
        "configurations": [{"space": key, "treatment": "profiled"} for key in tested],
        "nu": [0],
        "nu_norm": [],
        "prior": False,
        "signals": {name: [INJECTED] for name in SIGNALS},
        "toys": toys,
    }


def table(summary: Summary, seeds: int) -> list[str]:
    """Return a line per space with toys of all its trainings: Z with error, spread over trainings, reach."""
    heads = ["space", "trainings", *(f"{title}, 1 %" for title in SIGNALS.values()), "reach over the prior"]
    lines = [_line(heads), f"| --- |{' ---: |' * (len(heads) - 1)}"]
    known = {c.configuration for c in summary.configurations}
    for name, row in ROWS.items():
        keys = list(row.spaces(name, seeds))
        slugs = [Configuration(space=key, treatment="profiled").slug for key in keys]
        found = [[_z(summary, slug, signal) for slug in slugs if slug in known] for signal in SIGNALS]
        if any(len(each) < len(keys) or None in each for each in found):
            continue
        reaches = [select(summary.spaces, space=key)[0].reach.average for key in keys]
        told = [_with_spread([line for line in each if line is not None]) for each in found]
        lines.append(_line([row.title, str(len(keys)), *told, _geometric(reaches)]))
    return lines


def _z(summary: Summary, slug: str, signal: str) -> SignalSignificance | None:
    """Return the median Z by the law of the test; None without toys."""
    lines = select(summary.significance, configuration=slug, signal=signal, null="analytic")
    return lines[0] if lines else None


def _with_spread(found: Sequence[SignalSignificance]) -> str:
    """Write the mean over trainings with its error from toys, and the standard deviation of trainings.

    A mean with a Z that the law cannot tell is a bound.
    """
    z = np.array([line.z for line in found])
    if any(line.saturated for line in found):
        return f"≥ {z.mean():.1f}"
    halves = [_half(line) for line in found]
    error = "open" if None in halves else f"{np.sqrt(np.sum(np.square(halves))) / len(z):.2f}"
    spread = f" (trainings ± {z.std(ddof=1):.2f})" if len(z) > 1 else ""
    return f"{z.mean():.2f} ± {error}{spread}"


def _half(line: SignalSignificance) -> float | None:
    """Return half the 68 % interval of the median; None where an end is open."""
    ends = line.interval
    return None if ends.low is None or ends.high is None else (ends.high - ends.low) / 2


def _geometric(reaches: Sequence[Reach]) -> str:
    """Write the geometric mean of reaches; one that has no upper end enters with its lower one."""
    values, bounds = zip(*map(shown_reach, reaches), strict=True)
    logs = np.log(values)
    spread = f" ×/ {np.exp(logs.std(ddof=1)):.2f}" if len(logs) > 1 else ""
    told = f"{float(f'{np.exp(logs.mean()):.2g}'):,.0f}".replace(",", " ")
    return f"{'≥ ' if any(bounds) else ''}{told}{spread}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--space", "names", multiple=True, type=click.Choice(list(ROWS)), help="Not all.")
@click.option("--seeds", default=3, show_default=True, help="Trainings of every learned space.")
@click.option("--toys", default=24, show_default=True, help="Toys of every signal.")
@click.option("--workers", default=1, show_default=True, help="Processes.")
@click.option("--summary", is_flag=True, help="Print the table of what is there.")
def main(folder: Path, names: tuple[str, ...], seeds: int, toys: int, workers: int, summary: bool) -> None:
    """Measure what 1 % of each signal looks like in every space."""
    run = folder / "run"
    if summary:
        if not run.exists():
            raise click.UsageError(f"{folder} has no run: call it without --summary first")
        print("\n".join(table(summarise(collect(run)), seeds)))
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(study_of(names or tuple(ROWS), seeds, toys), sort_keys=False), "utf-8")
    arguments = ["run", str(path), "--out", str(run), "--workers", str(workers)]
    subprocess.run([sys.executable, "-m", "covad", *arguments], check=True)


if __name__ == "__main__":
    main()
