"""Rows of one file as events: what a worker process does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from covad.errors import CovadError, EventContentError, FileFormatError, MappingError
from covad.events.conversion.columns import MissingEntryError
from covad.events.conversion.expressions import parse, quoted
from covad.events.conversion.mapping import ProcessBranch, SumEntry
from covad.events.conversion.padding import Objects
from covad.events.conversion.reading import FileState, file_state, open_source
from covad.events.conversion.recipe import Piece, Recipe
from covad.events.conversion.tables import Table
from covad.events.layout import UNLABELLED, Events


@dataclass(frozen=True)
class Block:
    """Rows of one file, converted."""

    n_read: int
    events: Events
    varied: dict[str, NDArray[np.float32]]
    #: Sum of generator weights of all rows that were read, by process; empty where another tree tells it.
    sum_of_weights: dict[str, float]
    #: Objects that passed the cuts, and those of them that found no slot, by collection.
    objects: dict[str, tuple[int, int]]
    #: Rows that `select` dropped only because a comparison in it is one with NaN.
    n_undefined: int


@lru_cache(maxsize=1)
def opened(path: Path, tree: tuple[str, ...] | None, state: FileState) -> Table:  # noqa: ARG001
    """Return a tree that stays open until another one is asked for: opening takes longer than a step.

    `state` tells one file from another that has taken its name.
    """
    return open_source(path).find(tree)


def convert_rows(path: Path, state: FileState, recipe: Recipe, start: int, stop: int) -> Block:
    """Convert rows start..stop-1 of one file; raise FileFormatError if it is not in that state any more."""
    _refuse_changed(path, state)
    table = opened(path.absolute(), recipe.mapping.tree, state)
    columns = table.read(recipe.columns, start, stop)
    labels = _labels(recipe, table, start, stop)
    _refuse_changed(path, state)
    try:
        return _convert(Piece(recipe, stop - start, columns), labels, start)
    except CovadError as failure:
        raise type(failure)(f"{path}: {_place(failure, start)}{failure}") from failure


def _place(failure: BaseException | None, start: int) -> str:
    """Return the event that a failure, or what led to it, is about; nothing if it does not say."""
    while failure is not None:
        if isinstance(failure, MissingEntryError):
            return f"event {start + failure.event}: "
        failure = failure.__cause__
    return ""


def _refuse_changed(path: Path, state: FileState) -> None:
    if file_state(path) != state:
        raise FileFormatError(f"{path}: has changed while it was read: convert again when it is complete")


def _labels(recipe: Recipe, table: Table, start: int, stop: int) -> NDArray[np.int16]:
    """Return the process of every row, as its place among the names."""
    process = recipe.mapping.process
    if not isinstance(process, ProcessBranch):
        return np.full(stop - start, UNLABELLED if process is None else 0, dtype=np.int16)
    found = table.read_labels(recipe.branches[process.branch], start, stop)
    values, places = np.unique(found, return_inverse=True)
    codes = []
    for value in values.tolist():
        name = process.named(value)
        if name is None:
            raise EventContentError(
                f"{table.path}: '{process.branch}' has the value {value!r}, which process.names does not list"
            )
        codes.append(recipe.process_names.index(name))
    return np.array(codes, dtype=np.int16)[places]


def _convert(piece: Piece, labels: NDArray[np.int16], start: int) -> Block:
    recipe, mapping = piece.recipe, piece.recipe.mapping
    selected = _selected(piece)
    rows = np.flatnonzero(selected)
    generous = selected
    if len(rows) < piece.n_events:
        generous = _selected(Piece(recipe, piece.n_events, piece.branches, nominal=piece, generous=True))
    weights = None if mapping.weight is None else _weights(piece, "weight", mapping.weight, rows, start)
    events = Events(
        recipe.layout,
        _particles(piece, rows, start),
        labels[rows],
        recipe.process_names,
        {},
        weights,
        {
            name: _weights(piece, f"variations.{name}", text, rows, start)
            for name, text in mapping.variations.items()
        },
    )
    varied = {
        name: _particles(Piece(recipe, piece.n_events, piece.branches, replaced, piece), rows, start)
        for name, replaced in mapping.varied.items()
    }
    sums: dict[str, float] = {}
    if isinstance(mapping.sum_of_weights, SumEntry) and mapping.sum_of_weights.tree is None:
        before = _weights(piece, "sum_of_weights.sum", mapping.sum_of_weights.sum, None, start)
        sums = sums_by_process(recipe.process_names, labels, before)
    objects = {}
    for name, collection in mapping.collections.items():
        counts = piece.objects(name).counts[rows]
        beyond = np.maximum(counts - collection.n_slots, 0)
        objects[name] = int(counts.sum()), int(beyond.sum())
    return Block(piece.n_events, events, varied, sums, objects, int((generous & ~selected).sum()))


def _selected(piece: Piece) -> NDArray[np.bool_]:
    """Return for every row whether it passes `select`."""
    text = piece.recipe.mapping.select
    if text is None:
        return np.ones(piece.n_events, dtype=bool)
    selected = parse(text).truth(piece.column, generous=piece.generous)
    if selected.is_list:
        raise MappingError(f"select: {quoted(text)} is a list of yes and no per event: write any or all")
    return np.broadcast_to(selected.values, piece.n_events)


def _weights(
    piece: Piece, key: str, text: str, rows: NDArray[np.int64] | None, start: int
) -> NDArray[np.float64]:
    """Return one weight per row; raise EventContentError at one that is not finite."""
    try:
        weights = piece.per_event(text).astype(np.float64)
    except MappingError as failure:
        raise MappingError(f"{key}: {failure}") from failure
    rows = np.arange(piece.n_events) if rows is None else rows
    weights = weights[rows]
    if not np.isfinite(weights).all():
        event = int(np.argmin(np.isfinite(weights)))
        raise EventContentError(f"{key}: {quoted(text)} is {weights[event]:g} in event {start + rows[event]}")
    return weights


def _particles(piece: Piece, rows: NDArray[np.int64], start: int) -> NDArray[np.float32]:
    """Return the objects of the chosen rows in their slots."""
    layout = piece.recipe.layout
    particles = np.zeros((piece.n_events, *layout.shape), dtype=np.float32)
    for collection in layout.collections:
        objects = piece.objects(collection.name)
        _refuse_not_finite(objects, collection.name, rows, start)
        columns = [layout.column(feature) for feature in collection.features]
        objects.filling(collection.slots).place(particles, layout.slots(collection.name), columns)
    return particles if len(rows) == len(particles) else particles[rows]


def _refuse_not_finite(objects: Objects, collection: str, rows: NDArray[np.int64], start: int) -> None:
    for feature, values in objects.features.items():
        finite = np.isfinite(values)
        if finite.all():
            continue
        bad = np.intersect1d(objects.events[~finite], rows)
        if len(bad):
            raise EventContentError(
                f"{feature} of {collection} is not finite in event {start + bad[0]}: leave such objects out "
                f"by a cut, such as isfinite({feature})"
            )


def sums_by_process(
    names: Sequence[str], labels: NDArray[np.int16], weights: NDArray[np.float64]
) -> dict[str, float]:
    """Return the sum of weights of every process."""
    return {name: float(weights[labels == code].sum()) for code, name in enumerate(names)}
