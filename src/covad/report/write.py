"""Everything that `covad report` leaves in a run directory."""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from covad import __version__
from covad.nplm.dataset import Float64
from covad.report.evidence import Evidence, read_evidence
from covad.report.formats.csv import csv_text
from covad.report.formats.hepdata import write_hepdata
from covad.report.formats.latex import latex_text
from covad.report.page import chapters_of, render
from covad.results.summary import Summary
from covad.storage.atomic import replacing, writing
from covad.storage.records import plain

PAGE = "report.html"
FOLDER = "report"
_PARTS = ("figures", "tables", "hepdata")
#: Raise it when code changes the page, a figure or a table.
REPORT_VERSION = 2
#: What the report shows beside the evidence.
_DATA_FILES = ("texts.yaml", "paper/paper.yaml", "templates/report.html.j2", "templates/report.css")
#: Beside the parts of a report: the digest of what it was drawn from.
_DRAWN_FROM = "drawn_from.txt"


def write_report(run: Path, summary: Summary, t: Mapping[str, Float64]) -> Path:
    """Write RUN/report.html and, in RUN/report, figures (PDF), tables (LaTeX, CSV) and a HEPData submission.

    `t` are the values of its toys, by the identity of their ensemble. A whole report of the same evidence,
    drawn by the same version, is left as it is.
    """
    evidence = read_evidence(run, summary, t)
    mark, digest = run / FOLDER / _DRAWN_FROM, _digest(evidence)
    whole = all(path.exists() for path in (run / PAGE, mark, *(run / FOLDER / part for part in _PARTS)))
    if whole and mark.read_text() == digest:
        return run / PAGE
    page = write_evidence(evidence, run)
    with writing(mark):
        mark.write_text(digest)
    return page


def _digest(evidence: Evidence) -> str:
    """Return a digest of all that a report shows, and of its own texts, but the time that stages took.

    A number that some check could not compute is NaN, which is content like any other here.
    """
    summary = evidence.summary.to_json()
    if summary["manifest"] is not None:
        summary["manifest"] = {key: summary["manifest"][key] for key in ("versions", "machine", "stages")}
    checks = {name: plain(found) for name, found in evidence.checks.items()}
    observed = [observation.to_json() for observation in evidence.observed]
    content = [__version__, REPORT_VERSION, summary, checks, observed, evidence.outdated]
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for toys in evidence.t.values():
        digest.update(toys.tobytes())
    for name in _DATA_FILES:
        digest.update(files("covad.report").joinpath(name).read_bytes())
    return digest.hexdigest()


def write_evidence(evidence: Evidence, run: Path) -> Path:
    """Write the report of given evidence; it replaces an earlier one once all new files are there."""
    chapters = chapters_of(evidence)
    folder, fresh, page = run / FOLDER, run / f".{FOLDER}.{secrets.token_hex(6)}.part", run / PAGE
    try:
        with writing(folder):
            for part in _PARTS:
                (fresh / part).mkdir(parents=True)
            for figure in (figure for chapter in chapters for figure in chapter.figures):
                for panel in figure.panels:
                    (fresh / "figures" / f"{panel.name}.pdf").write_bytes(panel.pdf)
            for table in (table for chapter in chapters for table in chapter.tables):
                (fresh / "tables" / f"{table.name}.tex").write_text(latex_text(table), encoding="utf-8")
                (fresh / "tables" / f"{table.name}.csv").write_text(csv_text(table), encoding="utf-8")
        write_hepdata(fresh / "hepdata", evidence, [table for c in chapters for table in c.tables])
        with writing(folder):
            shutil.rmtree(folder, ignore_errors=True)
            fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    with replacing(page) as temporary, writing(page):
        temporary.write_text(render(evidence, chapters), encoding="utf-8")
    return page
