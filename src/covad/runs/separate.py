"""What the events of separate samples count: separate.json, which the stage `events` leaves."""

from __future__ import annotations

from dataclasses import dataclass

from covad.storage.json_files import read_json
from covad.storage.ledger import Product
from covad.storage.records import Record, restore


@dataclass(frozen=True)
class SeparateYield(Record):
    """One separate sample: its events, those that pass the cuts, and the sum of their weights in the files.

    `nominal` is what the events of the process add up to, `scale` what takes weights of the sample to the
    same units: by the cross section of the process if `by_cross_section`, else the sample has the yield of
    the process.
    """

    sample: str
    process: str
    events: int
    selected: int
    total: float
    nominal: float
    scale: float
    by_cross_section: bool

    @property
    def yield_ratio(self) -> float:
        """The yield of the sample relative to that of the process at nu = 0."""
        return self.total * self.scale / self.nominal


@dataclass(frozen=True)
class SeparateYields(Record):
    """All separate samples of a study."""

    samples: tuple[SeparateYield, ...]

    def scale(self, name: str) -> float:
        return self._line(name).scale

    def events(self, name: str) -> int:
        return self._line(name).events

    def _line(self, name: str) -> SeparateYield:
        return next(line for line in self.samples if line.sample == name)


def read_separate(product: Product) -> SeparateYields:
    """Read the table, verified."""
    return restore(SeparateYields, read_json(product.verified()), str(product.path))
