"""A run directory: what a study has so far, and where it lies.

study.json       the study that the directory belongs to
manifest.json    seed, hashes, versions, machine, and the seconds that every stage has taken
events.json      the event files with their digests; events/ holds the simulated ones
models/          encoders and responses, with the state of a training that goes on
embedded/        events of the response and check pools at several nu, by content
pools/           embedded events that toys are drawn from, per embedding and order of the response
checks/          how well the responses describe fresh events
convex.json      the basis of the convex test, chosen once per configuration
clip.json        W per configuration, with the scan that led to it
toys/            blocks of pseudo-experiments
observed/        answers for observed files, one per question
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from covad.errors import FileFormatError
from covad.study import Collisions, Study, parse_study
from covad.study.plan import ConvexModels, Space, fixed_clips
from covad.toys.store import ToyStore

#: In a directory of pools: the standardisation of z.
SCALE = "scale.json"


@dataclass(frozen=True)
class RunDirectory:
    """Where a run keeps what it has, for reading: only the stages of `covad.pipeline` write."""

    path: Path

    @property
    def toys(self) -> ToyStore:
        return ToyStore(self.path / "toys")

    @property
    def events(self) -> Path:
        return self.path / "events"

    @property
    def observed(self) -> Path:
        return self.path / "observed"

    def model(self, embedding: str, fold: int = 0) -> Path:
        """Folder of an encoder and its responses."""
        return self.path / "models" / embedding / f"fold_{fold}"

    def encoder(self, embedding: str, fold: int = 0) -> Path:
        return self.model(embedding, fold) / "encoder.safetensors"

    def response(self, embedding: str, fold: int, order: int) -> Path:
        return self.model(embedding, fold) / f"response_{order}.safetensors"

    def pools(self, space: Space) -> Path:
        return self.path / "pools" / space_name(space)

    def check_file(self, space: Space) -> str:
        """Of the fold that the toys use."""
        return f"checks/{space_name(space)}.json"

    def check_files(self, source: Collisions, space: Space) -> dict[int, str]:
        """Of every fold."""
        others = {fold: f"checks/fold_{fold}/{space_name(space)}.json" for fold in range(source.folds)}
        return others | {source.fold: self.check_file(space)}

    def study(self) -> Study:
        content = self.read("study.json")
        if content is None:
            raise FileFormatError(f"{self.path}: is not a run directory, it has no study.json")
        return parse_study(content.get("study"), str(self.path / "study.json"))

    def clips(self) -> dict[str, float]:
        """W per configuration, given or tuned."""
        tuned = {name: float(choice["clip"]) for name, choice in self.tuned_clips().items()}
        return tuned | fixed_clips(self.study())

    def tuned_clips(self) -> dict[str, Any]:
        """How W was chosen, per configuration."""
        return self.read("clip.json") or {}

    def convex_models(self) -> ConvexModels:
        """Basis and ridge of the convex test, per configuration."""
        return {name: json.dumps(model) for name, model in self.stored_convex_models().items()}

    def stored_convex_models(self) -> dict[str, Any]:
        return self.read("convex.json") or {}

    def read(self, name: str) -> Any:
        """What a stage left behind, None if nothing."""
        path = self.path / name
        try:
            return json.loads(path.read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as failure:
            raise FileFormatError(f"{path}: cannot be read ({failure})") from failure


def space_name(space: Space) -> str:
    embedding, order = space
    return f"{embedding}_{'linear' if order == 1 else 'quadratic'}"
