"""From files to an event file: survey, steps over worker processes in the order of the files, one writer."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.errors import (
    CovadError,
    DuplicateEventsError,
    EventContentError,
    FileWriteError,
    MappingError,
    TooFewEventsError,
)
from covad.events.conversion.expressions import parse
from covad.events.conversion.mapping import EventMapping, ProcessEntry, SumEntry
from covad.events.conversion.padding import Objects
from covad.events.conversion.reading import Table, open_source, reading_foreign
from covad.events.conversion.recipe import Piece, Recipe
from covad.events.hdf5 import EventWriter
from covad.events.layout import UNLABELLED, Events
from covad.parallel import in_order
from covad.storage.digests import file_digest

log = logging.getLogger(__name__)

#: So many files are surveyed faster than worker processes start.
_FEW_FILES = 16


@dataclass(frozen=True)
class Survey:
    """What a file has of a mapping, found before anything is converted."""

    path: Path
    recipe: Recipe
    tree: str
    n_events: int
    #: Number or list, for every branch that is used.
    kinds: Mapping[str, str]
    steps: list[tuple[int, int]]
    #: The sum of generator weights, where a tree of its own tells it.
    sum_of_weights: float | None


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


@dataclass
class Tally:
    """What a conversion has done."""

    n_read: int = 0
    n_written: int = 0
    objects: dict[str, tuple[int, int]] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)

    def add(self, block: Block) -> None:
        self.n_read += block.n_read
        self.n_written += len(block.events)
        for name, (kept, beyond) in block.objects.items():
            before = self.objects.get(name, (0, 0))
            self.objects[name] = before[0] + kept, before[1] + beyond
        events = block.events
        if events.weights is not None:
            for name, total in _by_process(events.process_names, events.process, events.weights).items():
                self.weights[name] = self.weights.get(name, 0.0) + total

    def remarks(self) -> Iterator[str]:
        """Yield what a user should know of the events that were written."""
        for name, (kept, beyond) in self.objects.items():
            if not kept:
                yield f"there is no {name} in any event"
            elif beyond:
                yield f"{100 * beyond / kept:.2g} % of the objects of {name} found no slot and were left out"
        for name, total in self.weights.items():
            if total <= 0:
                yield f"the sum of weights{f' of {name}' if name else ''} is {total:g}: no study takes that"


@dataclass(frozen=True)
class Conversion:
    """Files that fit a mapping, ready to be converted."""

    surveys: tuple[Survey, ...]

    @property
    def recipe(self) -> Recipe:
        return self.surveys[0].recipe

    @property
    def n_events(self) -> int:
        return sum(survey.n_events for survey in self.surveys)

    def blocks(self, workers: int) -> Iterator[Block]:
        """Yield all events in the order of the files, converted by so many processes."""
        jobs = [(s.path, self.recipe, *step) for s in self.surveys for step in s.steps]
        try:
            yield from in_order(convert_rows, jobs, min(workers, len(jobs)))
        finally:
            _opened.cache_clear()

    def known_sums(self) -> dict[str, float]:
        """Return the sum of generator weights by process, as far as it is known in advance."""
        given = self.recipe.mapping.sum_of_weights
        names = self.recipe.process_names
        if given is None or len(names) != 1:
            return {}
        if not isinstance(given, SumEntry):
            return {names[0]: given}
        sums = [s.sum_of_weights for s in self.surveys]
        return {names[0]: sum(one for one in sums if one is not None)} if sums[0] is not None else {}

    def write(self, out: Path, blocks: Iterable[Block], threads: int = 1) -> Tally:
        """Write converted events to a new file, which is there only if all goes well."""
        mapping, tally = self.recipe.mapping, Tally()
        writer = EventWriter(
            out,
            self.recipe.layout,
            self.recipe.process_names,
            self.provenance(),
            weighted=mapping.weight is not None,
            variations=tuple(mapping.variations),
            varied=tuple(mapping.varied),
            sum_of_weights=self.known_sums(),
            threads=threads,
        )
        with writer:
            for block in blocks:
                writer.append(block.events, block.varied)
                for name, part in block.sum_of_weights.items():
                    writer.sum_of_weights[name] = writer.sum_of_weights.get(name, 0.0) + part
                tally.add(block)
            if not tally.n_written:
                raise TooFewEventsError(
                    f"{out}: none of {tally.n_read} events passes `select`: nothing is written"
                )
        return tally

    def provenance(self) -> dict[str, Any]:
        """Return where the events come from, as plain data."""
        return {
            "converted_from": ", ".join(s.path.name for s in self.surveys),
            "events_read": self.n_events,
            "mapping": self.recipe.mapping.plain(),
        }


def prepare(mapping: EventMapping, paths: Sequence[Path], out: Path, workers: int = 1) -> Conversion:
    """Survey all files; raise if one does not fit the mapping or the others, before anything is written."""
    _refuse_repeated(paths, out)
    processes = workers if len(paths) > _FEW_FILES else 1
    found = list(in_order(survey, [(path, mapping) for path in paths], processes))
    filled = [one for one in found if one.n_events]
    if not filled:
        names = ", ".join(path.name for path in paths)
        raise TooFewEventsError(
            f"{names}: {'has' if len(paths) == 1 else 'have'} 0 events, nothing to convert"
        )
    for one in found:
        if not one.n_events:
            log.warning("%s: has 0 events, and is skipped", one.path)
    for one in filled[1:]:
        _refuse_different(filled[0], one)
    wanted = mapping.sum_of_weights
    if isinstance(wanted, SumEntry) and wanted.tree is not None and filled[0].sum_of_weights is None:
        log.warning(
            "%s: has no tree '%s', so that the sum of generator weights stays unknown: give it in the study, "
            "or with --sum-of-weights; `--sum-of-weights events` takes the events of these files",
            filled[0].path,
            wanted.tree,
        )
    elif wanted is not None and not filled[0].recipe.process_names:
        log.warning(
            "the sum of generator weights is not kept, because no process is named: say --process NAME"
        )
    _warn_of_shifted_selection(filled[0].recipe)
    # skipped files count here: their generator weights belong to the sample
    return Conversion(tuple(one for one in found if one.n_events or one.sum_of_weights))


def _refuse_repeated(paths: Sequence[Path], out: Path) -> None:
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
            if (
                twin is None
                and other.stat().st_size == state.st_size
                and file_digest(other) == file_digest(path)
            ):
                twin = other
        if twin is not None:
            raise DuplicateEventsError(f"{path}: holds the same events as {twin}: give each file once")
        seen[state.st_dev, state.st_ino] = path


def _refuse_different(first: Survey, other: Survey) -> None:
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
    if (first.sum_of_weights is None) != (other.sum_of_weights is None):
        raise MappingError(
            f"{other.path}: only one of this file and {first.path} has the tree of the sum of generator "
            "weights: convert such files one by one"
        )


def _warn_of_shifted_selection(recipe: Recipe) -> None:
    mapping = recipe.mapping
    if mapping.select is None:
        return
    used = mapping.closure(mapping.select)
    for name, replaced in mapping.varied.items():
        if shifted := used & set(replaced):
            log.warning(
                "`select` uses %s, which '%s' replaces: events that pass only when it is replaced are not "
                "written; select more loosely here, and cut in the study",
                min(shifted),
                name,
            )


def survey(path: Path, mapping: EventMapping) -> Survey:
    """Find out what a file has of a mapping; raise if something is missing."""
    with closing(open_source(path)) as source:
        table = source.find(mapping.tree)
        recipe = Recipe.of(mapping, table)
        kinds = {branch: table.branch(branch).kind for branch in recipe.branches.values()}
        total = None
        wanted = mapping.sum_of_weights
        if isinstance(wanted, SumEntry) and wanted.tree is not None and wanted.tree in source.trees:
            total = _summed(wanted.sum, mapping, source.open(wanted.tree))
        return Survey(path, recipe, table.name, len(table), kinds, table.steps(recipe.columns), total)


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
        raise EventContentError(f"{table.path}: the sum of generator weights, '{text}', is {total:g}")
    return total


@lru_cache(maxsize=1)
def _opened(path: Path, tree: tuple[str, ...] | None, *state: int) -> Table:  # noqa: ARG001
    """Return a tree that stays open until another one is asked for: opening takes longer than a step.

    `state` tells one file from another that has taken its name.
    """
    return open_source(path).find(tree)


def convert_rows(path: Path, recipe: Recipe, start: int, stop: int) -> Block:
    """Convert rows start..stop-1 of one file."""
    with reading_foreign(path):
        state = path.stat()
    table = _opened(
        path.absolute(), recipe.mapping.tree, state.st_dev, state.st_ino, state.st_size, state.st_ctime_ns
    )
    columns = table.read(recipe.columns, start, stop)
    labels = _labels(recipe, table, start, stop)
    try:
        return _convert(Piece(recipe, stop - start, columns), labels, start)
    except CovadError as failure:
        raise type(failure)(f"{path}: {failure}") from failure


def _labels(recipe: Recipe, table: Table, start: int, stop: int) -> NDArray[np.int16]:
    """Return the process of every row, as its place among the names."""
    process = recipe.mapping.process
    if not isinstance(process, ProcessEntry):
        return np.full(stop - start, UNLABELLED if process is None else 0, dtype=np.int16)
    found = table.read_labels(recipe.branches[process.branch], start, stop)
    values, places = np.unique(found, return_inverse=True)
    codes = []
    for value in values.tolist():
        if value not in process.names:
            raise EventContentError(
                f"{table.path}: '{process.branch}' has the value {value!r}, which process.names does not list"
            )
        codes.append(recipe.process_names.index(process.names[value]))
    return np.array(codes, dtype=np.int16)[places]


def _convert(piece: Piece, labels: NDArray[np.int16], start: int) -> Block:
    recipe, mapping = piece.recipe, piece.recipe.mapping
    rows = np.arange(piece.n_events)
    if mapping.select is not None:
        selected = parse(mapping.select).truth(piece.column)
        if selected.is_list:
            raise MappingError(
                f"select: '{mapping.select}' is a list of yes and no per event: write any or all"
            )
        rows = np.flatnonzero(np.broadcast_to(selected.values, piece.n_events))
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
        sums = _by_process(recipe.process_names, labels, before)
    objects = {}
    for name, collection in mapping.collections.items():
        counts = piece.objects(name).counts[rows]
        beyond = np.maximum(counts - collection.n_slots, 0)
        objects[name] = int(counts.sum()), int(beyond.sum())
    return Block(piece.n_events, events, varied, sums, objects)


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
        raise EventContentError(f"{key}: '{text}' is {weights[event]:g} in event {start + rows[event]}")
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


def _by_process(
    names: Sequence[str], labels: NDArray[np.int16], weights: NDArray[np.float64]
) -> dict[str, float]:
    """Return the sum of weights of every process."""
    return {name: float(weights[labels == code].sum()) for code, name in enumerate(names)}
