"""A run directory: what a study has so far, and where it lies.

study.json       the study that the directory belongs to
manifest.json    seed, hashes, versions, machine, and the seconds that every stage has taken
events.json      the event files with their digests; events/ holds the simulated ones
models/          encoders and responses, with the state of a training that goes on
embedded/        events of the response and check splits at several nu, by content
pools/           embedded events that toys are drawn from, per embedding and order of the response
checks/          how well the responses describe fresh events
basis.json       basis and ridge of the convex test, by the slug of the configuration
clip.json        W of the network with the scan that led to it, by the slug of the configuration
toys/            blocks of pseudo-experiments
observed/        answers for observed files, one per question
learning.lock    who makes what toys share at the moment; toys.*.lock: who computes toys
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from covad.errors import CovadError, FileFormatError
from covad.nplm.convex.basis import GaussianBasis
from covad.nplm.convex.convex import ConvexTest
from covad.study import Collisions, Study, parse_study
from covad.study.plan import Space, fixed_clips
from covad.toys.store import ToyStore

#: Raised whenever a change of covad changes what a run directory holds.
FORMAT = 3
#: W of the network.
CLIPS = "clip.json"
#: Basis and ridge of the convex test.
BASIS = "basis.json"
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
        """Return the folder of an encoder and its responses."""
        return self.path / "models" / embedding / f"fold_{fold}"

    def encoder(self, embedding: str, fold: int = 0) -> Path:
        return self.model(embedding, fold) / "encoder.safetensors"

    def response(self, embedding: str, fold: int, order: int) -> Path:
        return self.model(embedding, fold) / f"response_{order}.safetensors"

    def pools(self, space: Space) -> Path:
        return self.path / "pools" / space_name(space)

    def check_file(self, space: Space) -> str:
        """Name the file of the fold that the toys use."""
        return f"checks/{space_name(space)}.json"

    def check_files(self, source: Collisions, space: Space) -> dict[int, str]:
        """Name the file of every fold."""
        others = {fold: f"checks/fold_{fold}/{space_name(space)}.json" for fold in range(source.folds)}
        return others | {source.fold: self.check_file(space)}

    def study(self) -> Study:
        content = self.origin()
        if content is None:
            raise FileFormatError(f"{self.path}: is not a run directory, it has no study.json")
        return parse_study(content.get("study"), str(self.path / "study.json"))

    def origin(self) -> dict[str, Any] | None:
        """Return the study of the run and the digest of its source, None if there is none yet.

        Raise a FileFormatError if another version of covad wrote the directory.
        """
        content = self.read("study.json")
        if content is None:
            return None
        if not isinstance(content, dict):
            raise FileFormatError(f"{self.path / 'study.json'}: a JSON object was expected")
        if content.get("format") != FORMAT:
            raise FileFormatError(
                f"{self.path / 'study.json'}: another version of covad made this run, and this one cannot "
                "read it: start again in a new run directory"
            )
        return content

    def clips(self) -> dict[str, float]:
        """Return W by slug, given or tuned."""
        tuned = {name: float(choice["clip"]) for name, choice in self.tuned_clips().items()}
        return tuned | fixed_clips(self.study())

    def tuned_clips(self) -> dict[str, Any]:
        """Return how W was chosen, by slug."""
        return self.read(CLIPS) or {}

    def bases(self) -> dict[str, ConvexTest]:
        """Return the convex test with the basis and ridge that were chosen, by slug."""
        stored = self.read(BASIS)
        try:
            return {} if stored is None else {slug: restore_convex(test) for slug, test in stored.items()}
        except (AttributeError, KeyError, TypeError, CovadError) as failure:
            raise FileFormatError(f"{self.path / BASIS}: cannot be understood ({failure})") from failure

    def read(self, name: str) -> Any:
        """Return what a stage left behind, None if nothing."""
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


def plain_convex(test: ConvexTest) -> dict[str, Any]:
    """Return basis and ridge of a convex test as JSON data."""
    if not isinstance(test.basis, GaussianBasis):
        raise TypeError("only a basis of bumps is stored")
    arrays = {name: array.tolist() for name, array in test.basis.arrays().items()}
    return {"ridge": test.ridge, "basis": test.basis.settings(), "arrays": arrays}


def restore_convex(content: dict[str, Any]) -> ConvexTest:
    """Return the convex test that `plain_convex` described."""
    arrays = {name: np.array(values) for name, values in content["arrays"].items()}
    return ConvexTest(GaussianBasis.restore(arrays, content["basis"]), content["ridge"])
