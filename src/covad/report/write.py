"""Everything that `covad report` leaves in a run directory."""

from __future__ import annotations

import hashlib
import secrets
import shutil
import time
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from covad import __version__
from covad.errors import FileFormatError
from covad.nplm.dataset import Float64
from covad.report.evidence import Evidence, read_evidence
from covad.report.figures.statistic import closure_picture
from covad.report.formats.csv import csv_text
from covad.report.formats.hepdata import write_hepdata
from covad.report.formats.latex import latex_text
from covad.report.page import chapters_of, render
from covad.results.summary import Summary
from covad.storage.atomic import replacing, write_json, writing
from covad.storage.digests import canonical, file_digest
from covad.storage.json_files import read_json
from covad.storage.records import plain

PAGE = "report.html"
FOLDER = "report"
_PARTS = ("figures", "tables", "hepdata")
#: Raise it when code changes the page, a figure or a table.
REPORT_VERSION = 12
#: What the report shows beside the evidence.
_DATA_FILES = (
    "texts.yaml",
    "paper/paper.yaml",
    "templates/report.html.j2",
    "templates/report.css",
    "templates/report.js",
)
#: Beside the parts of a report: the digest of what it was drawn from, and those of its files.
_DRAWN_FROM = "drawn_from.json"
_LEFT_SECONDS = 86_400.0
#: On top of a page that was made before the last observed file was tested.
_OUTDATED = (
    '<p class="samples" id="outdated">An observed file was tested after this page was made: '
    "<code>covad report RUN</code> shows it.</p>"
)


def write_report(run: Path, summary: Summary, t: Mapping[str, Float64]) -> Path:
    """Write RUN/report.html and, in RUN/report, figures (PDF), tables (LaTeX, CSV) and a HEPData submission.

    `t` are the values of its toys at the nominal yield, by the identity of their ensemble. A whole report of
    the same evidence, drawn by the same version, is left as it is.
    """
    evidence = read_evidence(run, summary, t)
    digest = _digest(evidence)
    if _is_whole(run, digest):
        return run / PAGE
    page, mark = write_evidence(evidence, run), run / FOLDER / _DRAWN_FROM
    drawn = (file for file in (page, *sorted((run / FOLDER).rglob("*"))) if file.is_file() and file != mark)
    files = {str(file.relative_to(run)): file_digest(file) for file in drawn}
    write_json(mark, {"evidence": digest, "files": files})
    return page


def _is_whole(run: Path, digest: str) -> bool:
    """Return whether the report of this evidence is there, and every file of it as it was drawn."""
    try:
        mark = read_json(run / FOLDER / _DRAWN_FROM)
        same = mark["evidence"] == digest
        return (
            same
            and all((run / FOLDER / part).is_dir() for part in _PARTS)
            and all(file_digest(run / file) == drawn for file, drawn in mark["files"].items())
        )
    except (OSError, FileFormatError, KeyError, TypeError, AttributeError):
        return False


def mark_outdated(run: Path) -> None:
    """Have the page of a run, if there is one, say that an observed file was tested since it was made.

    Drawing it anew takes as long as `covad report`, which then does so: the page is not as it was drawn.
    """
    page = run / PAGE
    try:
        text = page.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):  # there is none that anybody could read
        return
    if _OUTDATED not in text:
        with replacing(page) as temporary, writing(page):
            temporary.write_text(text.replace("<main>", f"<main>\n{_OUTDATED}", 1), encoding="utf-8")


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
    if evidence.yardsticks is not None:
        content.append(plain(evidence.yardsticks))
    digest = hashlib.sha256(canonical(content, allow_nan=True))
    for toys in evidence.t.values():
        digest.update(toys.tobytes())
    for name in _DATA_FILES:
        digest.update(files("covad.report").joinpath(name).read_bytes())
    return digest.hexdigest()


def write_evidence(evidence: Evidence, run: Path) -> Path:
    """Write the report of given evidence; it replaces an earlier one once all new files are there."""
    chapters, picture = chapters_of(evidence), closure_picture(evidence)
    figures = [
        *([picture] if picture else []),
        *(figure for chapter in chapters for figure in chapter.figures),
    ]
    folder, fresh, page = run / FOLDER, run / f".{FOLDER}.{secrets.token_hex(6)}.part", run / PAGE
    for leftover in run.glob(f".{FOLDER}.*.part"):  # of a killed process; nobody draws for so long
        if leftover.is_dir() and time.time() - leftover.stat().st_mtime > _LEFT_SECONDS:
            shutil.rmtree(leftover, ignore_errors=True)
    try:
        with writing(folder):
            for part in _PARTS:
                (fresh / part).mkdir(parents=True)
            for figure in figures:
                for panel in figure.panels:
                    (fresh / "figures" / f"{panel.name}.pdf").write_bytes(panel.pdf)
            for table in (table for chapter in chapters for table in chapter.tables):
                (fresh / "tables" / f"{table.name}.tex").write_text(latex_text(table), encoding="utf-8")
                (fresh / "tables" / f"{table.name}.csv").write_text(csv_text(table), encoding="utf-8")
        write_hepdata(fresh / "hepdata", evidence, [table for c in chapters for table in c.tables])
        written = sorted(str(file.relative_to(fresh)) for file in fresh.rglob("*") if file.is_file())
        with writing(folder):
            shutil.rmtree(folder, ignore_errors=True)
            fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    with replacing(page) as temporary, writing(page):
        temporary.write_text(render(evidence, chapters, picture, written), encoding="utf-8")
    return page
