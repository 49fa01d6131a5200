"""Summary and report of a run; not a stage, because they can be made of whatever toys there are."""

from __future__ import annotations

from pathlib import Path

from covad.report import write_report
from covad.results import RunToys, Summary, collect
from covad.results.compute import current_summary
from covad.results.summary import SUMMARY
from covad.storage.sealed import write_sealed


def report_run(path: Path) -> tuple[Summary, Path]:
    """Write RUN/summary.json and the report from what a run has; return the summary and the page."""
    toys = collect(path)
    summary = write_summary(toys)
    return summary, write_report(path, summary, toys.values)


def write_summary(toys: RunToys) -> Summary:
    """Summarise a run, and keep the summary in it."""
    summary = current_summary(toys)
    write_sealed(toys.directory.path / SUMMARY, summary.to_json())
    return summary
