"""A run directory: what a study has so far, and where it lies.

study.json       the study that the directory belongs to
manifest.json    seed, hashes, versions, machine, and the seconds that every stage has taken
events.json      the event files with their digests; events/ holds the simulated ones, and in
                 events/fingerprints two fingerprints per event of every sample
yields.json      what is expected of every process, where the study or the files say more than one event each
separate.json    what events of separate samples count in the place of their process
selected.json    how many events of every role pass the cuts
models/          spaces and responses, with the state of a training that goes on
embedded/        events of the response and check splits at several nu, by content
pools/           embedded events that toys are drawn from, per space and order of the response
checks/          how well the responses describe fresh events
basis/           basis and ridge of the convex test, for every configuration
members/         scales and ridges of the adaptive test, for every configuration
clip/            W of the network with the scan that led to it, for every configuration
made/            notes of all that the stages made: sizes, digests, recipes
toys/            blocks of pseudo-experiments
aside/           what was made for the study as it was before, by digest
observed/        answers for observed files, one per question
power/           what `covad tune-power` and `covad bench power` found; power/toys: yardsticks by toy
learning.lock    who makes what toys share at the moment; toys.*.lock: who computes toys
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from covad.errors import FileFormatError
from covad.storage.json_files import read_json
from covad.storage.sealed import read_sealed, telling, unsealed
from covad.study import Study, parse_study
from covad.study.plan import Space
from covad.study.reading import translated
from covad.toys.store import ToyStore

#: Raised whenever a change of covad changes what a run directory holds.
FORMAT = 4
#: In a directory of pools: the standardisation of z.
SCALE = "scale.json"
#: There too, where weights are negative: how they were smoothed.
SMOOTHING = "smoothing.json"
#: What to do about sealed files that are damaged. Products do not depend on their content, but on digests in
#: recipes: what was made from other events or settings is not taken for current.
_REMEDIES = {
    "study.json": "delete it and run the same study again: what was made for it is kept",
    "events.json": "delete it and run again: the digests are taken anew, and files that have changed since "
    "make everything anew",
    "manifest.json": "run again: it is written anew, without the times so far",
    "summary.json": "`covad report` writes it anew",
    "power/tuning.json": "`covad tune-power` writes it anew",
    "power/yardsticks.json": "`covad bench power` writes it anew",
}


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

    def model(self, space: str, fold: int = 0) -> Path:
        """Return the folder of a space and its responses."""
        return self.path / "models" / space / f"fold_{fold}"

    def study(self) -> Study:
        content = self.origin()
        if content is None:
            raise FileFormatError(
                f"{self.path}: is not a run directory, it has no study.json; "
                f"`covad run STUDY.yaml --out {self.path}` makes one"
            )
        return parse_study(content.get("study"), str(self.path / "study.json"))

    def origin(self) -> dict[str, Any] | None:
        """Return the study of the run and the digest of its source, None if there is none yet.

        Raise a FileFormatError if another version of covad wrote the directory.
        """
        path = self.path / "study.json"
        with telling(_REMEDIES[path.name]):
            content = read_json(path)
            if content is None:
                return None
            if not isinstance(content, dict):
                raise FileFormatError(f"{path}: a JSON object was expected")
        if content.get("format") != FORMAT:
            raise FileFormatError(
                f"{path}: another version of covad made this run, and this one cannot read it: start again "
                "in a new run directory"
            )
        with telling(_REMEDIES[path.name]):
            found = unsealed(content, str(path))
        return found | {"study": translated(found["study"])} if "study" in found else found

    def read(self, name: str) -> dict[str, Any] | None:
        """Return a sealed file of the run, None if there is none."""
        return read_sealed(self.path / name, _REMEDIES.get(name, ""))


def space_name(space: Space) -> str:
    name, order = space
    return f"{name}_{'linear' if order == 1 else 'quadratic'}"
