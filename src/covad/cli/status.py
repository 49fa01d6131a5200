"""The status of a run in the terminal."""

from __future__ import annotations

from rich.box import SIMPLE
from rich.table import Table

from covad.cli.console import PLAIN_WIDTH, SafeConsole
from covad.results.summary import truth_text
from covad.runs.status import RunStatus

_COUNTS = ("requested", "done", "failed", "missing", "unconverged")


def print_status(status: RunStatus) -> None:
    """Print the status on stdout: stages, a table of the toys, and remarks."""
    console = SafeConsole(soft_wrap=True)
    console.width = max(console.width, PLAIN_WIDTH)
    for stage in status.stages:
        remark = f" ({stage.remark})" if stage.remark else ""
        done = "done" if stage.finished else f"{stage.done} of {stage.parts} done"
        if stage.stage == "report":
            done = (
                "written" if stage.finished else "older than the toys" if stage.remark else "not written yet"
            )
        console.print(f"{'' if stage.stage == 'report' else 'stage '}{stage.stage}: {done}{remark}")
    for configuration in status.clips_to_tune:
        console.print(f"clip of the network, {configuration.label}: not chosen yet")
    for slug, clip in status.clips.items():
        console.print(f"clip of the network, {status.study.configuration(slug).label}: W = {clip:g}")
    for configuration in status.bases_to_choose:
        console.print(f"basis of the convex test, {configuration.label}: not chosen yet")

    table = Table(title=f"Toys of {status.path}", title_justify="left", box=SIMPLE)
    for column in ("test", "configuration", "nu", "signal"):
        table.add_column(column)
    for column in (*_COUNTS, "pools"):
        table.add_column(column, justify="right")
    for ensemble in status.ensembles:
        draw = ensemble.entry.draw
        table.add_row(
            ensemble.entry.test,
            ensemble.entry.configuration.label,
            truth_text(draw.nu, draw.nu_norm, draw.prior),
            f"{draw.signal} {draw.injected:g}" if draw.signal else "",
            *(str(getattr(ensemble.counts, name)) for name in _COUNTS),
            f"{ensemble.offset.share:.2f} sd" if ensemble.offset.share else "",
        )
    table.add_section()
    table.add_row("all", "", "", "", *(str(status.total(name)) for name in _COUNTS), "")
    console.print(table)

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
