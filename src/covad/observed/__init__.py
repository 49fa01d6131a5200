"""One observed event file against a finished run: what `covad test` does.

What the user has to guarantee is in docs/observed.md: above all, that no observed event is among the events
the run was made from.
"""

from covad.observed.examine import Question, examine, parse_auxiliary
from covad.observed.result import Observation

__all__ = ["Observation", "Question", "examine", "parse_auxiliary"]
