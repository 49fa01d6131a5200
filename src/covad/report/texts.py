"""Titles, captions and the glossary, which stand in texts.yaml."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import Any, TypedDict, cast

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


class Words(TypedDict):
    """What stands over and under a figure or table; a title that is left to the caller is not there."""

    title: str
    caption: str


def texts(kind: str, name: str, **values: Any) -> Words:
    """Return `title` and `caption` of a figure or table, filled in."""
    filled = {key: text.format(**values) for key, text in _texts()[kind][name].items()}
    return cast(Words, filled)


def followed(words: Words, sentences: str) -> Words:
    """Return the same with sentences of a run after the caption, if there are any."""
    return words | {"caption": f"{words['caption']} {sentences}".rstrip()}
