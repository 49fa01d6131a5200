"""What the toys of a run say: every number of the report, as frozen classes and in summary.json."""

from covad.results.collect import RunToys, collect
from covad.results.compute import summarise, write_summary
from covad.results.lines import summary_lines
from covad.results.summary import Summary, read_summary, select

__all__ = [
    "RunToys",
    "Summary",
    "collect",
    "read_summary",
    "select",
    "summarise",
    "summary_lines",
    "write_summary",
]
