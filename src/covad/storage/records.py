"""Frozen dataclasses that are kept as JSON: the only place where results turn into text and back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from covad.errors import FileFormatError
from covad.storage.atomic import write_json

T = TypeVar("T")


@dataclass(frozen=True)
class Record:
    """Base of the dataclasses that are kept as JSON: unknown and missing keys are refused on reading."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")


@lru_cache(maxsize=32)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def plain(record: Record) -> dict[str, Any]:
    """Return a record as plain data for JSON: tuples as lists, enums as their values, NaN as NaN."""
    kind: Any = type(record)
    return dict(_adapter(kind).dump_python(record, mode="json"))


def write_record(path: Path, record: Record) -> None:
    """Write a record as JSON, all or nothing."""
    write_json(path, plain(record))


def restore(kind: type[T], content: Any, where: str) -> T:
    """Return plain data as a record, or another type that holds records; `where` is for the message."""
    try:
        known: Any = kind
        found: T = _adapter(known).validate_python(content)
    except ValidationError as failure:
        # a key that is not known says more than the one that is missing for it
        error = min(failure.errors(), key=lambda error: error["type"] != "unexpected_keyword_argument")
        key = ".".join(str(part) for part in error["loc"])
        match error["type"]:
            case "unexpected_keyword_argument":
                reason = f"it has an unknown key '{key}'"
            case "missing":
                reason = f"the key '{key}' is missing"
            case "dataclass_type":
                reason = f"{key}: a JSON object was expected" if key else "a JSON object was expected"
            case _:
                reason = f"{key}: {error['msg'].replace('Input should', 'it should')}"
        raise FileFormatError(f"{where}: cannot be read, {reason}") from failure
    return found
