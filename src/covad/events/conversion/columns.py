"""Columns of a piece of a tree: one number per event, or a list of numbers per event.

A list column is all numbers in a row and the offsets at which the lists begin, so that numpy works on it at
full speed; its operations need no loop over events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.errors import MappingError


@dataclass(frozen=True)
class Column:
    """One number per event; with offsets a list per event: list i is values[offsets[i]:offsets[i + 1]].

    A constant has a `values` without axes.
    """

    values: NDArray[Any]
    offsets: NDArray[np.int64] | None = None

    @property
    def is_list(self) -> bool:
        return self.offsets is not None

    @property
    def is_truth(self) -> bool:
        return self.values.dtype.kind == "b"

    @property
    def is_whole(self) -> bool:
        return self.values.dtype.kind in "iu"

    @property
    def edges(self) -> NDArray[np.int64]:
        """The offsets; raise MappingError if there are none."""
        if self.offsets is None:
            raise MappingError("a list of numbers per event is needed, and there is only one number")
        return self.offsets

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Length of every list."""
        return np.diff(self.edges)

    def with_values(self, values: NDArray[Any]) -> Column:
        return Column(values, self.offsets)


def constant(value: float) -> Column:
    return Column(np.asarray(value))


def of_fixed_length(values: NDArray[Any]) -> Column:
    """Return a list column of an array (events, length)."""
    events, length = values.shape
    return Column(values.ravel(), np.arange(events + 1, dtype=np.int64) * length)


def stack(columns: Sequence[Column], n_events: int) -> Column:
    """Return the list column whose lists hold the number of each column in turn."""
    if any(c.is_list for c in columns):
        raise MappingError("a list of expressions needs one number per event from each of them")
    values = [np.broadcast_to(c.values, n_events) for c in columns]
    return of_fixed_length(np.stack(values, axis=1))


def aligned(columns: Sequence[Column]) -> tuple[list[NDArray[Any]], NDArray[np.int64] | None]:
    """Return values that can be combined one by one, and the offsets that they have in common.

    Beside lists a number per event counts for every entry of its event's list.
    """
    first = next((c for c in columns if c.is_list), None)
    if first is None:
        return [c.values for c in columns], None
    for c in columns:
        if c.is_list and c.offsets is not first.offsets and not np.array_equal(c.edges, first.edges):
            raise MappingError(
                "lists of different lengths are combined: they belong to different objects; "
                "make one number of each first, with sum, max, any or an index such as [0]"
            )
    return [
        np.repeat(c.values, first.counts) if not c.is_list and c.values.ndim else c.values for c in columns
    ], first.offsets


def reduced(column: Column, operation: np.ufunc, empty: Any) -> Column:
    """Return one number per event: an operation over its list, or `empty` where the list is."""
    filled = column.counts > 0
    kind = np.result_type(column.values.dtype, np.asarray(empty).dtype)
    result = np.full(len(column.counts), empty, dtype=kind)
    starts = column.edges[:-1][filled]
    if len(starts):  # the lists between two filled ones are empty: each runs to the next start
        result[filled] = operation.reduceat(column.values.astype(kind), starts)
    return Column(result)


def entry(column: Column, index: int, default: Column | None = None) -> Column:
    """Return entry `index` of every list, counted from its end if negative; or the default where it ends."""
    needed = index + 1 if index >= 0 else -index
    there = column.counts >= needed
    begins = column.edges[:-1] if index >= 0 else column.edges[1:]
    if default is None:
        if not there.all():
            event = int(np.argmin(there))
            raise MappingError(
                f"entry [{index}] is asked for, but a list has only {column.counts[event]}; "
                f"at(x, {index}, 0) puts a number of yours there"
            )
        return Column(column.values[begins + index])
    if default.is_list:
        raise MappingError("the last argument of at needs one number per event")
    kind = np.result_type(column.values.dtype, default.values.dtype)
    result = np.broadcast_to(default.values, there.shape).astype(kind)
    result[there] = column.values[(begins + index)[there]]
    return Column(result)


def elementwise(function: Callable[..., NDArray[Any]], *columns: Column) -> Column:
    """Combine columns number by number."""
    values, offsets = aligned(columns)
    return Column(function(*values), offsets)
