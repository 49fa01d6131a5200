"""Tables as LaTeX: intervals, escapes, marks."""

from dataclasses import replace
from importlib.resources import files

import pytest
import report_world
from observations import observation

from covad.report.formats.latex import latex, latex_text
from covad.report.names import SIGNAL_ORDER, signal_label
from covad.report.page import chapters_of
from covad.report.paper.numbers import read_paper
from covad.report.paper.tables import paper_table
from covad.report.tables.significance import calibration_table
from covad.report.tables.toys import toys_table


@pytest.fixture(scope="module")
def evidence():
    return report_world.evidence(tests=("network", "convex"))


def test_latex_sets_intervals_and_escapes():
    text = latex_text(report_world.small_table())
    assert r"$1.08^{+0.11}_{-0.10}$ [$\geq$ 2.81]" in text
    assert r"A\_title" in text
    assert r"50 \% of $\chi^2$" in text
    assert r"\multicolumn{1}{c}{G}" in text


def test_latex_escapes_what_a_file_may_be_called():
    escaped = r"a\_b\$1\{2\}\textasciitilde{}\textasciicircum{}\textbackslash{}x.h5"
    assert latex(r"a_b$1{2}~^\x.h5") == escaped


def test_latex_has_a_command_for_every_symbol_of_the_report(evidence, monkeypatch):
    """Letters of names that others have chosen are left to LaTeX's own UTF-8."""
    monkeypatch.setattr("covad.report.figures.canvas.Canvas.savefig", report_world.write_nothing)
    observed = replace(evidence, observed=(observation("a.h5", 3.0),))
    tables = [table for chapter in chapters_of(observed) for table in chapter.tables]
    assert len(tables) > 15
    assert [text for table in tables if not (text := latex_text(table)).isascii()] == []
    captions = files("covad.report").joinpath("texts.yaml").read_text(encoding="utf-8")
    assert latex(captions).isascii()
    assert latex(" ".join(signal_label(name).text for name in SIGNAL_ORDER)).isascii()


def test_latex_says_that_the_papers_numbers_need_not_agree(evidence):
    note = "In brackets: the paper's numbers, from other samples, which need not agree."
    (spec,) = (table for table in read_paper().tables if table.label == "tab:validation_C")
    assert note in latex_text(paper_table(evidence.summary, spec))
    assert "In brackets" not in latex_text(toys_table(evidence.summary))


def test_a_significance_beyond_the_toys_has_a_dagger_that_is_explained(evidence):
    table = calibration_table(evidence.summary)
    marked = [cell for row in table.rows for cell in row.cells if cell.extrapolated]
    assert marked
    assert all(cell.value > 2.13 for cell in marked)  # 60 toys resolve 2.14
    value, up, down = marked[0].parts
    assert f"${value}^{{+{up}}}_{{-{down}}}$$^\\dagger$" in latex_text(table)
    assert "$^\\dagger$ beyond what toys of this study have tested." in latex_text(table)
    assert "beyond what toys" not in latex_text(toys_table(evidence.summary))
