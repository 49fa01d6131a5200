"""How far the toys are: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from covad.messages import duration_text, shows_progress

log = logging.getLogger(__name__)

LINE_EVERY_SECONDS = 30.0


@dataclass
class ToyProgress:
    """The count of toys, as they are stored."""

    total: int
    bar: Progress
    task: TaskID
    done: int = 0
    failed: int = 0
    started: float = field(default_factory=time.monotonic)
    last_line: float = field(default_factory=time.monotonic)

    def advance(self, toys: int, failed: int) -> None:
        """Count `toys` more, of which some `failed`, and show where the run stands."""
        self.done += toys
        self.failed += failed
        now = time.monotonic()
        rate = self.done / max(now - self.started, 1e-9)
        pace = f"{rate:.3g} toys/s" + (f", {self.failed} failed" if self.failed else "")
        self.bar.update(self.task, completed=self.done, description=pace)
        if self.bar.disable and now - self.last_line > LINE_EVERY_SECONDS and self.done < self.total:
            self.last_line = now
            left = duration_text((self.total - self.done) / max(rate, 1e-9))
            log.info("toys: %d of %d, %s, about %s left", self.done, self.total, pace, left)


@contextmanager
def toy_progress(total: int) -> Iterator[ToyProgress]:
    """Show progress on stderr while the block lasts."""
    console = Console(stderr=True)
    columns = (TextColumn("toys"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(
        *columns,
        TimeRemainingColumn(),
        console=console,
        disable=not (console.is_terminal and shows_progress()),
    ) as bar:
        yield ToyProgress(total, bar, bar.add_task("", total=total))
