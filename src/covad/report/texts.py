"""Titles, captions and the glossary, which stand in texts.yaml."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import Any

import yaml


@lru_cache(maxsize=1)
def _texts() -> dict[str, Any]:
    content = files("covad.report").joinpath("texts.yaml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(content))


def glossary() -> dict[str, str]:
    """Return the terms of the report with what they mean, in reading order."""
    return dict(_texts()["glossary"])


def law_text(name: str) -> str:
    """Tell what the law of this name is."""
    return str(_texts()["laws"][name])


def texts(kind: str, name: str, **values: Any) -> dict[str, str]:
    """Return `title` and `caption` of a figure or table, filled in; a title may be left to the caller."""
    return {key: text.format(**values) for key, text in _texts()[kind][name].items()}
