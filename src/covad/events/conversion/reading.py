"""Trees of ROOT files (uproot) and tables of Parquet files (pyarrow), read by columns and in steps."""

from __future__ import annotations

import difflib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from covad.errors import CovadError, FileFormatError, MappingError, MissingExtraError, extra_advice
from covad.events.conversion.columns import Column, of_fixed_length

#: Events that are read and converted at once, where the file is not stored in larger pieces.
STEP_EVENTS = 50_000
#: A stored piece (cluster, row group) of up to this many events is read at once: to cut it would mean to
#: decompress it several times.
_LARGEST_STEP = 200_000
#: The name of the one table of a Parquet file.
PARQUET_TABLE = "table"

Kind = Literal["number", "list", "text", "other"]


@dataclass(frozen=True)
class Branch:
    """A column of a file: what it holds, and how the file's own format calls that."""

    name: str
    type_name: str
    kind: Kind


@contextmanager
def reading_foreign(path: Path) -> Iterator[None]:
    """Turn whatever the libraries raise about a damaged file into one sentence."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of uproot, about classes that nobody asked for
            yield
    except (CovadError, MemoryError):
        raise
    except ImportError as failure:
        raise MissingExtraError(f"{path}: needs a package that is not installed ({failure})") from failure
    except FileNotFoundError as failure:
        raise FileFormatError(f"{path}: cannot be read (no such file: is the name right?)") from failure
    except Exception as failure:  # the libraries have no base class for what a cut file makes them raise
        said = next((line.strip() for line in str(failure).splitlines() if line.strip()), "")
        why = f"{type(failure).__name__}: {said}" if said else type(failure).__name__
        raise FileFormatError(
            f"{path}: cannot be read, it is damaged or was not written to its end ({why[:200]})"
        ) from failure


class Table(ABC):
    """The rows of one tree."""

    path: Path
    name: str

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """Names of all branches."""

    @abstractmethod
    def branch(self, name: str) -> Branch: ...

    @abstractmethod
    def pieces(self, names: Sequence[str]) -> Sequence[int]:
        """Return where the stored pieces of these branches begin, and the end of the last."""

    @abstractmethod
    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, Column]:
        """Return rows start..stop-1 of branches that hold numbers or lists of numbers."""

    @abstractmethod
    def read_labels(self, name: str, start: int, stop: int) -> np.ndarray[Any, Any]:
        """Return rows of a branch that holds whole numbers or texts."""

    def unknown(self, name: str) -> str:
        """Return the sentence about a branch that is not there, with those that may be meant."""
        lowered = {n.lower(): n for n in self.names}
        close = difflib.get_close_matches(name.lower(), lowered, n=3, cutoff=0.7)
        meant = f"; is {' or '.join(repr(lowered[c]) for c in close)} meant?" if close else ""
        return f"{self.path}: tree '{self.name}' has no branch '{name}'{meant}"

    def steps(self, names: Sequence[str]) -> list[tuple[int, int]]:
        """Return the ranges of rows that are read at once: stored pieces, joined or cut to a handy size."""
        edges = [0]
        for end in self.pieces(names)[1:]:
            while end - edges[-1] > _LARGEST_STEP:
                edges.append(edges[-1] + STEP_EVENTS)
            if end - edges[-1] >= STEP_EVENTS:
                edges.append(end)
        if edges[-1] < len(self):
            edges.append(len(self))
        return list(pairwise(edges))


class Source(ABC):
    """A file with trees."""

    path: Path

    @property
    @abstractmethod
    def trees(self) -> Mapping[str, int]:
        """Names of the trees, and their rows."""

    @abstractmethod
    def open(self, name: str) -> Table: ...

    @abstractmethod
    def close(self) -> None: ...

    def find(self, candidates: Sequence[str] | None) -> Table:
        """Return the first of the trees that is there; without names the only one of the file."""
        there = ", ".join(self.trees) or "none"
        if candidates is None:
            if len(self.trees) != 1:
                raise MappingError(f"{self.path}: has several trees or none ({there}): name one in `tree`")
            candidates = tuple(self.trees)
        for name in candidates:
            if name in self.trees:
                return self.open(name)
        raise MappingError(
            f"{self.path}: has no tree '{' or '.join(candidates)}' (its trees: {there}); "
            "`covad convert --describe` shows what it has"
        )


def open_source(path: Path) -> Source:
    """Open a ROOT or a Parquet file, told by its first bytes."""
    if ":/" in str(path):
        raise FileFormatError(f"{path}: only files on this machine are read: copy it first, e.g. with xrdcp")
    with reading_foreign(path):
        if path.is_dir():
            raise FileFormatError(f"{path}: is a directory, not a file: name the files in it")
        with path.open("rb") as file:
            magic = file.read(4)
        if magic == b"root":
            return RootSource(path)
        if magic == b"PAR1":
            return ParquetSource(path)
    raise FileFormatError(f"{path}: is neither a ROOT nor a Parquet file")


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


class ParquetSource(Source):
    """A Parquet file. Names of nested columns have dots: `Jet.pt`."""

    def __init__(self, path: Path) -> None:
        from pyarrow import parquet

        self.path = path
        self._file = parquet.ParquetFile(path)

    @property
    def trees(self) -> dict[str, int]:
        return {PARQUET_TABLE: self._file.metadata.num_rows}

    def find(self, candidates: Sequence[str] | None) -> Table:  # noqa: ARG002
        """Return the table: a Parquet file has no trees, so that the mapping's `tree` does not matter."""
        return self.open(PARQUET_TABLE)

    def open(self, name: str) -> ParquetTable:  # noqa: ARG002, it has one table
        return ParquetTable(self.path, self._file)

    def close(self) -> None:
        self._file.close()


