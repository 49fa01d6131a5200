"""Everything that `covad report` leaves in a run directory."""

from __future__ import annotations

import shutil
from pathlib import Path

from covad.atomic import replacing, writing
from covad.report.evidence import Evidence, read_evidence
from covad.report.hepdata import write_hepdata
from covad.report.page import Section, render, sections
from covad.report.table import csv_text, latex_text

PAGE = "report.html"
FOLDER = "report"


def write_report(run: Path) -> Path:
    """RUN/report.html and, in RUN/report, figures (PDF), tables (LaTeX, CSV) and a HEPData submission."""
    return write_evidence(read_evidence(run), run)


def write_evidence(evidence: Evidence, run: Path) -> Path:
    """The report of given evidence; the files of an earlier report are replaced."""
    chapters = sections(evidence)
    folder = run / FOLDER
    with writing(folder):
        shutil.rmtree(folder, ignore_errors=True)
        for part in ("figures", "tables", "hepdata"):
            (folder / part).mkdir(parents=True)
        _write_parts(folder, chapters)
    write_hepdata(folder / "hepdata", evidence, [table for c in chapters for table in c.tables])
    page = run / PAGE
    with replacing(page) as temporary, writing(page):
        temporary.write_text(render(evidence, chapters), encoding="utf-8")
    return page


def _write_parts(folder: Path, chapters: list[Section]) -> None:
    for chapter in chapters:
        for figure in chapter.figures:
            for panel in figure.panels:
                (folder / "figures" / f"{panel.name}.pdf").write_bytes(panel.pdf)
        for table in chapter.tables:
            (folder / "tables" / f"{table.name}.tex").write_text(latex_text(table), encoding="utf-8")
            (folder / "tables" / f"{table.name}.csv").write_text(csv_text(table), encoding="utf-8")
