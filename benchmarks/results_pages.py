"""Every table and figure of docs/results, from a finished run: `make results RUN=...`.

    python benchmarks/results_pages.py RUN [--docs docs]
    python benchmarks/results_pages.py RUN --page joined.md

docs/results/tables.md is written as a whole. In docs/results/index.md the text between
`<!-- results: NAME -->` and `<!-- end -->` is replaced, all other text is left alone. Figures go to
docs/figures. With `--page` the blocks of that page of docs/results are filled, and nothing else is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
import matplotlib as mpl
import matplotlib.pyplot as plt
import study_tables as tables

import covad.plot
from covad.errors import CovadError
from covad.report.evidence import valid_yardsticks
from covad.report.names import ordered
from covad.results import Summary
from covad.results.overview import quoted_test
from covad.results.run import Run, open_run
from covad.results.summary import ConfigurationSummary
from covad.runs.directory import RunDirectory
from covad.runs.status import run_status
from covad.storage.atomic import replacing
from covad.toys.ensembles import Treatment

_BLOCK = re.compile(r"(<!-- results: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_DOTS_PER_INCH, _PANEL = 100, (4.6, 3.2)


_HEAD = """\
# Tables of the laptop preset

What they say in two screens: [results](index.md). This page is made by a command, which writes it anew:

