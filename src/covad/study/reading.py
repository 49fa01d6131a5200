"""Reading study files: every mistake is one sentence that names the key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from covad.errors import FileFormatError, StudyError
from covad.settings import describe_mistake
from covad.storage.yaml_files import read_yaml
from covad.study.model import Study
from covad.study.sources import KINDS, Collisions, PoolSection
from covad.study.systematics import SYSTEMATIC_KINDS


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
