"""What the command line shows: progress bars on stderr, tables on stdout."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from covad.events.files import EventSource
from covad.events.inspection import CollectionSummary, SampleSummary, ShiftSummary
from covad.events.layout import Events
from covad.events.selection import Selection

#: Columns of tables that go to a file or a pipe.
PLAIN_WIDTH = 120


def progress_bar(what: str) -> Progress:
    """A progress bar on stderr; silent when stderr is not a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, disable=not console.is_terminal)


@contextmanager
def download_progress() -> Iterator[Callable[[str, int, int], None]]:
    """A callback (file, bytes so far, size) that draws one bar per file."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:

        def show(name: str, done: int, size: int) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=size)
            bars.update(tasks[name], completed=done)

        yield show


def with_progress(chunks: Iterable[Events], total: int, what: str) -> Iterator[Events]:
    """Pass chunks through and show how far they are."""
    with progress_bar(what) as progress:
        task = progress.add_task("", total=total)
        for chunk in chunks:
            yield chunk
            progress.advance(task, len(chunk))


def print_sample(source: EventSource, selection: Selection, summary: SampleSummary) -> None:
    """The answer of `covad inspect` for an event file that was read to its end."""
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, markup=False, highlight=False)
    console.print(f"{source.path}: {summary.n_events} events")
    for key, value in source.provenance.items():
        if not isinstance(value, Mapping):
            console.print(f"  {key}: {value}")
    share = summary.n_selected / max(summary.n_events, 1)
    console.print(f"after the cuts: {summary.n_selected} events, efficiency {share:.4f} ({selection})")
    console.print(_process_table(summary))
    console.print(_collection_table(summary.collections))
    if any(s.n_nominal for s in summary.shifts):
        console.print(_shift_table(summary.shifts))
    elif summary.shifts:
        console.print("no shifts are shown, because no event passes the selection at nu = 0")
    console.print(
        f"events whose objects had to be sorted, or whose empty slots were not empty: {source.untidied}"
    )


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    return table


def _process_table(summary: SampleSummary) -> Table:
    table = _table("Processes", "process", "events", "share")
    for name, count in summary.processes.items():
        table.add_row(name, str(count), f"{count / summary.n_events:.2%}")
    return table


def _collection_table(collections: list[CollectionSummary]) -> Table:
    table = _table("Objects", "collection", "per event", "in events", "mean lead", "ranges")
    for c in collections:
        ranges = ", ".join(f"{f} {c.low[f]:.4g} to {c.high[f]:.4g}" for f in c.features if f in c.low)
        table.add_row(
            c.name, f"{c.mean_number:.3f}", f"{c.n_filled / c.n_events:.2%}", f"{c.mean_lead:.2f}", ranges
        )
    return table


def _shift_table(shifts: list[ShiftSummary]) -> Table:
    name = shifts[0].collection.name
    title = "Shifted, then selected (nu in units of sigma)"
    numbers = (f"{name}s per event", f"mean {name} pt", f"mean lead {name} pt", "yield ratio")
    table = _table(title, "systematic", "nu", *numbers)
    for s in shifts:
        c = s.collection
        table.add_row(
            s.systematic.name,
            f"{s.nu:+g}",
            f"{c.mean_number:.4f}",
            f"{c.mean_scale:.2f}",
            f"{c.mean_lead:.2f}",
            f"{s.yield_ratio:.4f}",
        )
    return table
