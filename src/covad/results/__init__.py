"""What the toys of a run say: every number of the report, under documented keys (docs/summary.md)."""

from covad.results.collect import RunToys, collect
from covad.results.headlines import headlines
from covad.results.summary import summarise, write_summary

__all__ = ["RunToys", "collect", "headlines", "summarise", "write_summary"]
