"""Reading study files: every mistake is one sentence that names the key."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from covad.errors import FileFormatError, StudyError
from covad.settings import describe_mistake
from covad.storage.text_files import read_text
from covad.study.model import Study
from covad.study.sources import KINDS, Collisions, PoolSection
from covad.study.systematics import SYSTEMATIC_KINDS

#: Larger files are no study files.
_LARGEST_BYTES = 2**20
#: Values in a study file, those that an alias repeats counted each time.
_MOST_VALUES = 100_000
_MERGE = "tag:yaml.org,2002:merge"


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses a key that stands twice, where the standard would let the last one win.

    A key of its own beside a merged one (`<<: *common`) is no repetition: it goes before the merged one.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        lines: dict[Hashable, int] = {}
        for key_node, _ in node.value:
            key = "<<" if key_node.tag == _MERGE else self.construct_object(key_node, deep=deep)
            if not isinstance(key, Hashable):  # refused by YAML itself
                continue
            line = key_node.start_mark.line + 1
            if key in lines:
                raise StudyError(
                    f"key '{key}' stands twice, in line {lines[key]} and in line {line}: remove one"
                )
            lines[key] = line
        return super().construct_mapping(node, deep)


def read_study(path: Path) -> Study:
    """Read and check a study file."""
    try:
        content = yaml.load(read_text(path, _LARGEST_BYTES), _Loader)  # noqa: S506, it is a SafeLoader
    except FileNotFoundError as failure:
        raise StudyError(
            f"{path}: cannot be read (there is no such file); `covad init` writes one"
        ) from failure
    except FileFormatError as failure:
        raise StudyError(str(failure)) from failure
    except StudyError as failure:
        raise StudyError(f"{path}: {failure}") from failure
    except RecursionError as failure:
        raise StudyError(
            f"{path}: cannot be read, its YAML is nested too deeply: write it flatter"
        ) from failure
    except (yaml.YAMLError, ValueError) as failure:  # a date of month 13 is a ValueError
        raise StudyError(f"{path}: is not YAML ({' '.join(str(failure).split())})") from failure
    _refuse_endless(content, path)
    return _resolve_paths(parse_study(content, str(path)), path.parent)


def _refuse_endless(content: Any, path: Path) -> None:
    """Raise StudyError if aliases make a small file a huge or an endless study."""
    waiting, seen = [content], 0
    while waiting:
        value = waiting.pop()
        seen += 1
        if isinstance(value, Mapping):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        if seen + len(waiting) > _MOST_VALUES:
            raise StudyError(
                f"{path}: has more than {_MOST_VALUES} values, aliases (*NAME) written out: ask for less"
            )


def _resolve_paths(study: Study, folder: Path) -> Study:
    """Return the study with absolute paths: those in a study file are relative to its folder."""
    source = study.source
    if isinstance(source, PoolSection):
        source = source.model_copy(update={"path": (folder / source.path).resolve()})
    elif isinstance(source, Collisions):
        parts = {
            "background": source.background.resolved(folder),
            "signals": {name: sample.resolved(folder) for name, sample in source.signals.items()},
            "systematics": tuple(entry.resolved(folder) for entry in source.systematics),
            "folder": folder.resolve(),
        }
        source = source.model_copy(update=parts)
    return study.model_copy(update={"source": source})


def parse_study(content: Any, where: str) -> Study:
    """Check plain data; `where` names it in messages."""
    if not isinstance(content, Mapping):
        raise StudyError(
            f"{where}: a mapping of keys was expected; `covad init` writes a study to begin with"
        )
    try:
        return Study.model_validate(content)
    except ValidationError as failure:
        raise StudyError(f"{where}: {describe_mistake(failure, Study, KINDS, SYSTEMATIC_KINDS)}") from failure


def expecting(study: Study, expected: float) -> Study:
    """Return the study with so many expected events wherever it leaves them open, checked anew."""
    content = study.plain()
    if study.leaves_open(study.sizes):
        content["sizes"]["expected"] = expected
    for plain, configuration in zip(content["configurations"], study.configurations, strict=True):
        if configuration.sizes is not None and study.leaves_open(configuration.sizes):
            plain["sizes"]["expected"] = expected
    return parse_study(content, f"{expected:g} events are expected of source.background.processes")


def json_schema() -> str:
    """Return the JSON Schema of the study file, for editors."""
    return json.dumps(Study.model_json_schema(), indent=2) + "\n"
