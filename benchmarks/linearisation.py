"""Where does linearisation matter? Reach of linear and quadratic responses, by alpha, for three systematics.

    python benchmarks/linearisation.py FOLDER                     # train and check; stop it and go on
    python benchmarks/linearisation.py FOLDER --summary [--figure docs/figures/linearisation.png]
    python benchmarks/linearisation.py FOLDER --summary --every   # each space with its intervals
    python benchmarks/linearisation.py FOLDER --toys 1200         # toys at nu = 0, +2 and -2
    python benchmarks/linearisation.py FOLDER --toys 1200 --test convex
    python benchmarks/linearisation.py FOLDER --toys 1200 --summary

Every systematic has a study file FOLDER/NAME.yaml and a run directory FOLDER/NAME; all share the simulated
events FOLDER/background.h5. The encoder is the transformer of the laptop preset. The work is done by
`covad run FOLDER/NAME.yaml --out FOLDER/NAME --until checks`, which may be given by hand as well. Reaches are
those of the widest scale of the adaptive test. Toys are those of the convex and of the adaptive test, or of
one of them, in the configurations of `DECIDING`, or in those that are named.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import matplotlib as mpl
import numpy as np
import yaml
from matplotlib.figure import Figure

from covad.inference.frontier import Frontier, FrontierSetting, Repeated
from covad.inference.reach import Reach
from covad.report.figures.canvas import COLD, MARKERS
from covad.report.figures.frontier import Where, draw_frontier
from covad.report.names import number
from covad.results import Summary, collect, summarise
from covad.results.spaces import SpaceSummary
from covad.study import Configuration
from covad.study.plan import space_label

#: What is uncertain, by the name of its study.
SYSTEMATICS: dict[str, dict[str, Any]] = {
    "soft_15": {"name": "met_soft_scale", "sigma": 0.15},
    "soft_30": {"name": "met_soft_scale", "sigma": 0.30},
    "jets_met": {"name": "jet_energy_scale", "sigma": 0.025, "propagate_to_met": True},
}
TITLES = {
    "soft_15": "soft term, 15 %",
    "soft_30": "soft term, 30 %",
    "jets_met": "jet scale with missing momentum, 2.5 %",
}
ALPHAS, ORDERS = (0, 3, 30), (1, 2)
TESTS = ("convex", "adaptive")
#: Background events per role, before the cuts.
SPLITS = {
    "encoder": 200_000,
    "response": 250_000,
    "check": 200_000,
    "basis": 20_000,
    "reference": 440_000,
    "data": 440_000,
}
#: Configurations, of the first seed, that toys decide on: does the contrastive space close, does a quadratic
#: response help, does L_cov? (alpha, order)
DECIDING = ((0, 1), (0, 2), (30, 1))
#: As many as a verdict on closure takes.
TOYS = 1200
#: Where reaches are told: averaged over the prior, and at so many sigma.
PLACES = (Where(1.0), Where(2.0), Where())


def space_of(alpha: float, seed: int) -> str:
    return f"a{alpha:g}_s{seed}"


def configuration(alpha: float, seed: int, order: int) -> dict[str, Any]:
    return {"space": space_of(alpha, seed), "treatment": "profiled", "order": order}


def study_of(
    name: str, configurations: Sequence[dict[str, Any]], seeds: int, toys: int = TOYS
) -> dict[str, Any]:
    """Return the study of one systematic, as its file says it."""
    spaces = {space_of(a, s): {"alpha": a, "seed": s} for a in ALPHAS for s in range(seeds)}
    return {
        "seed": 1,
        "source": {
            "kind": "events",
            "background": {"files": ["background.h5"]},
            "systematics": [SYSTEMATICS[name]],
            "splits": SPLITS,
            "spaces": spaces,
            "encoder": {
                "width": 32,
                "layers": 2,
                "heads": 4,
                "feed_forward": 64,
                "outputs": 4,
                "projector": 64,
            },
            "training": {"steps": 1000, "batch": 512, "validate_every": 250},
            "response": {"hidden": [64, 64], "epochs": 5},
        },
        "sizes": {"expected": 10_000, "reference": 52_000},
        "normalisation": 0.1,
        "tests": {test: {} for test in TESTS},
        "result": "adaptive",
        "configurations": list(configurations),
        "nu": [0, 2, -2],
        "nu_norm": [],
        "prior": False,
        "toys": toys,
    }


def everything(seeds: int) -> list[dict[str, Any]]:
    """Return all configurations; every alpha and order with one seed before any with the next."""
    return [configuration(a, s, order) for s in range(seeds) for a in ALPHAS for order in ORDERS]


def covad(*arguments: str) -> None:
    """Give a command."""
    subprocess.run([sys.executable, "-m", "covad", *arguments], check=True)


def simulate(folder: Path) -> None:
    """Write the events that all studies share, once."""
    path, events = folder / "background.h5", str(sum(SPLITS.values()))
    if not path.exists():
        covad("simulate", "--process", "background", "--events", events, "--seed", "7", "--out", str(path))


def run(folder: Path, name: str, study: dict[str, Any], until: str, workers: int) -> None:
    """Write the study file, and do what is missing."""
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(study, sort_keys=False), encoding="utf-8")
    out = str(folder / name)
    covad("run", str(path), "--out", out, "--until", until, "--workers", str(workers))


def run_toys(
    folder: Path,
    name: str,
    seeds: int,
    toys: int,
    slugs: Sequence[str],
    tests: Sequence[str],
    workers: int,
) -> None:
    """Draw toys in some configurations of a run that has its checks; then name all of them again.

    A study with these configurations alone embeds no events for the others.
    """
    chosen = [each | {"tests": list(tests)} for each in everything(seeds) if slug_of(each) in slugs]
    run(folder, name, study_of(name, chosen, seeds, toys), "toys", workers)
    run(folder, name, study_of(name, everything(seeds), seeds, toys), "checks", workers)


def slug_of(given: dict[str, Any]) -> str:
    return Configuration(**given).slug


def summaries(folder: Path, names: Sequence[str]) -> dict[str, Summary]:
    """Return what the runs have found as yet."""
    return {name: summarise(collect(folder / name)) for name in names if (folder / name).exists()}


def table(found: dict[str, Summary]) -> list[str]:
    """Return one line per systematic, alpha and response, with mean and spread over seeds, as Markdown."""
    heads = ["systematic", "alpha", "response", "seeds", "effect, 1 sigma", "departure, 1 sigma"]
    heads += ["departure, 2 sigma", *(f"reach {where.text}" for where in PLACES)]
    lines = [_line(heads), f"| --- | ---: | --- |{' ---: |' * (len(heads) - 3)}"]
    for name, summary in found.items():
        for setting in _by_alpha(summary.frontier):
            mine = [s for s in summary.spaces if space_label((s.space, s.order)) in setting.spaces]
            told = [TITLES[name], f"{setting.alpha:g}", mine[0].response, str(len(mine))]
            told.append(_mean([_departure(space, 1.0)[0] for space in mine], 3))
            told += [_mean([_departure(space, size)[1] for space in mine], 2) for size in (1.0, 2.0)]
            told += [_reaches(where.of_setting(setting)) for where in PLACES]
            lines.append(_line(told))
    return lines


def table_of_every(found: dict[str, Summary]) -> list[str]:
    """Return one line per space and response, with 68 % intervals."""
    heads = ["systematic", "alpha", "seed", "response", *(f"reach {where.text}" for where in PLACES)]
    lines = [_line(heads), f"| --- | ---: | ---: | --- |{' ---: |' * len(PLACES)}"]
    for name, summary in found.items():
        for point in [] if summary.frontier is None else summary.frontier.points:
            told = [TITLES[name], f"{point.alpha:g}", str(point.seed), point.space.split(", ")[1]]
            lines.append(_line([*told, *(_reach(where.of_point(point)) for where in PLACES)]))
    return lines


def table_of_toys(found: dict[str, Summary]) -> list[str]:
    """Return one line per ensemble of background toys."""
    heads = ["systematic", "configuration", "test", "toys of", "toys", "shift of the median", "Z > 2, %"]
    lines = [_line(heads), "| --- | --- | --- | --- | ---: | ---: | ---: |"]
    for name, summary in found.items():
        for each in summary.closure:
            ends, alarms = each.median_shift.interval, each.false_positives_at(2.0)
            low, high = ("open" if end is None else f"{end:.2f}" for end in (ends.low, ends.high))
            shift = f"{each.median_shift.shift:.2f} [{low}, {high}]"
            rate = "" if alarms is None or alarms.rate is None else f"{100 * alarms.rate:.1f}"
            told = [TITLES[name], each.configuration, each.test, each.point, str(each.n_toys), shift, rate]
            lines.append(_line(told))
    return lines


def draw(found: dict[str, Summary]) -> Figure:
    """Draw reach against alpha, at 2 sigma above and averaged over the prior below, a column each."""
    shown = {name: s.frontier for name, s in found.items() if s.frontier is not None and s.frontier.points}
    with mpl.rc_context({"font.size": 8, "lines.markersize": 3, "legend.frameon": False}):
        canvas = Figure(figsize=(3.0 * len(shown), 5.2), layout="constrained")
        axes = canvas.subplots(2, len(shown), sharex=True, sharey=True, squeeze=False)
        for column, (name, frontier) in enumerate(shown.items()):
            for row, where in enumerate((Where(2.0), Where())):
                draw_frontier(axes[row, column], frontier, where)
                axes[row, column].set_ylabel(f"reach {where.label} [events]" if column == 0 else "")
            axes[0, column].set_title(TITLES[name])
            axes[0, column].set_xlabel("")
        first = axes[0, 0]
        first.plot([], [], MARKERS[0], color=COLD[1], label="linear response")
        first.legend(fontsize=7)
    return canvas


def _by_alpha(frontier: Frontier | None) -> list[FrontierSetting]:
    return [] if frontier is None else sorted(frontier.settings, key=lambda s: (s.alpha, s.setting))


def _departure(space: SpaceSummary, size: float) -> tuple[float, float]:
    """Return effect and relative departure in cells; below 0 by chance where there is none."""
    (found,) = [line for line in space.linearity if (line.where, line.size) == ("cells", size)]
    return found.effect, found.departure


def _mean(values: Sequence[float], digits: int) -> str:
    """Write the mean over seeds with their standard deviation; a single one stands alone."""
    spread = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{spread}"


def _reaches(found: Repeated | None) -> str:
    """Write the geometric mean over seeds; x/: the factor by which they scatter."""
    if found is None:
        return ""
    spread = "" if found.spread is None else f" x/ {np.exp(found.spread):.2f}"
    return f"{'>= ' if found.bound else ''}{_events(found.mean)}{spread}"


def _reach(found: Reach | None) -> str:
    if found is None:
        return ""
    low, high = (None if end is None else _events(end) for end in (found.interval.low, found.interval.high))
    estimate = "beyond" if found.n_events is None else _events(found.n_events)
    return f"{estimate} [{low}, {high or 'open'}]"


def _events(n_events: float) -> str:
    """Write three digits."""
    return number(float(f"{n_events:.3g}"))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--systematic", "names", multiple=True, type=click.Choice(list(SYSTEMATICS)), help="Not all.")
@click.option("--seeds", default=3, show_default=True, help="Trainings of every alpha.")
@click.option("--toys", default=0, help="Toys at each of nu = 0, +2 and -2 in some configurations.")
@click.option(
    "--configuration", "slugs", multiple=True, help="For these toys, such as a0_s0-profiled-quadratic."
)
@click.option("--test", "tests", multiple=True, type=click.Choice(TESTS), help="Of these toys; not both.")
@click.option("--workers", default=1, show_default=True, help="Processes.")
@click.option("--summary", is_flag=True, help="Print the table of what is there.")
@click.option("--every", is_flag=True, help="With --summary: each space by itself.")
@click.option("--figure", type=click.Path(path_type=Path), help="With --summary: also draw it.")
def main(
    folder: Path,
    names: tuple[str, ...],
    seeds: int,
    toys: int,
    slugs: tuple[str, ...],
    tests: tuple[str, ...],
    workers: int,
    summary: bool,
    every: bool,
    figure: Path | None,
) -> None:
    """Measure where linearisation matters."""
    names = names or tuple(SYSTEMATICS)
    if summary:
        found = summaries(folder, names)
        if not found:
            raise click.UsageError(
                f"{folder} has no run of {', '.join(names)}: call it without --summary first"
            )
        made = table_of_toys if toys else table_of_every if every else table
        print("\n".join(made(found)))
        if figure is not None:
            draw(found).savefig(figure, dpi=150)
        return
    known = [slug_of(each) for each in everything(seeds)]
    for slug in slugs:
        if slug not in known:
            raise click.BadParameter(f"there is no configuration '{slug}' (there are {', '.join(known)})")
    slugs = slugs or tuple(slug_of(configuration(alpha, 0, order)) for alpha, order in DECIDING)
    folder.mkdir(parents=True, exist_ok=True)
    simulate(folder)
    for name in names:
        if toys:
            run_toys(folder, name, seeds, toys, slugs, tests or TESTS, workers)
        else:
            run(folder, name, study_of(name, everything(seeds), seeds), "checks", workers)


if __name__ == "__main__":
    main()
