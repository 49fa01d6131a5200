"""What is expected of every background process after the cuts: yields.json, which the stage `events` leaves.

There is a table where the study says what is expected of its processes, and where event files have weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from covad.storage.json_files import read_json
from covad.storage.ledger import Product
from covad.storage.records import Record, restore


@dataclass(frozen=True)
class ProcessYield(Record):
    """One process of the background files at nu = 0, which is trained as `label`.

    `events` stand in the files, `selected` pass the cuts. Those have the sum of weights `total` in the units
    of the files, and say as much as `effective` events without weights; `negative_share` of them have a
    negative weight. `generated` is the sum of weights of all events that the generator made, where it is
    known. `scale` takes weights of the files to events of the analysis.
    """

    process: str
    label: str
    events: int
    selected: int
    effective: float
    negative_share: float
    total: float
    generated: float | None
    scale: float
    expected: float
    error: float  # of `expected`, because the simulation is finite

    @property
    def efficiency(self) -> float | None:
        """The share of the generated events that the files have and the cuts leave, by weight."""
        return self.total / self.generated if self.generated else None


@dataclass(frozen=True)
class YieldTable(Record):
    """What is expected of all processes, the largest first.

    `given` says that the study says so; else the mix is that of the weights in the files, and the numbers are
    shares of the `sizes.expected` that the study asks for.
    """

    processes: tuple[ProcessYield, ...]
    given: bool

    @property
    def expected(self) -> float:
        return math.fsum(line.expected for line in self.processes)

    @property
    def error(self) -> float:
        return math.hypot(*(line.error for line in self.processes))

    @property
    def effective(self) -> float:
        """Return as how many events without weights all of them count."""
        return self.expected**2 / self.error**2

    @property
    def negative_share(self) -> float:
        """Return the share of all selected events whose weight is negative."""
        negative = sum(line.negative_share * line.selected for line in self.processes)
        return negative / sum(line.selected for line in self.processes)

    @property
    def scales(self) -> dict[str, float]:
        return {line.process: line.scale for line in self.processes}

    @property
    def labels(self) -> dict[str, str]:
        return {line.process: line.label for line in self.processes}

    def share(self, line: ProcessYield) -> float:
        return line.expected / self.expected

    def of(self, expected: float) -> YieldTable:
        """Return the same mix for another number of expected events."""
        factor = expected / self.expected
        lines = (
            replace(
                line, scale=line.scale * factor, expected=line.expected * factor, error=line.error * factor
            )
            for line in self.processes
        )
        return replace(self, processes=tuple(lines))

    def lines(self) -> list[str]:
        """Return the table as lines of text."""
        head = ("process", "events", "selected", "effective", "negative", "efficiency", "yield", "", "share")
        rows = [head]
        for line in self.processes:
            name = line.process if line.label == line.process else f"{line.process} (as {line.label})"
            rows.append(
                (
                    name,
                    str(line.events),
                    str(line.selected),
                    f"{line.effective:.0f}",
                    f"{line.negative_share:.1%}",
                    "" if line.efficiency is None else f"{line.efficiency:.4g}",
                    f"{line.expected:.6g}",
                    f"+- {line.error:.2g}",
                    f"{self.share(line):.2%}",
                )
            )
        n_events, n_selected = (
            sum(getattr(line, key) for line in self.processes) for key in ("events", "selected")
        )
        rows.append(
            (
                "total",
                str(n_events),
                str(n_selected),
                f"{self.effective:.0f}",
                f"{self.negative_share:.1%}",
                "",
                f"{self.expected:.6g}",
                f"+- {self.error:.2g}",
                f"{1:.2%}",
            )
        )
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        return [
            "  ".join(
                [
                    row[0].ljust(widths[0]),
                    *(part.rjust(width) for part, width in zip(row[1:], widths[1:], strict=True)),
                ]
            ).rstrip()
            for row in rows
        ]


def read_yields(product: Product) -> YieldTable:
    """Read the table, verified."""
    return restore(YieldTable, read_json(product.verified()), str(product.path))
