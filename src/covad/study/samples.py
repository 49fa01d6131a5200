"""Samples of events in a study file."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import model_validator

from covad.settings import Count, Name, Positive, Settings


class SampleEntry(Settings):
    """Events of one kind: files that are there, or a number to simulate."""

    files: tuple[Path, ...] = ()
    simulate: Count | None = None
    engine: Literal["parametric", "pythia8"] = "parametric"
    lepton_filter: Positive = 23.0
    #: Other settings of a simulated process.
    variant: Name | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if bool(self.files) == (self.simulate is not None):
            raise ValueError("either files or simulate is needed: give one of them")
        if self.variant is not None and (self.files or self.engine != "parametric"):
            raise ValueError("variant: files and pythia8 have none: leave it out")
        return self

    def resolved(self, folder: Path) -> Self:
        """Return the sample with absolute paths, relative ones being those of a folder."""
        return self.model_copy(update={"files": tuple((folder / path).resolve() for path in self.files)})
