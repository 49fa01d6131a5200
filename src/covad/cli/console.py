"""What the command line shows while it works, on stderr, and the form of its tables on stdout."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from rich.console import Console
from rich.markup import escape
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
from rich.text import Text

from covad.cli.terminal import leave_quietly
from covad.messages import shows_progress, visible

_Chunk = TypeVar("_Chunk", bound=Any)

#: Columns of what goes to a file or a pipe.
PLAIN_WIDTH = 120


class SafeConsole(Console):
    """A console for texts of files: what they hold is shown, neither obeyed nor taken for markup."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)

    def on_broken_pipe(self) -> None:
        leave_quietly()


def result_console() -> SafeConsole:
    """Return the console of results on stdout: as wide as the terminal; wide in files and pipes."""
    console = SafeConsole(soft_wrap=True)
    if not sys.stdout.isatty():
        console.width = PLAIN_WIDTH
    return console


@contextmanager
def download_progress() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a callback (file, bytes so far, size) that draws one bar per file; silent without a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=console, disable=not (console.is_terminal and shows_progress())) as bars:

        def show(name: str, done: int, size: int) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(escape(visible(name)), total=size)
            bars.update(tasks[name], completed=done)

        yield show


def with_progress(
    chunks: Iterable[_Chunk], total: int, what: str, size: Callable[[_Chunk], int] = len
) -> Iterator[_Chunk]:
    """Pass chunks through and show how far they are; silent without a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=console, disable=not (console.is_terminal and shows_progress())
    ) as progress:
        task = progress.add_task("", total=total)
        for chunk in chunks:
            yield chunk
            progress.advance(task, size(chunk))


def table(title: str, *columns: str, **style: Any) -> Table:
    """Return an empty table whose first column holds names, and the others numbers."""
    made = Table(title=title, title_justify="left", caption_justify="left", **style)
    for number, column in enumerate(columns):
        made.add_column(column, justify="right" if number else "left")
    return made
