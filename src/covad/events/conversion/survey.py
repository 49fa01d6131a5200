"""What files have of a mapping, and whether they fit together: found before anything is converted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from covad.errors import DuplicateEventsError, EventContentError, FileWriteError, MappingError
from covad.events.conversion.expressions import parse, quoted
from covad.events.conversion.mapping import EventMapping, SumEntry
from covad.events.conversion.reading import FileState, file_state, open_source
from covad.events.conversion.recipe import Recipe
from covad.events.conversion.tables import Table
from covad.events.hdf5 import VERSION
from covad.storage.digests import digest_once


@dataclass(frozen=True)
class Survey:
    """What a file has of a mapping."""

    path: Path
    #: Of the file that was surveyed: another one, or another content, is not converted.
    state: FileState
    recipe: Recipe
    tree: str
    n_events: int
    #: Number or list, for every branch that is used.
    kinds: Mapping[str, str]
    steps: list[tuple[int, int]]
    #: The sum of generator weights, where a tree of its own tells it.
    sum_of_weights: float | None


def survey(path: Path, mapping: EventMapping) -> Survey:
    """Find out what a file has of a mapping; raise if something is missing."""
    state = file_state(path)  # first: what is read later belongs to it, or is refused
    with closing(open_source(path)) as source:
        table = source.find(mapping.tree)
        recipe = Recipe.of(mapping, table)
        kinds = {branch: table.branch(branch).kind for branch in recipe.branches.values()}
        total = None
        wanted = mapping.sum_of_weights
        if isinstance(wanted, SumEntry) and wanted.tree is not None and wanted.tree in source.trees:
            total = _summed(wanted.sum, mapping, source.open(wanted.tree))
        steps = table.steps(recipe.columns, recipe.event_bytes)
        return Survey(path, state, recipe, table.name, len(table), kinds, steps, total)


def _summed(text: str, mapping: EventMapping, table: Table) -> float:
    """Return the sum of an expression over all rows of a tree."""
    branches = {}
    for name in parse(text).names:
        branch = next((c for c in mapping.aliases.get(name, (name,)) if c in table.names), None)
        if branch is None:
            raise MappingError(f"{table.unknown(name)}, needed by sum_of_weights.sum")
        branches[name] = branch
    columns = table.read(list(branches.values()), 0, len(table))
    values = parse(text).per_event(lambda name: columns[branches[name]], len(table))
    total = float(values.astype(np.float64).sum())
    if not np.isfinite(total):
        raise EventContentError(f"{table.path}: the sum of generator weights, {quoted(text)}, is {total:g}")
    return total


def refuse_repeated(paths: Sequence[Path], out: Path) -> None:
    """Raise if a file is given twice, under whatever name, or if the output would replace one."""
    seen: dict[Any, Path] = {}
    for path in paths:
        if not path.is_file():
            continue  # told when it is opened
        if out.exists() and path.samefile(out):
            raise FileWriteError(f"{out}: is one of the files to convert: choose another name for --out")
        state = path.stat()
        twin = seen.get((state.st_dev, state.st_ino))
        for other in seen.values():
            same_size = twin is None and other.stat().st_size == state.st_size
            if same_size and digest_once(other) == digest_once(path):
                twin = other
        if twin is not None:
            raise DuplicateEventsError(f"{path}: holds the same events as {twin}: give each file once")
        seen[state.st_dev, state.st_ino] = path


def refuse_foreign_output(out: Path) -> None:
    """Raise FileWriteError if the output would replace a file that is no event file of covad."""
    if not out.is_file():
        return
    try:
        with h5py.File(out, "r") as file:
            ours = VERSION in file.attrs
    except OSError:
        ours = False
    if not ours:
        raise FileWriteError(
            f"{out}: exists and is no event file of covad, so that it is not replaced: choose another name "
            "for --out"
        )


def refuse_different(first: Survey, other: Survey) -> None:
    """Raise MappingError if a name stands for something else in another file."""
    if other.tree != first.tree:
        raise MappingError(
            f"{other.path}: its tree is '{other.tree}', but that of {first.path} is '{first.tree}': convert "
            "such files one by one"
        )
    if extra := set(other.recipe.mapping.variations) ^ set(first.recipe.mapping.variations):
        raise MappingError(
            f"{other.path}: has other weight variations than {first.path} ({min(extra)} is in only one): "
            "convert such files one by one"
        )
    for name, branch in first.recipe.branches.items():
        found = other.recipe.branches[name]
        if found != branch or first.kinds[branch] != other.kinds[branch]:
            raise MappingError(
                f"{other.path}: '{name}' is {found} ({other.kinds[found]}), but in {first.path} it is "
                f"{branch} ({first.kinds[branch]}): convert such files one by one"
            )
    if other.sum_of_weights is None and first.sum_of_weights is not None and not other.n_events:
        raise MappingError(
            f"{other.path}: has 0 events and no tree of the sum of generator weights, unlike {first.path}: "
            "leave it out if nothing was generated for it"
        )
    if (first.sum_of_weights is None) != (other.sum_of_weights is None):
        raise MappingError(
            f"{other.path}: only one of this file and {first.path} has the tree of the sum of generator "
            "weights: convert such files one by one"
        )
