"""How many events pass the cuts, by role and by process: selected.json, which the stage `events` leaves."""

from __future__ import annotations

from dataclasses import dataclass

from covad.settings import Nu
from covad.storage.json_files import read_json
from covad.storage.ledger import Product
from covad.storage.records import Record, restore


@dataclass(frozen=True)
class CountAt(Record):
    """Events of a role that pass the cuts at nu."""

    role: str
    nu: Nu
    events: int


@dataclass(frozen=True)
class SelectedEvents(Record):
    """The exact counts; `training` and `validation` are the parts of the encoder's split, by fold.

    `processes` counts the background events of all roles that pass the cuts at nu = 0.
    """

    counts: tuple[CountAt, ...]
    processes: dict[str, int]
    training: tuple[dict[str, int], ...]
    validation: tuple[dict[str, int], ...]

    def selected(self, role: str, nu: Nu) -> float:
        return next(count.events for count in self.counts if (count.role, count.nu) == (role, nu))

    def error(self, role: str, nu: Nu) -> float:  # noqa: ARG002
        return 0.0


def read_selected(product: Product) -> SelectedEvents | None:
    """Read the counts, verified; None if they are not there yet."""
    if not product.made:
        return None
    return restore(SelectedEvents, read_json(product.verified()), str(product.path))