class ParquetTable(Table):
    name = PARQUET_TABLE

    def __init__(self, path: Path, file: Any) -> None:
        self.path = path
        self._file = file
        self._cached: tuple[Any, Any] = (None, None)
        self._types = dict(_fields(file.schema_arrow))

    def __len__(self) -> int:
        return int(self._file.metadata.num_rows)

    @property
    def names(self) -> Sequence[str]:
        return list(self._types)

    def branch(self, name: str) -> Branch:
        import pyarrow as pa

        found = self._types[name]
        content = _content_type(found)
        numeric = (
            pa.types.is_integer(content) or pa.types.is_floating(content) or pa.types.is_boolean(content)
        )
        kind: Kind = "other"
        if numeric:
            kind = "number" if content == found else "list"
        elif pa.types.is_string(found) or pa.types.is_large_string(found):
            kind = "text"
        return Branch(name, str(found), kind)

    @cached_property
    def _groups(self) -> list[int]:
        metadata = self._file.metadata
        sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        return [0, *np.cumsum(sizes).tolist()]

    def pieces(self, names: Sequence[str]) -> Sequence[int]:  # noqa: ARG002
        return self._groups

    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, Column]:
        with reading_foreign(self.path):
            rows = self._rows(names, start, stop)
            return {name: self._column(rows, name, start) for name in names}

    def read_labels(self, name: str, start: int, stop: int) -> np.ndarray[Any, Any]:
        with reading_foreign(self.path):
            labels = self._rows([name], start, stop).column(name)
            self._refuse_nulls(labels, name, start)
            return np.asarray(labels.to_pylist(), dtype=object)

    def _rows(self, names: Sequence[str], start: int, stop: int) -> Any:
        """Return a table of these rows; the row groups that were read last are kept."""
        first = int(np.searchsorted(self._groups, start, side="right")) - 1
        last = int(np.searchsorted(self._groups, stop, side="left"))
        columns = sorted(
            {name if name in self._file.schema_arrow.names else name.split(".")[0] for name in names}
        )
        key = (first, last, tuple(columns))
        if self._cached[0] != key:
            self._cached = (key, self._file.read_row_groups(list(range(first, last)), columns=columns))
        return self._cached[1].slice(start - self._groups[first], stop - start)

    def _column(self, rows: Any, name: str, start: int) -> Column:
        import pyarrow as pa

        top, _, inner = (name, "", "") if name in rows.column_names else name.partition(".")
        array = rows.column(top).combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks)
        offsets = None
        self._refuse_nulls(array, name, start)
        if _is_list(array.type):
            if pa.types.is_fixed_size_list(array.type):
                array = array.cast(pa.list_(array.type.value_type))
            offsets = array.offsets.to_numpy().astype(np.int64)
            array = array.values.slice(offsets[0], offsets[-1] - offsets[0])
            offsets = offsets - offsets[0]
        for part in inner.split(".") if inner else ():
            self._refuse_nulls(array, name, start)
            array = array.field(part)
        self._refuse_nulls(array, name, start)
        return Column(array.to_numpy(zero_copy_only=False), offsets)

    def _refuse_nulls(self, array: Any, name: str, start: int) -> None:
        if array.null_count:
            raise FileFormatError(
                f"{self.path}: column '{name}' has {array.null_count} nulls from row {start} on: fill them "
                "with a number first"
            )


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _content_type(kind: Any) -> Any:
    """Return the type of the entries of a list, or the type itself."""
    return kind.value_type if _is_list(kind) else kind


def _fields(schema: Any) -> Iterator[tuple[str, Any]]:
    """Yield names and types of all columns; those of records and of lists of records by dotted names."""
    import pyarrow as pa

    for field in schema:
        content = _content_type(field.type)
        if not pa.types.is_struct(content):
            yield field.name, field.type
            continue
        for inner in content:
            kind = pa.list_(inner.type) if _is_list(field.type) else inner.type
            yield f"{field.name}.{inner.name}", kind
