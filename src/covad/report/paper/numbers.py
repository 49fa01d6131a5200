"""The paper's own numbers, to stand beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

import yaml


@dataclass(frozen=True)
class Role:
    """The configuration that a table of the paper is about."""

    embedding: str
    treatment: str
    order: int


@dataclass(frozen=True)
class PaperTable:
    """One of the eleven: what it holds, of which configuration, and its values as texts."""

    label: str
    kind: str  # null, closure, z or idealised
    title: str
    values: Mapping[str, Any]
    configuration: Role | None = None
    calibrated_by: str | None = None

    def value(self, *keys: str) -> str | None:
        """Return the text under the keys, None if the paper does not have it."""
        found: Any = self.values
        for key in keys:
            found = found.get(key) if isinstance(found, Mapping) else None
        return found if isinstance(found, str) else None


@dataclass(frozen=True)
class Paper:
    """Sizes of the paper's toys and its tables, in its order."""

    toys: int
    expected: float
    reference: int
    clips: Mapping[str, float]
    spread_of_z: Mapping[str, float]
    tables: tuple[PaperTable, ...]


@lru_cache(maxsize=1)
def read_paper() -> Paper:
    content = yaml.safe_load(files("covad.report.paper").joinpath("paper.yaml").read_text(encoding="utf-8"))
    tables = []
    for label, table in content.pop("tables").items():
        role = table.pop("configuration", None)
        tables.append(PaperTable(label, **table, configuration=None if role is None else Role(**role)))
    return Paper(**content, tables=tuple(tables))
