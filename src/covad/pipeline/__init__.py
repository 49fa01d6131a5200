"""The stages of a study in a run directory that can be left and taken up at any moment."""

from covad.pipeline.directory import RunDirectory
from covad.pipeline.stages import STAGES, choose_workers, open_sources, run_study

__all__ = ["STAGES", "RunDirectory", "choose_workers", "open_sources", "run_study"]
