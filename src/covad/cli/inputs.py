"""Observed events beside the simulation, as tables on stdout and as figures in files."""

from __future__ import annotations

from pathlib import Path

from rich.box import SIMPLE
from rich.console import Console

from covad.cli.console import result_console, table
from covad.inference.inputs import InputComparison, Numbers, Quantity
from covad.storage.atomic import write_bytes

#: Columns of a terminal that has room for all numbers of an input.
_WIDE = 100


def print_comparison(comparison: InputComparison, observed: Path) -> None:
    """Print every input in data and simulation, then what does not look alike."""
    console = result_console()
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
    """Print a table of inputs: numbers of both samples, and how far they are apart.

    'apart' is the largest difference of the cumulative distributions, 'syst.' what nuisances can make of it.
    A narrow terminal shows fewer numbers.
    """
    numbers = {"values": 0, "mean": 1, "min": 2, "5 %": 3, "50 %": 4, "95 %": 5, "max": 6}
    if console.width < _WIDE:
        numbers = {name: numbers[name] for name in ("mean", "5 %", "95 %")}
    lines = table(title, "input", "", *numbers, "apart", "syst.", "", box=SIMPLE, padding=(0, 1, 0, 0))
    lines.columns[0].no_wrap = lines.columns[-1].no_wrap = True
    for quantity in quantities:
        found = quantity.difference
        distances = ("", "") if found is None else (f"{found.distance:.3f}", f"{found.tolerated:.3f}")
        verdict = "differs" if quantity.warning else ""
        data, simulation = _columns(quantity.data), _columns(quantity.simulation)
        lines.add_row(quantity.name, "data", *(data[i] for i in numbers.values()), *distances, verdict)
        lines.add_row("", "sim.", *(simulation[i] for i in numbers.values()))
    console.print(lines)


def _columns(numbers: Numbers | None) -> tuple[str, ...]:
    """Return the seven columns of one sample."""
    if numbers is None:
        return ("0", "", "", "", "", "", "")
    low, *_, high = numbers.quantiles
    values = (numbers.mean, numbers.low, low, numbers.median, high, numbers.high)
    return str(numbers.n), *(f"{v:.0f}" if 1e3 <= abs(v) < 1e7 else f"{v:.3g}" for v in values)


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
