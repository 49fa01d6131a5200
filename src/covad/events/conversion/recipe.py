"""A mapping made ready for the branches that files have, and applied to a piece of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.errors import CovadError, MappingError
from covad.events.conversion.columns import Column, aligned, stack
from covad.events.conversion.expressions import Lookup, parse
from covad.events.conversion.mapping import WILDCARD, EventMapping, ProcessEntry
from covad.events.conversion.padding import Objects, wrapped
from covad.events.conversion.reading import Table
from covad.events.layout import EventLayout

#: Kinds of branches that a formula may use.
_USABLE = ("number", "list")


@dataclass(frozen=True)
class Recipe:
    """A mapping whose names are all found: branches by name, variations written out."""

    mapping: EventMapping
    #: For every name that is no quantity of the mapping the branch that it stands for.
    branches: Mapping[str, str]

    @classmethod
    def of(cls, mapping: EventMapping, table: Table) -> Recipe:
        """Find all names in a tree; raise MappingError if one is not there or holds no numbers."""
        variations: dict[str, str] = {}
        for name, text in mapping.variations.items():
            variations |= _written_out(name, text, table) if WILDCARD in name else {name: text}
        written = mapping.changed(variations=variations)
        return cls(written, _found(written, table))

    @cached_property
    def layout(self) -> EventLayout:
        return self.mapping.layout

    @property
    def process_names(self) -> tuple[str, ...]:
        process = self.mapping.process
        if isinstance(process, ProcessEntry):
            return tuple(dict.fromkeys(process.names.values()))
        return () if process is None else (process,)

    @cached_property
    def columns(self) -> list[str]:
        """The branches that hold numbers, each once."""
        needed = [name for name, key in self.mapping.leaves() if key != "process.branch"]
        return list(dict.fromkeys(self.branches[name] for name in needed))


def _written_out(name: str, pattern: str, table: Table) -> dict[str, str]:
    """Return the variations that a pattern of branches stands for: {"*": "weight_sys_*"}."""
    if name.count(WILDCARD) != 1 or pattern.count(WILDCARD) != 1:
        raise MappingError(f"variations.{name}: needs one '{WILDCARD}' in the name and one in the branch")
    before, after = pattern.split(WILDCARD)
    fitting = [b for b in table.names if fnmatchcase(b, pattern)]
    if not fitting:
        raise MappingError(f"{table.path}: tree '{table.name}' has no branch like '{pattern}' (variations)")
    return {name.replace(WILDCARD, b[len(before) : len(b) - len(after)]): b for b in fitting}


def _found(mapping: EventMapping, table: Table) -> dict[str, str]:
    """Return the branch of every name that a mapping needs."""
    there = set(table.names)
    found: dict[str, str] = {}
    for name, key in mapping.leaves():
        if name in found:
            continue
        candidates = mapping.aliases.get(name, (name,))
        branch = next((c for c in candidates if c in there), None)
        if branch is None:
            advice = ""
            if key in ("weight", "sum_of_weights.sum") or key.startswith(("variations.", "varied.")):
                advice = "; are these data, without weights? say --data"
            also = f" (nor {', '.join(candidates[1:])})" if candidates[1:] else ""
            raise MappingError(f"{table.unknown(candidates[0])}{also}, needed by {key}{advice}")
        description = table.branch(branch)
        usable = (*_USABLE, "text") if key == "process.branch" else _USABLE
        if description.kind not in usable:
            raise MappingError(
                f"{table.path}: branch '{branch}' holds {description.type_name}, which {key} cannot use: "
                "it needs numbers or lists of numbers"
            )
        found[name] = branch
    return found


@dataclass
class Piece:
    """Rows of a tree as a mapping sees them: every name a column, computed once."""

    recipe: Recipe
    n_events: int
    branches: Mapping[str, Column]
    #: What replaces some names, and the piece without it, from which the replacements are computed.
    replaced: Mapping[str, str] = field(default_factory=dict)
    nominal: Piece | None = None
    _columns: dict[str, Column] = field(default_factory=dict)
    _objects: dict[str, Objects] = field(default_factory=dict)

    def column(self, name: str) -> Column:
        """Return the column of a name: replaced, derived, a feature of a collection, or a branch."""
        if name not in self._columns:
            self._columns[name] = self._computed(name)
        return self._columns[name]

    def _computed(self, name: str) -> Column:
        mapping = self.recipe.mapping
        if self.nominal is not None and name in self.replaced:
            return parse(self.replaced[name]).evaluate(self.nominal.column)
        if name in mapping.derived:
            return parse(mapping.derived[name]).evaluate(self.column)
        if mapping.defines(name):
            collection, _, feature = name.partition(".")
            objects = self.objects(collection)
            return Column(objects.features[feature], objects.offsets)
        return self.branches[self.recipe.branches[name]]

    def per_event(self, text: str) -> NDArray[Any]:
        return parse(text).per_event(self.column, self.n_events)

    def objects(self, collection: str) -> Objects:
        """Return the objects of a collection that pass its cut, sorted by falling first feature."""
        if collection not in self._objects:
            if self.nominal and not self.replaced.keys() & self.recipe.mapping.used_by(collection):
                return self.nominal.objects(collection)
            try:
                self._objects[collection] = self._kept(collection)
            except CovadError as failure:
                raise type(failure)(f"collections.{collection}: {failure}") from failure
        return self._objects[collection]

    def _kept(self, collection: str) -> Objects:
        entry = self.recipe.mapping.collections[collection]
        columns = {
            name: stack([parse(text).evaluate(self.column) for text in texts], self.n_events)
            if len(texts) > 1
            else parse(texts[0]).evaluate(self.column)
            for name, texts in entry.features.items()
        }
        values, offsets = aligned(list(columns.values()))
        if offsets is None:  # one number per event each: one object
            offsets = np.arange(self.n_events + 1)
        n = int(offsets[-1])
        features: dict[str, NDArray[np.float32]] = {}
        with np.errstate(over="ignore", invalid="ignore"):  # too large is infinite, and refused as such
            for name, numbers in zip(columns, values, strict=True):
                features[name] = np.broadcast_to(numbers, n).astype(np.float32)
        rank = None if entry.sort is None else self._per_object(parse(entry.sort).evaluate, columns, offsets)
        objects = Objects(features, offsets, rank)
        kept = ~(objects.scale <= 0)  # no object, as in flat trees; NaN is none of these, and refused
        if entry.cut is not None:
            kept &= self._per_object(parse(entry.cut).truth, columns, offsets)
        objects = objects.only(kept)
        if "phi" in features:
            objects.features["phi"] = wrapped(objects.features["phi"])
        return objects.by_scale()

    def _per_object(
        self,
        formula: Callable[[Lookup], Column],
        columns: Mapping[str, Column],
        offsets: NDArray[np.int64],
    ) -> NDArray[Any]:
        """Return one value per object; names of features stand for them."""
        n = int(offsets[-1])
        column = formula(lambda name: columns[name] if name in columns else self.column(name))
        values = aligned([column, Column(np.zeros(n), offsets)])[0][0]
        return np.broadcast_to(values, n)
