"""One page with the evidence of a run, its figures and its tables. Nothing is computed here."""

from covad.report.write import write_report

__all__ = ["write_report"]