```
covad init --preset laptop study.yaml
covad run study.yaml --out RUN
covad report RUN
make results RUN=RUN
```"""
_NULL = "Background toys at ν = 0, and the law that t should follow."
_CLOSURE = (
    "Background toys against the null, with 90 % intervals: shift of the median of t in standard deviations, "
    "and rate at 2σ over the nominal one ([what closes](../explanation/calibration.md#closure))."
)
_REACH = (
    "Events up to which the response is good enough, with 68 % intervals "
    "([how](../explanation/response.md#the-closure-reach))."
)
_SENSITIVITY = "Median Z of toys with a signal, at ν = 0."
_POWER = "Share of toys with a signal beyond 2σ of the background toys, at ν = 0."
_SEEDS = "The same space, trained anew: the spread is an uncertainty of its own."
_YARDSTICKS = (
    "Power at 2σ and median Z at ν = 0, by null toys of each, on the same toys; false alarms of background "
    "at shifted ν, where 0.023 are right "
    "([what they are](../how-to/choose-without-signals.md#how-much-is-there-to-be-gained)). "
    "Supervised ones know the signal and all nuisances: their Z is the ceiling."
)
_PAPER = "The paper's numbers stand in brackets. Samples, detector and encoders differ from the paper's."


class Refused(click.ClickException):
    """A run that cannot be shown."""

    exit_code = 2


def finished(path: Path) -> Run:
    """Return a run; raise Refused, with one sentence, if it is none or has work left."""
    try:
        for stage in run_status(path).stages:
            if stage.stage != "report" and not stage.finished:
                raise Refused(
                    f"{path}: the run is not finished, its stage '{stage.stage}' has {stage.done} of "
                    f"{stage.parts} parts: `covad run` goes on"
                )
        return open_run(path)
    except CovadError as failure:
        raise Refused(str(failure)) from failure


def blocks(summary: Summary) -> dict[str, Callable[[], str]]:
    """Return what index.md can ask for, by name."""
    main = [case for case in tables.shown_first(summary) if case[0] == summary.main]
    return {
        "run": partial(tables.toys, summary),
        "closure": partial(tables.closure, summary),
        "reach": partial(tables.reach, summary),
        "sensitivity": lambda: tables.sensitivity(summary, tables.shown_first(summary)),
        "seeds": partial(tables.seeds, summary),
        "nu": partial(tables.over_nu, summary, main),
        "cost": partial(tables.cost, summary),
    }


def fill(text: str, known: dict[str, Callable[[], str]], where: str) -> str:
    """Replace every block of a page; raise Refused for one that nobody can make."""
    named = [match[1] for match in _BLOCK.findall(text)]
    if len(named) != text.count("<!-- results:"):
        raise Refused(f"{where}: a block of results has no end: write <!-- end --> after it")
    for name in named:
        if name not in known:
            raise Refused(f"{where}: there is no block '{name}' of results (there are {', '.join(known)})")
    return _BLOCK.sub(lambda match: f"{match[1]}\n{known[match[2]]()}\n\n{match[3]}", text)


def tables_page(summary: Summary, pictures: dict[str, str], yardsticks: str) -> str:
    """Return tables.md."""
    named = {name: f"![{told}](../figures/{name}.png)\n\n*{told}.*" for name, told in pictures.items()}
    closure = [picture for name, picture in named.items() if name.startswith("closure_")]
    papers = list(tables.beside_the_paper(summary))
    sections = {
        "The null": [_NULL, tables.nulls(summary)],
        "Closure": [_CLOSURE, tables.closure_points(summary), *closure],
        "Closure reach": [_REACH, tables.reach(summary), named.get("frontier", "")],
        "Sensitivity": [_SENSITIVITY, tables.sensitivity(summary, tables.cases(summary))],
        "Power": [_POWER, tables.power(summary), named.get("power", "")],
        "Spread over training seeds": [_SEEDS, tables.seeds(summary)],
        "Sensitivity over ν": [tables.over_nu(summary, tables.cases(summary))],
        "How far the calibrations agree": [tables.calibrations(summary)],
        "Yardsticks": [yardsticks and _YARDSTICKS, yardsticks],
        "Beside the paper": [papers and _PAPER, *papers],
        "Cost": [tables.cost(summary)],
    }
    page = [_HEAD, tables.toys(summary)]
    for title, parts in sections.items():
        if any(parts):
            page += [f"## {title}", *(part for part in parts if part)]
    return "\n\n".join(page) + "\n"


def draw(run: Run, folder: Path) -> dict[str, str]:
    """Draw all figures, and return what each shows, by the name of its file."""
    summary, (quoted, _) = run.summary, quoted_test(run.summary)
    made: dict[str, str] = {}

    def keep(name: str, panels: list[Callable[..., object]], told: str, columns: int = 2) -> None:
        if not panels:
            return
        columns = min(columns, len(panels))
        rows = -(-len(panels) // columns)
        size = (_PANEL[0] * columns, _PANEL[1] * rows)
        figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
        for panel, ax in zip(panels, axes.flat, strict=False):
            panel(ax=ax)
        for ax in axes.flat[len(panels) :]:
            ax.set_axis_off()
        figure.savefig(folder / f"{name}.png", dpi=_DOTS_PER_INCH)
        plt.close(figure)
        made[name] = told

    pair = _both_treatments(summary)
    papers = all("network" in summary.tests_of(c.configuration) for c in pair)
    shown = "network" if papers else quoted
    panels = [partial(covad.plot.closure, run, c.configuration, test=shown) for c in pair]
    told = f"t of the {shown} test, background alone, without nuisances in the test and with them profiled"
    keep("treatments", panels, told)
    for test in summary.tests:
        mine = [c.configuration for c, which in tables.cases(summary) if which == test]
        panels = [partial(covad.plot.closure, run, name, test=test) for name in mine]
        keep(f"closure_{test}", panels, f"t of the {test} test, background alone, at every ν")
    most: dict[str, float] = {}
    for signal, injected in ordered(summary.injections(summary.main_configuration)):
        most[signal] = max(injected, most.get(signal, 0.0))
    panels = [partial(covad.plot.power, run, signal=s, injected=n, test=quoted) for s, n in most.items()]
    keep(
        "power",
        panels,
        f"Power of the {quoted} test, {summary.main.label}, at every ν; the axis names the null",
    )
    if summary.frontier is not None and summary.frontier.points:
        keep("frontier", [partial(covad.plot.frontier, run)], "Closure reach against alpha or power")
    return made


def _both_treatments(summary: Summary) -> list[ConfigurationSummary]:
    """Return a configuration without nuisances and the same one profiled: covariant, if there is one."""
    found = [
        [without, other]
        for without in summary.configurations
        for other in summary.configurations
        if (without.treatment, other.treatment) == (Treatment.NONE, Treatment.PROFILED)
        and (without.space, without.order, without.expected) == (other.space, other.order, other.expected)
    ]
    return min(found, key=lambda pair: pair[0].kind != "covariant", default=[])


def write(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--docs", default=Path("docs"), type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--page", "name", help="Fill the blocks of this page alone.")
def main(run: Path, docs: Path, name: str | None) -> None:
    """Write tables, figures and the generated blocks of the results of a run."""
    mpl.use("Agg")
    mpl.rcParams["axes.titlesize"] = 9
    found = finished(run)
    index = docs / "results" / (name or "index.md")
    if not index.is_file():
        raise Refused(f"{index}: there is no such page")
    try:
        page = fill(index.read_text(encoding="utf-8"), blocks(found.summary), str(index))
        if name is not None:
            write(index, page)
            click.echo(f"wrote {index}")
            return
        (docs / "figures").mkdir(exist_ok=True)
        pictures = draw(found, docs / "figures")
        measured = tables.yardsticks(found.summary, valid_yardsticks(RunDirectory(run), found.summary))
        write(docs / "results" / "tables.md", tables_page(found.summary, pictures, measured))
        write(index, page)
    except CovadError as failure:
        raise Refused(str(failure)) from failure
    names = ", ".join(f"{name}.png" for name in pictures)
    click.echo(f"wrote {index}, {docs / 'results' / 'tables.md'} and {names} in {docs / 'figures'}")


if __name__ == "__main__":
    main()
