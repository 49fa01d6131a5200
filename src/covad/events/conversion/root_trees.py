"""Trees of ROOT files, read with uproot."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from covad.errors import FileFormatError, MissingExtraError, extra_advice
from covad.events.conversion.columns import Column, of_fixed_length
from covad.events.conversion.tables import Branch, Kind, Source, Table, reading_foreign


class RootSource(Source):
    """A ROOT file. Of several cycles of a tree the highest one counts, as in ROOT."""

    def __init__(self, path: Path) -> None:
        try:
            import awkward as _  # noqa: F401, uproot needs it for lists
            import uproot
        except ImportError as failure:
            raise MissingExtraError(
                f"{path}: ROOT files need the extra 'root': {extra_advice('root')}"
            ) from failure
        self.path = path
        # no array is asked for twice: a cache would only fill the memory
        self._file = uproot.open(path, array_cache=None)

    @cached_property
    def trees(self) -> dict[str, int]:
        with reading_foreign(self.path):
            names = self._file.keys(cycle=False, filter_classname="TTree")
            return {name: int(self._file[name].num_entries) for name in dict.fromkeys(names)}

    def find(self, candidates: Sequence[str] | None) -> Table:
        with reading_foreign(self.path):
            for name in self._file.keys(cycle=False, filter_classname="ROOT::RNTuple"):
                if name not in self.trees and (candidates is None or name in candidates):
                    raise FileFormatError(
                        f"{self.path}: '{name}' is an RNTuple, which covad does not read: write it as a TTree"
                    )
        return super().find(candidates)

    def open(self, name: str) -> RootTree:
        with reading_foreign(self.path):
            return RootTree(self.path, name, self._file[name])

    def close(self) -> None:
        self._file.close()


class RootTree(Table):
    def __init__(self, path: Path, name: str, tree: Any) -> None:
        self.path = path
        self.name = name
        self._tree = tree
        self._branches = {branch.name: branch for branch in tree.itervalues(recursive=True)}

    def __len__(self) -> int:
        return int(self._tree.num_entries)

    @property
    def names(self) -> Sequence[str]:
        return list(self._branches)

    def branch(self, name: str) -> Branch:
        branch = self._branches[name]
        try:
            return Branch(name, str(branch.typename), _kind_of(branch.interpretation))
        except Exception:  # of a class that uproot has no rule for: whatever it stumbles over
            return Branch(name, "unknown", "other")

    def pieces(self, names: Sequence[str]) -> Sequence[int]:
        with reading_foreign(self.path):
            edges = set(self._branches[names[0]].entry_offsets) if names else {0, len(self)}
            for name in names[1:]:
                edges &= set(self._branches[name].entry_offsets)
            return sorted(edges | {0, len(self)})

    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, Column]:
        return {name: self._column(name, start, stop) for name in names}

    def _column(self, name: str, start: int, stop: int) -> Column:
        import awkward as ak

        with reading_foreign(self.path):
            layout = self._branches[name].array(entry_start=start, entry_stop=stop, library="ak").layout
        if isinstance(layout, ak.contents.NumpyArray):
            column = Column(layout.data) if layout.data.ndim == 1 else of_fixed_length(layout.data)
        elif isinstance(layout, ak.contents.RegularArray):
            column = of_fixed_length(layout.content.data.reshape(-1, layout.size))
        else:
            lists = layout.to_ListOffsetArray64(True)
            column = Column(lists.content.data[: lists.offsets[-1]], lists.offsets.data)
        found = len(column.values) if column.offsets is None else len(column.offsets) - 1
        if found != stop - start:
            raise FileFormatError(
                f"{self.path}: branch '{name}' has {found} of {stop - start} rows: the file is damaged"
            )
        return column

    def read_labels(self, name: str, start: int, stop: int) -> np.ndarray[Any, Any]:
        with reading_foreign(self.path):
            branch = self._branches[name]
            return np.asarray(branch.array(entry_start=start, entry_stop=stop, library="np"))


def _kind_of(interpretation: Any) -> Kind:
    """Return what uproot would make of a branch."""
    import uproot
    from uproot.interpretation.numerical import Numerical

    if isinstance(interpretation, uproot.AsStrings):
        return "text"
    is_list = isinstance(interpretation, uproot.AsJagged)
    content = interpretation.content if is_list else interpretation
    if not isinstance(content, Numerical):
        return "other"
    dtype = content.to_dtype
    axes = len(dtype.shape) + is_list
    return "other" if dtype.base.kind not in "biuf" or axes > 1 else "list" if axes else "number"
