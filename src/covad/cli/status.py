"""The status of a run in the terminal."""

from __future__ import annotations

from rich.box import SIMPLE

from covad.cli.console import result_console, table
from covad.inference.frontier import Frontier
from covad.runs.smoothing import smoothing_line
from covad.runs.status import EnsembleStatus, RunStatus
from covad.study.plan import shape_names
from covad.toys.truths import point_name, point_text

_COUNTS = ("requested", "done", "failed", "missing", "unconverged")
#: Columns for where toys are drawn, the same in all tables.
_DRAWN_AT = 18


def print_status(status: RunStatus, frontier: Frontier | None = None) -> None:
    """Print the status on stdout: stages, a table of the toys, and remarks."""
    console, names = result_console(), shape_names(status.study)
    for stage in status.stages:
        remark = f" ({stage.remark})" if stage.remark else ""
        done = "done" if stage.finished else f"{stage.done} of {stage.parts} done"
        if stage.stage == "report":
            done = (
                "written" if stage.finished else "older than the toys" if stage.remark else "not written yet"
            )
        console.print(f"{'' if stage.stage == 'report' else 'stage '}{stage.stage}: {done}{remark}")
        if stage.stage == "checks":
            for line in status.ranking_lines:
                console.print(f"  {line}")
            for line in () if frontier is None else frontier.lines:
                console.print(f"  {line}")
        if stage.stage == "pools":
            for space, pools in status.smoothing.items():
                console.print(f"  {space}: {smoothing_line(pools)}")
    for configuration in status.clips_to_tune:
        console.print(f"clip of the network, {configuration.label}: not chosen yet")
    for slug, clip in status.clips.items():
        console.print(f"clip of the network, {status.study.configuration(slug).label}: W = {clip:g}")
    for test, configuration in status.bases_to_choose:
        console.print(f"basis of the {test} test, {configuration.label}: not chosen yet")

    for space in dict.fromkeys(each.space for each in status.costs):
        lines = table(
            f"events of equal weight, accepted from weighted ones: {space}",
            *("pool", "at", "events", "accepted", "share", "negative"),
            box=SIMPLE,
            padding=(0, 1, 0, 0),
        )
        for each in status.costs:
            if each.space == space:
                cost = each.cost
                at = "fewest" if each.pool == "prior" else _drawn_at(point_name(each.nu, names))
                numbers = str(cost.events), str(cost.accepted), f"{cost.share:.1%}", f"{cost.negative:.1%}"
                lines.add_row(each.pool, at, *numbers)
        console.print(lines)

    totals = ", ".join(f"{status.total(name)} {name}" for name in _COUNTS)
    console.print(f"toys of {status.path}: {totals}")
    groups: dict[str, list[EnsembleStatus]] = {}
    for ensemble in status.ensembles:
        name = f"{ensemble.entry.configuration.label}: {ensemble.entry.test} test"
        groups.setdefault(name, []).append(ensemble)
    for name, ensembles in groups.items():
        lines = table(name, "drawn at", *_COUNTS, "pools", box=SIMPLE, padding=(0, 1, 0, 0))
        lines.columns[0].min_width = _DRAWN_AT
        for ensemble in ensembles:
            draw = ensemble.entry.draw
            truth = _drawn_at(
                point_name(draw.nu, names, draw.nu_norm, draw.prior, ensemble.entry.along_worst)
            )
            lines.add_row(
                f"{truth}, {draw.signal} {draw.injected:g}" if draw.signal else truth,
                *(str(getattr(ensemble.counts, name)) for name in _COUNTS),
                f"{ensemble.offset.share:.2f} sd" if ensemble.offset.share else "",
            )
        console.print(lines)

    for ensemble in status.ensembles:
        for reason, count in ensemble.counts.reasons.items():
            console.print(f"{count} failed ({ensemble.entry.test}): {reason}")
    if small := sum(not ensemble.offset.tolerable for ensemble in status.ensembles):
        console.print(f"finite pools move t by more than a tenth of its spread in {small} ensembles")
    if status.corrupt:
        console.print(f"{len(status.corrupt)} corrupt blocks were set aside in {status.corrupt[0].parent}")
    if status.total("missing"):
        left = status.core_seconds_left
        console.print("time left: not known yet" if left is None else f"time left: {left:.0f} core-seconds")


def _drawn_at(point: str) -> str:
    """Return a point as short as a table wants it: '+1', '0', 'qcd_rate = +1'."""
    return point_text(point).removeprefix("nu = ")
