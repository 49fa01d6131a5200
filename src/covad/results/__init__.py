"""What the toys of a run say: every number of the report, as frozen classes and in summary.json."""

from covad.results.collect import RunToys, collect
from covad.results.compute import current_summary, summarise
from covad.results.lines import point_line, summary_lines
from covad.results.summary import Summary, read_summary, select

__all__ = [
    "RunToys",
    "Summary",
    "collect",
    "current_summary",
    "point_line",
    "read_summary",
    "select",
    "summarise",
    "summary_lines",
]
