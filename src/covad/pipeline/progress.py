"""Which learning stages of a study are done, from what lies in its run directory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from covad.pipeline.directory import RunDirectory
from covad.study import Collisions, Study
from covad.toys.pools import MANIFEST


@dataclass(frozen=True)
class StageProgress:
    """Parts of a stage that are done; `note` says how far the next one is."""

    stage: str
    done: int
    parts: int
    note: str = ""

    @property
    def finished(self) -> bool:
        return self.done == self.parts


def learning_progress(study: Study, directory: RunDirectory) -> list[StageProgress]:
    """Empty for a study that does not start from collisions."""
    if not isinstance(study.source, Collisions):
        return []
    source = study.source
    models = list(product(source.embeddings, range(source.folds)))
    trained = [directory.encoder(*model).exists() for model in models]
    responses = [
        directory.response(name, fold, order).exists()
        for (name, fold) in models
        for order in sorted({order for embedding, order in study.spaces if embedding == name})
    ]
    pools = [(directory.pools(space) / MANIFEST).exists() for space in study.spaces]
    checks = [
        (directory.path / file).exists()
        for space in study.spaces
        for file in directory.check_files(source, space).values()
    ]
    notes = "; ".join(_training(directory, models, trained, source.training.steps))
    events = int((directory.path / "events.json").exists())
    return [
        StageProgress("events", events, 1, "" if events else f"{_written(directory)} files written"),
        StageProgress("encoder", sum(trained), len(trained), notes),
        StageProgress("response", sum(responses), len(responses)),
        StageProgress("pools", sum(pools), len(pools)),
        StageProgress("checks", sum(checks), len(checks)),
    ]


def _written(directory: RunDirectory) -> int:
    return len(list(directory.events.glob("*.h5")))


def _training(
    directory: RunDirectory, models: list[tuple[str, int]], trained: list[bool], steps: int
) -> Iterator[str]:
    """Where unfinished trainings are, from their metrics."""
    for model, done in zip(models, trained, strict=True):
        metrics = directory.model(*model) / "metrics.jsonl"
        if not done and metrics.exists():
            last = json.loads(metrics.read_text().splitlines()[-1])
            yield f"{model[0]}, fold {model[1]}: step {last['step']} of {steps}"
