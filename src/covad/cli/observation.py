"""The answer of `covad test` on stdout."""

from __future__ import annotations

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from covad.inference.significance import MARK, MEANING
from covad.observed.excess import Excess
from covad.observed.result import Observation, TestResult

_WIDTH = 120
#: Ranked events that are shown; the JSON has all of the region.
_SHOWN = 5


def print_observation(observation: Observation) -> None:
    """Numbers first, then where the excess lies; warnings at the end, where they are seen."""
    console = Console(soft_wrap=True, highlight=False, markup=False)
    console.width = max(console.width, _WIDTH)
    console.print(
        f"{observation.file}: {observation.n_selected} of {observation.n_file} events selected, "
        f"{observation.expected:g} expected; configuration {observation.configuration}"
    )
    if observation.nuisances:
        console.print(_nuisance_table(observation))
    for test in observation.tests:
        console.print(_significance_table(test))
    for test in observation.tests:
        if test.excess is not None:
            _print_excess(console, test.test, test.excess)
    for warning in observation.warnings:
        console.print(f"warning: {warning}")


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", caption_justify="left", box=SIMPLE)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    return table


def _nuisance_table(observation: Observation) -> Table:
    title = "Nuisances of the fit without h, in units of sigma"
    if (agreement := observation.compatibility) is not None:
        title += (
            f"; auxiliary values and data agree with p = {agreement.p:.3g} "
            f"(chi2 {agreement.chi2:.2f} / {agreement.dof})"
        )
    table = _table(title, "nuisance", "auxiliary", "fitted", "pull")
    for line in observation.nuisances:
        fitted = f"{line.fitted:+.3f} +- {line.error:.3f}"
        table.add_row(line.name, f"{line.auxiliary:+.3f}", fitted, f"{line.pull:+.2f}")
    return table


def _significance_table(test: TestResult) -> Table:
    title = f"{test.test} test: " + (test.status if test.t is None else f"t = {test.t:.2f} ({test.status})")
    table = _table(title, "null", "p", "Z")
    for line in test.significances:
        table.add_row(line.null, f"{line.p:.3g}", line.text + (f" {MARK}" if line.extrapolated else ""))
    if any(line.extrapolated for line in test.significances):
        table.caption = f"{MARK} {MEANING}"
    return table


def _print_excess(console: Console, test: str, excess: Excess) -> None:
    title = (
        f"{test} test: the {excess.n_top} events of largest h (h >= {excess.h_threshold:.2f}), "
        f"where {excess.expected:.1f} +- {excess.expected_error:.1f} are expected"
    )
    table = _table(title, "observable", "their mean", "expected there", "expected everywhere")
    for line in excess.observables:
        there = "" if line.region_mean is None else f"{line.region_mean:.2f}"
        mean = f"{line.top_mean:.2f} +- {line.top_error:.2f}"
        table.add_row(line.name, mean, there, f"{line.everywhere_mean:.2f}")
    console.print(table)
    first = ", ".join(f"{event.event} ({event.h:.2f})" for event in excess.ranked[:_SHOWN])
    console.print(f"first by h: events {first}")
