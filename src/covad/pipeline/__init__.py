"""The stages of a study in a run directory that can be left and taken up at any moment.

This room alone writes a run.
"""

from covad.pipeline.stages import STAGES, choose_workers, dry_run, run_study

__all__ = ["STAGES", "choose_workers", "dry_run", "run_study"]
