"""The answer of `covad test` on stdout."""

from __future__ import annotations

from rich.box import SIMPLE
from rich.console import Console

from covad.cli.console import result_console, table
from covad.cli.inputs import print_inputs
from covad.inference.significance import MARK, MEANING
from covad.observed.result import Observation, ObservedTest

#: Ranked events that are shown; the JSON has all of the region.
_SHOWN = 5
#: Nuisances that are shown in any case.
_LEADING = 10


def print_observation(observation: Observation) -> None:
    """Print numbers first, then where the excess lies; warnings at the end, where they are seen."""
    console = result_console()
    console.print(
        f"{observation.file}: {observation.n_selected} of {observation.n_file} events selected, "
        f"{observation.expected:g} expected; configuration {observation.label}"
    )
    inputs = observation.inputs
    if inputs.different:
        title = f"{len(inputs.different)} of {len(inputs.quantities)} inputs do not look like the simulation"
        print_inputs(console, title, inputs.different)
    else:
        console.print(f"all {len(inputs.quantities)} inputs look like the simulation")
    if observation.nuisances:
        _print_nuisances(console, observation)
    for test in observation.tests:
        _print_significances(console, test)
    for test in observation.tests:
        _print_excess(console, test)
    for warning in observation.warnings:
        console.print(f"warning: {warning}")


def _print_nuisances(console: Console, observation: Observation) -> None:
    """Print the leading nuisances by their impact on Z, and all that moved unusually far."""
    title = "Nuisances of the fit without h, in units of sigma"
    if (agreement := observation.compatibility) is not None:
        title += (
            f"; auxiliary values and data agree with p = {agreement.p:.3g} "
            f"(chi2 {agreement.chi2:.2f} / {agreement.dof})"
        )
    impacts = {impact.name: impact for impact in observation.impacts}
    headings = ("nuisance", "auxiliary", "fitted", "pull", "post/pre")
    of_test = (f"impact on Z ({observation.test_of_impacts} test): -1 sigma", "+1 sigma")
    lines = table(title, *headings, *(of_test if impacts else ()), box=SIMPLE)
    ranked = observation.ranked_nuisances
    shown = [fit for number, fit in enumerate(ranked) if number < _LEADING or fit.unusual]
    for fit in shown:
        fitted = f"{fit.fitted:+.3f} +- {fit.error:.3f}"
        constraint = "" if fit.constraint is None else f"{fit.constraint:.2f}"
        changes = []
        if fit.name in impacts:
            ends = impacts[fit.name].down, impacts[fit.name].up
            changes = ["no fit" if end.change is None else f"{end.change:+.2f}" for end in ends]
        lines.add_row(fit.name, f"{fit.auxiliary:+.3f}", fitted, f"{fit.pull:+.2f}", constraint, *changes)
    if len(shown) < len(ranked):
        by = "by impact" if impacts else "by distance from the auxiliary value"
        lines.caption = (
            f"the first {_LEADING} of {len(ranked)} {by}, and all that moved unusually far; "
            "the JSON and the report have all"
        )
    console.print(lines)


def _print_significances(console: Console, test: ObservedTest) -> None:
    found = test.status if test.t is None else f"t = {test.t:.2f} ({test.status})"
    if test.member is not None:
        found += f"; most was seen by its member of {test.member}"
    lines = table(f"{test.test} test: {found}", "null", "p", "Z", box=SIMPLE)
    for line in test.significances:
        lines.add_row(line.null, f"{line.p:.3g}", line.text + (f" {MARK}" if line.extrapolated else ""))
    if any(line.extrapolated for line in test.significances):
        lines.caption = f"{MARK} {MEANING}"
    console.print(lines)


def _print_excess(console: Console, test: ObservedTest) -> None:
    if (excess := test.excess) is None:
        return
    title = (
        f"{test.test} test: the {excess.n_top} events of largest h (h >= {excess.h_threshold:.2f}), "
        f"where {excess.expected:.1f} +- {excess.expected_error:.1f} are expected"
    )
    lines = table(title, "observable", "their mean", "expected there", "expected everywhere", box=SIMPLE)
    for line in excess.observables:
        there = "" if line.region_mean is None else f"{line.region_mean:.2f}"
        mean = f"{line.top_mean:.2f} +- {line.top_error:.2f}"
        lines.add_row(line.name, mean, there, f"{line.everywhere_mean:.2f}")
    console.print(lines)
    first = ", ".join(f"{event.event} ({event.h:.2f})" for event in excess.ranked[:_SHOWN])
    console.print(f"first by h: events {first}")
