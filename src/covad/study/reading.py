"""Reading study files: every mistake is one sentence that names the key."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from covad.errors import FileFormatError, StudyError
from covad.settings import describe_mistake
from covad.storage.yaml_files import read_yaml
from covad.study.model import Study
from covad.study.sources import KINDS, Collisions, PoolSection
from covad.study.spaces import SPACE_KINDS
from covad.study.systematics import SYSTEMATIC_KINDS

#: By the key whose entries are of several kinds.
_ENTRY_KINDS = {"systematics": SYSTEMATIC_KINDS, "spaces": SPACE_KINDS}


def read_study(path: Path) -> Study:
    """Read and check a study file."""
    try:
        content = read_yaml(path)
    except FileNotFoundError as failure:
        raise StudyError(
            f"{path}: cannot be read (there is no such file); `covad init` writes one"
        ) from failure
    except FileFormatError as failure:
        raise StudyError(str(failure)) from failure
    return _resolve_paths(parse_study(content, str(path)), path.parent)


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
    for place, key, new in _old_keys(content):
        raise StudyError(f"{where}: {place}.{key} is called {place}.{new} now: rename it")
    try:
        return Study.model_validate(content)
    except ValidationError as failure:
        raise StudyError(f"{where}: {describe_mistake(failure, Study, KINDS, _ENTRY_KINDS)}") from failure


def _old_keys(content: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield where a study has the keys of versions without spaces, and what they are called now."""
    source, configurations = content.get("source"), content.get("configurations")
    for key, new in (("embeddings", "spaces"), ("embedding", "space")):
        if isinstance(source, Mapping) and key in source:
            yield "source", key, new
    for number, entry in enumerate(configurations if isinstance(configurations, list | tuple) else ()):
        if isinstance(entry, Mapping) and "embedding" in entry:
            yield f"configurations.{number}", "embedding", "space"


def translated(content: Any) -> Any:
    """Return the plain study of an older run with the keys of today."""
    if not isinstance(content, Mapping):
        return content
    found: dict[str, Any] = {**content}
    for place, key, new in _old_keys(content):
        section, _, number = place.partition(".")
        if number:
            found[section] = list(found[section])
            part = found[section][int(number)]
            found[section][int(number)] = {new if k == key else k: v for k, v in part.items()}
        else:
            found[section] = {new if k == key else k: v for k, v in found[section].items()}
    return found


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
