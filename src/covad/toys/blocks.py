"""A block of toys as one Parquet file: its columns, and a footer with a digest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from covad.errors import FileFormatError, ToyStoreError
from covad.nplm.fit import Status
from covad.storage.digests import canonical, content_digest
from covad.storage.json_files import parse_json
from covad.storage.records import restore
from covad.storage.versions import Versions
from covad.toys.toy import BlockToys, Toy

#: Layout of a block: raise it when a column or the footer changes. Runs with older blocks are then refused.
STORE_SCHEMA = 3
_KEY = b"covad"
#: Twenty rows of numbers: nothing to compress, nothing to index, every page with a checksum.
_LAYOUT: dict[str, Any] = {
    "compression": "none",
    "use_dictionary": False,
    "write_statistics": False,
    "write_page_checksum": True,
    "store_schema": False,
}
#: What a file that is not what was written can make pyarrow, JSON or the dataclasses raise.
_UNREADABLE = (pa.ArrowException, OSError, ValueError, TypeError, KeyError, IndexError, AttributeError)
_NUMBERS = pa.list_(pa.float64())
COLUMNS = pa.schema(
    [
        pa.field("index", pa.int64(), nullable=False),
        pa.field("seed", pa.uint64(), nullable=False),
        pa.field("events", pa.uint64()),
        pa.field("status", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("true_nu", _NUMBERS),
        pa.field("true_norm", pa.float64()),
        pa.field("t", pa.float64()),
        pa.field("tau", pa.float64()),
        pa.field("delta", pa.float64()),
        pa.field("nu_tau", _NUMBERS),
        pa.field("nu_delta", _NUMBERS),
        pa.field("nu_norm_tau", pa.float64()),
        pa.field("nu_norm_delta", pa.float64()),
        pa.field("log_yield", pa.float64()),
        pa.field("measured", _NUMBERS),
        pa.field("measured_norm", pa.float64()),
        pa.field("n_data", pa.int64()),
        pa.field("evaluations", pa.int64()),
        pa.field("active_bounds", pa.int64()),
        pa.field("seconds", pa.float64(), nullable=False),
        pa.field("draw_seconds", pa.float64(), nullable=False),
    ]
)


@dataclass(frozen=True)
class BlockFooter:
    """What the footer says of a block, so that a status need not read the toys."""

    schema: int
    ensemble: str
    start: int
    stop: int
    failed: dict[str, str]  # index -> reason
    unconverged: list[int]
    seconds: float  # CPU of drawing and fits
    versions: Versions  # in the process that computed the toys
    digest: str

    @classmethod
    def of(cls, ensemble: str, block: BlockToys) -> BlockFooter:
        """Make the footer from the toys and their versions, so that it can be made again and compared."""
        toys = block.toys
        content = [STORE_SCHEMA, ensemble, [vars(toy) for toy in toys], asdict(block.versions)]
        return cls(
            schema=STORE_SCHEMA,
            ensemble=ensemble,
            start=toys[0].index,
            stop=toys[-1].index + 1,
            failed={str(toy.index): toy.reason for toy in toys if toy.failed},
            unconverged=[toy.index for toy in toys if toy.status == Status.UNCONVERGED],
            seconds=sum(toy.seconds + toy.draw_seconds for toy in toys),
            versions=block.versions,
            digest=content_digest(content),
        )


def toy_table(toys: tuple[Toy, ...]) -> pa.Table:
    """Return toys as an Arrow table, one row each; what a failed toy lacks is null."""
    return pa.Table.from_pylist([vars(toy) for toy in toys], schema=COLUMNS)


def encode(ensemble: str, block: BlockToys) -> bytes:
    """Return the content of the file of a block."""
    refuse_collisions(block.toys)
    footer = canonical(asdict(BlockFooter.of(ensemble, block)))
    buffer = pa.BufferOutputStream()
    with pq.ParquetWriter(buffer, COLUMNS, **_LAYOUT) as writer:
        writer.write_table(toy_table(block.toys))
        writer.add_key_value_metadata({_KEY: footer})
    return bytes(buffer.getvalue())


def decode(content: bytes, name: str) -> tuple[BlockFooter, BlockToys]:
    """Return footer and toys of a file, checked against its digest; `name` is for the message.

    Raise FileFormatError if it is damaged, ToyStoreError if it is of another schema.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
        footer = _footer(file.metadata.metadata, name)
        rows: list[dict[str, Any]] = file.read(use_threads=False).to_pylist()
        for row in rows:
            row |= {key: tuple(value) for key, value in row.items() if isinstance(value, list)}
        block = BlockToys(tuple(Toy(**row) for row in rows), footer.versions)
        found = BlockFooter.of(footer.ensemble, block)
    except _UNREADABLE as failure:
        raise FileFormatError(f"{name}: unreadable ({_first_line(failure)})") from failure
    if found != footer:
        raise FileFormatError(f"{name}: its toys do not fit its digest")
    return footer, block


def read_footer(content: bytes, name: str) -> BlockFooter:
    """Return the footer alone: fast, and blind to damage elsewhere in the file."""
    try:
        return _footer(pq.read_metadata(pa.BufferReader(content)).metadata, name)
    except _UNREADABLE as failure:
        raise FileFormatError(f"{name}: unreadable ({_first_line(failure)})") from failure


def _footer(metadata: dict[bytes, bytes], name: str) -> BlockFooter:
    facts = parse_json(metadata[_KEY], name)
    found = int(facts["schema"])
    if found != STORE_SCHEMA:  # not damaged: its toys must stay where they are
        raise ToyStoreError(
            f"{name}: has schema {found} of another version of covad, but {STORE_SCHEMA} was expected: "
            "go on with that version, or start again in a new run directory"
        )
    return BlockFooter(**facts | {"versions": restore(Versions, facts["versions"], name)})


def _first_line(failure: BaseException) -> str:
    lines = str(failure).splitlines()
    return lines[0] if lines else type(failure).__name__


def refuse_collisions(toys: Iterable[Toy]) -> None:
    """Raise if two toys have one seed or the same events: they are one toy counted twice."""
    for name in ("seed", "events"):
        seen: dict[int, int] = {}
        for toy in toys:
            value = getattr(toy, name)
            if value is not None and seen.setdefault(value, toy.index) != toy.index:
                raise ToyStoreError(f"toys {seen[value]} and {toy.index} have the same {name}")
