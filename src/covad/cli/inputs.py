"""Observed events beside the simulation, as tables on stdout and as figures in files."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.box import SIMPLE
from rich.console import Console

from covad.cli.console import PLAIN_WIDTH, table
from covad.inference.inputs import InputComparison, Numbers, Quantity
from covad.storage.atomic import write_bytes


def print_comparison(comparison: InputComparison, observed: Path) -> None:
    """Print every input in data and simulation, then what does not look alike."""
    console = Console(soft_wrap=True, highlight=False, markup=False)
    if not sys.stdout.isatty():
        console.width = PLAIN_WIDTH
    console.print(
        f"{observed.name}: {comparison.n_events} events selected, "
        f"beside {comparison.n_simulation} selected background events at nu = 0"
    )
    print_inputs(console, "Data and simulation", comparison.quantities)
    for warning in comparison.warnings:
        console.print(f"warning: {warning}")
    if not comparison.warnings:
        console.print("everything looks like the simulation")


def print_inputs(console: Console, title: str, quantities: tuple[Quantity, ...]) -> None:
    """Print a table of inputs: mean, 90 % interval and range of both samples, and how far they are apart."""
    samples = (f"{part} in {where}" for where in ("data", "sim.") for part in ("mean", "90 %", "range"))
    lines = table(title, "input", *samples, "distance", "of syst.", "", box=SIMPLE)
    for quantity in quantities:
        found = quantity.difference
        distances = ("", "") if found is None else (f"{found.distance:.3f}", f"{found.tolerated:.3f}")
        verdict = "differs" if quantity.warning else ""
        columns = (*_columns(quantity.data), *_columns(quantity.simulation))
        lines.add_row(quantity.name, *columns, *distances, verdict)
    console.print(lines)


def _columns(numbers: Numbers | None) -> tuple[str, str, str]:
    if numbers is None:
        return "", "", ""
    return f"{numbers.mean:.4g}", numbers.central, f"{numbers.low:.3g} to {numbers.high:.3g}"


def write_figures(comparison: InputComparison, observed: Path, folder: Path) -> list[Path]:
    """Write one picture per input, as PDF and as SVG."""
    # matplotlib takes a second to import, which the table does not need
    from covad.report.figures.inputs import input_figure

    written = []
    for panel in input_figure(comparison, observed.name, observed.stem).panels:
        for suffix, content in (("pdf", panel.pdf), ("svg", panel.svg.encode())):
            written.append(folder / f"{panel.name}.{suffix}")
            write_bytes(written[-1], content)
    return written
