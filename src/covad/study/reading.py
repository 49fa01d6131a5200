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
    return _beside(path.parent, parse_study(content, str(path)))


def _beside(folder: Path, study: Study) -> Study:
    """Paths in a study file are relative to the file."""
    source = study.source
    if isinstance(source, PoolSection):
        source = source.model_copy(update={"path": (folder / source.path).resolve()})
    elif isinstance(source, Collisions):
        signals = {name: _sample_beside(folder, sample) for name, sample in source.signals.items()}
        background = _sample_beside(folder, source.background)
        source = source.model_copy(
            update={"background": background, "signals": signals, "folder": folder.resolve()}
        )
    return study.model_copy(update={"source": source})


def _sample_beside(folder: Path, sample: SampleEntry) -> SampleEntry:
    files = tuple((folder / path).resolve() for path in sample.files)
    return sample.model_copy(update={"files": files})


def parse_study(content: Any, where: str) -> Study:
    """Check plain data; `where` is for the message."""
    if not isinstance(content, Mapping):
        raise StudyError(f"{where}: a mapping of keys was expected")
    try:
        return Study.model_validate(content)
    except ValidationError as failure:
        raise StudyError(f"{where}: {describe_mistake(failure, KINDS)}") from failure


def json_schema() -> str:
    """JSON Schema of the study file, for editors."""
    return json.dumps(Study.model_json_schema(), indent=2) + "\n"


def changed_key(before: Any, after: Any, name: str = "") -> str | None:
    """The first key in which two plain studies differ, with both values; the free keys do not count."""
    if before == after or any(fnmatchcase(name, free) for free in FREE_KEYS):
        return None
    for key, old, new in _parts(before, after):
        if change := changed_key(old, new, f"{name}.{key}" if name else key):
            return change
    if _parts(before, after):
        return None
    return f"{name} was {json.dumps(before)} and is now {json.dumps(after)}"


def _parts(before: Any, after: Any) -> list[tuple[str, Any, Any]]:
    """What two values are made of, if both are mappings, or lists of as many mappings."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return [(key, before.get(key), after.get(key)) for key in sorted({*before, *after})]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = list(zip(before, after, strict=True))
        if all(isinstance(part, Mapping) for pair in pairs for part in pair):
            return [(str(number), old, new) for number, (old, new) in enumerate(pairs)]
    return []
