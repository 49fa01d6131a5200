"""Tables of Parquet files, read with pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.errors import FileFormatError
from covad.events.conversion.columns import Column
from covad.events.conversion.tables import Branch, Kind, Source, Table, reading_foreign

#: The name of the one table of a Parquet file.
PARQUET_TABLE = "table"
#: Rows that are decoded at once, and bytes of a column that are read at once.
_BATCH_ROWS = 10_000
_BUFFER_BYTES = 2**20


class ParquetSource(Source):
    """A Parquet file. Names of nested columns have dots: `Jet.pt`."""

    def __init__(self, path: Path) -> None:
        from pyarrow import parquet

        self.path = path
        self._file = parquet.ParquetFile(path, buffer_size=_BUFFER_BYTES, pre_buffer=False)

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
        self._streams: dict[tuple[str, ...], _Stream] = {}
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
        """Return a table of these rows: read on behind those that were read last, if it is not far."""
        top = self._file.schema_arrow.names
        columns = tuple(sorted({name if name in top else name.split(".")[0] for name in names}))
        group = int(np.searchsorted(self._groups, start, side="right")) - 1
        stream = self._streams.get(columns)
        if stream is None or not self._groups[group] <= stream.position <= start:
            stream = _Stream(self._file, columns, group, self._groups[group])
            self._streams[columns] = stream
        return stream.rows(self.path, start, stop)

    def _column(self, rows: Any, name: str, start: int) -> Column:
        import pyarrow as pa

        top, _, inner = (name, "", "") if name in rows.column_names else name.partition(".")
        array = rows.column(top).combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks)
        offsets = None
        for part in (None, *inner.split(".")) if inner else (None,):
            array = array if part is None else array.field(part)
            self._refuse_nulls(array, name, start)
            if _is_list(array.type):  # of records, or of numbers in a record
                array, offsets = _taken_apart(array)
        self._refuse_nulls(array, name, start)
        return Column(array.to_numpy(zero_copy_only=False), offsets)

    def _refuse_nulls(self, array: Any, name: str, start: int) -> None:
        if array.null_count:
            raise FileFormatError(
                f"{self.path}: column '{name}' has {array.null_count} nulls from row {start} on: fill them "
                "with a number first"
            )


class _Stream:
    """Rows of some columns from a row group on, in their order: a row group may be larger than the memory."""

    def __init__(self, file: Any, columns: Sequence[str], group: int, position: int) -> None:
        #: The next row.
        self.position = position
        groups = list(range(group, file.metadata.num_row_groups))
        self._batches = file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=list(columns))
        self._none = file.schema_arrow.empty_table().select(list(columns))
        self._rest: Any = ()

    def rows(self, path: Path, start: int, stop: int) -> Any:
        """Return the table of rows start..stop-1, none of which was read before."""
        import pyarrow as pa

        parts = []
        while self.position < stop:
            if not len(self._rest):
                self._rest = next(self._batches, None)
                if self._rest is None:
                    raise FileFormatError(f"{path}: ends at row {self.position}: the file is damaged")
            end = start if self.position < start else stop
            taken = self._rest.slice(0, end - self.position)
            if self.position >= start:
                parts.append(taken)
            self._rest = self._rest.slice(len(taken))
            self.position += len(taken)
        return pa.Table.from_batches(parts) if parts else self._none


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _taken_apart(lists: Any) -> tuple[Any, NDArray[np.int64]]:
    """Return the entries of all lists in a row, and the offsets at which the lists begin."""
    import pyarrow as pa

    if pa.types.is_fixed_size_list(lists.type):
        lists = lists.cast(pa.list_(lists.type.value_type))
    offsets = lists.offsets.to_numpy().astype(np.int64)
    return lists.values.slice(offsets[0], offsets[-1] - offsets[0]), offsets - offsets[0]


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
