"""What differs between two versions of a study file, and what of it a run directory can take."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from covad.toys.truths import nu_text

#: Nothing that exists depends on them: how many toys, where they are computed, where files lie.
FREE_KEYS = (
    "toys",
    "cluster",
    "configurations.*.toys",
    "configurations.*.background_toys",
    "configurations.*.yield_toys",
    "source.duplicates",
    "source.training.device",
    "source.path",
    "source.folder",
    "source.background.files",
    "source.signals.*.files",
    "source.systematics.*.up.files",
    "source.systematics.*.down.files",
)
#: A run keeps what does not depend on them, and makes the rest anew. Encoders depend on the last two only.
CHANGEABLE_KEYS = (
    "sizes",
    "normalisation",
    "tests",
    "configurations",
    "nu",
    "nu_norm",
    "prior",
    "worst_direction",
    "result",
    "main",
    "signals",
    "source.correlations",
    "source.response",
    "source.fold",
    "source.luminosity",
    "source.background.processes",
)
#: Entries of these may come and go, but not change.
GROWING_KEYS = ("source.signals", "source.spaces")


@dataclass(frozen=True)
class Change:
    """One key with its values in two studies; None where it was not there.

    `names` are those of the nuisances; of several, points of nu are told by them.
    """

    key: str
    before: Any
    after: Any
    names: tuple[str, ...] = ()

    @property
    def is_free(self) -> bool:
        return self._is_below(FREE_KEYS)

    @property
    def is_refused(self) -> bool:
        """Return whether a run of the one study cannot go on as a run of the other."""
        came_or_went = None in (self.before, self.after) and self.key.rpartition(".")[0] in GROWING_KEYS
        return not (self.is_free or self._is_below(CHANGEABLE_KEYS) or came_or_went)

    def _is_below(self, keys: Sequence[str]) -> bool:
        parts = self.key.split(".")
        prefixes = [".".join(parts[:number]) for number in range(1, len(parts) + 1)]
        return any(fnmatchcase(prefix, key) for prefix in prefixes for key in keys)

    def __str__(self) -> str:
        if len(self.names) > 1 and self.key.rpartition(".")[2] == "nu":
            return f"{self.key} {self._points_told}"
        return f"{self.key} was {json.dumps(self.before)} and is now {json.dumps(self.after)}"

    @property
    def _points_told(self) -> str:
        """Return which points were added and which removed."""
        before, after = (
            [nu_text(nu, self.names) for nu in value or ()] for value in (self.before, self.after)
        )
        found = {
            "has lost": [point for point in before if point not in after],
            "has got": [point for point in after if point not in before],
        }
        told = [f"{what} ({'), ('.join(points)})" for what, points in found.items() if points]
        return " and ".join(told) or "has its points in another order"


def changes(before: Any, after: Any, key: str = "") -> Iterator[Change]:
    """Yield every key in which two plain studies differ."""
    if before == after:
        return
    # look into mappings, and into lists of as many mappings; anything else is one value
    parts: list[tuple[str, Any, Any]] = []
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        parts = [(name, before.get(name), after.get(name)) for name in sorted({*before, *after})]
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = list(zip(before, after, strict=True))
        if all(isinstance(part, Mapping) for pair in pairs for part in pair):
            parts = [(str(number), old, new) for number, (old, new) in enumerate(pairs)]
    for name, old, new in parts:
        yield from changes(old, new, f"{key}.{name}" if key else name)
    if not parts:
        yield Change(key, before, after)
