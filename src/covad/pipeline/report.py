"""Summary and report of a run; not a stage, because they can be made of whatever toys there are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from covad.observed.lines import observation_lines
from covad.report import write_report
from covad.report.evidence import Evidence, read_answers
from covad.results import RunToys, Summary, collect, summary_lines
from covad.results.compute import current_summary
from covad.results.summary import SUMMARY
from covad.storage.sealed import write_sealed


@dataclass(frozen=True)
class Reported:
    """The summary and the answers that a report was made of, and its page."""

    evidence: Evidence
    page: Path

    @property
    def lines(self) -> Iterator[str]:
        """Yield the few lines that are printed: the summary, answers that hold, the page to open."""
        summary = self.evidence.summary
        yield from summary_lines(summary)
        for observation in self.evidence.observed:
            yield from observation_lines(observation, summary)
        for note in self.evidence.notes_on_answers:
            yield f"observed {note}"
        yield f"the report is {self.page}"


def report_run(path: Path) -> Reported:
    """Write RUN/summary.json and the report from what a run has."""
    toys = collect(path)
    summary = write_summary(toys)
    page = write_report(path, summary, toys.values)
    return Reported(read_answers(path, summary), page)


def write_summary(toys: RunToys) -> Summary:
    """Summarise a run, and keep the summary in it."""
    summary = current_summary(toys)
    write_sealed(toys.directory.path / SUMMARY, summary.to_json())
    return summary
