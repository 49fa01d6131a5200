"""Reading study files: every mistake is one sentence that names the key."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from covad.errors import StudyError
from covad.settings import describe_mistake
from covad.study.model import Study
from covad.study.sources import KINDS, Collisions, PoolSection, SampleEntry

#: Keys that may change between runs of one study: how many toys, where they are computed, where files lie.
FREE_KEYS = (
    "toys",
    "cluster",
    "configurations.*.toys",
    "configurations.*.background_toys",
    "source.path",
    "source.folder",
    "source.background.files",
    "source.signals.*.files",
)


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses a key that stands twice, where the standard would let the last one win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=deep) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise StudyError(f"key '{key}' stands twice (line {node.start_mark.line + 1} and after)")
        return super().construct_mapping(node, deep)


def read_study(path: Path) -> Study:
    """Read and check a study file."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506, it is a SafeLoader
    except StudyError as failure:
        raise StudyError(f"{path}: {failure}") from failure
    except (OSError, UnicodeDecodeError) as failure:
        raise StudyError(f"{path}: cannot be read ({failure})") from failure
    except yaml.YAMLError as failure:
        raise StudyError(f"{path}: is not YAML ({' '.join(str(failure).split())})") from failure
    return _resolve_paths(parse_study(content, str(path)), path.parent)


def _resolve_paths(study: Study, folder: Path) -> Study:
    """Return the study with absolute paths: those in a study file are relative to its folder."""

    def resolved(sample: SampleEntry) -> SampleEntry:
        return sample.model_copy(update={"files": tuple((folder / path).resolve() for path in sample.files)})

    source = study.source
    if isinstance(source, PoolSection):
        source = source.model_copy(update={"path": (folder / source.path).resolve()})
    elif isinstance(source, Collisions):
        signals = {name: resolved(sample) for name, sample in source.signals.items()}
        parts = {"background": resolved(source.background), "signals": signals, "folder": folder.resolve()}
        source = source.model_copy(update=parts)
    return study.model_copy(update={"source": source})


def parse_study(content: Any, where: str) -> Study:
    """Check plain data; `where` names it in messages."""
    if not isinstance(content, Mapping):
        raise StudyError(f"{where}: a mapping of keys was expected")
    try:
        return Study.model_validate(content)
    except ValidationError as failure:
        raise StudyError(f"{where}: {describe_mistake(failure, Study, KINDS)}") from failure


def json_schema() -> str:
    """Return the JSON Schema of the study file, for editors."""
    return json.dumps(Study.model_json_schema(), indent=2) + "\n"


def changed_key(before: Any, after: Any, name: str = "") -> str | None:
    """Return the first key in which two plain studies differ, with both values; free keys do not count."""
    if before == after or any(fnmatchcase(name, free) for free in FREE_KEYS):
        return None
    # look into mappings, and into lists of as many mappings; anything else is one value
    parts: list[tuple[str, Any, Any]] = []
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        parts = [(key, before.get(key), after.get(key)) for key in sorted({*before, *after})]
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = list(zip(before, after, strict=True))
        if all(isinstance(part, Mapping) for pair in pairs for part in pair):
            parts = [(str(number), old, new) for number, (old, new) in enumerate(pairs)]
    for key, old, new in parts:
        if change := changed_key(old, new, f"{name}.{key}" if name else key):
            return change
    return None if parts else f"{name} was {json.dumps(before)} and is now {json.dumps(after)}"
