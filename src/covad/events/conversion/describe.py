"""What a file holds, and the ready mapping that fits it best."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import yaml

from covad.errors import CovadError
from covad.events.conversion.mapping import READY, EventMapping, ready_mapping, restricted
from covad.events.conversion.reading import Branch, Source, Table, open_source
from covad.events.conversion.recipe import Recipe


@dataclass(frozen=True)
class Tree:
    """A tree, and its branches with their types."""

    name: str
    n_events: int
    branches: tuple[Branch, ...]


@dataclass(frozen=True)
class Fit:
    """How a ready mapping fits a file: what is left of it, and what the file lacks."""

    name: str
    mapping: EventMapping
    lacks: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        return not self.lacks

    def text(self) -> str:
        """Return what is left of the mapping, as a mapping file."""
        return yaml.safe_dump(self.mapping.plain(), sort_keys=False, allow_unicode=True, width=100)


@dataclass(frozen=True)
class Description:
    path: Path
    trees: tuple[Tree, ...]
    #: None if no ready mapping finds a single collection.
    best: Fit | None


def describe(path: Path) -> Description:
    """Look into a file: trees, branches, and which ready mapping finds most of its collections."""
    with closing(open_source(path)) as source:
        trees = tuple(_tree(source.open(name)) for name in source.trees)
        fits = [fit for name in READY if (fit := _fit(name, source)) is not None]
    best = max(fits, key=lambda fit: (len(fit.mapping.collections), -len(fit.lacks)), default=None)
    return Description(path, trees, best)


def _tree(table: Table) -> Tree:
    return Tree(table.name, len(table), tuple(table.branch(name) for name in table.names))


def _fit(name: str, source: Source) -> Fit | None:
    """Return what is left of a ready mapping when all that a file lacks is taken out."""
    mapping = ready_mapping(name)
    try:
        table = source.find(mapping.tree)
    except CovadError:
        return None
    bare = mapping.without_weights()
    found = {part: _has(table, restricted(bare, [part])) for part in mapping.collections}
    there = [part for part, has in found.items() if has]
    lacks = [part for part, has in found.items() if not has]
    if not there:
        return None
    left = restricted(mapping, there)
    if not _has(table, left):
        lacks.append("weight")
        left = left.without_weights()
    return Fit(name, left, tuple(lacks))


def _has(table: Table, mapping: EventMapping) -> bool:
    try:
        Recipe.of(mapping, table)
    except CovadError:
        return False
    return True
