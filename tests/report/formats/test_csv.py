"""Tables as CSV: numbers in columns of their own."""

import csv
import io

import pytest
import report_world

from covad.report.formats.csv import csv_text
from covad.report.paper.numbers import read_paper
from covad.report.paper.tables import paper_table
from covad.report.tables.table import Cell, Column, Row, Table


@pytest.fixture(scope="module")
def evidence():
    return report_world.evidence(tests=("network", "convex"))


def _csv(*cells):
    rows = tuple(Row((str(n),), (cell,)) for n, cell in enumerate(cells))
    header, *lines = csv.reader(io.StringIO(csv_text(Table("t", "", "", ("n",), (Column("a"),), rows, "Z"))))
    return header[1:], [line[1:] for line in lines]


def test_csv_gives_numbers_columns_of_their_own():
    header, row = csv.reader(io.StringIO(csv_text(report_world.small_table())))
    paper = ["G, a (paper)", "G, a (paper) note"]
    assert header == ["ν", "G, a", "G, a low", "G, a high", *paper, "b", "b note"]
    assert row == ["0", "1.08", "0.98", "1.19", "2.81", ">=", "1e-06", "<="]


def test_csv_notes_what_is_no_plain_number():
    header, lines = _csv(
        Cell("3.20 +0.10 -0.10", 3.2, 3.1, 3.3, extrapolated=True),
        Cell(">= 8 000", None, 8000.0, None),
        Cell("<= 5.8", None, None, 5.8),
        Cell("not resolved"),
        Cell(),
    )
    assert header == ["a", "a low", "a high", "a note"]
    assert lines == [
        ["3.2", "3.1", "3.3", "†"],
        ["8000", "8000", "", ">="],
        ["5.8", "", "5.8", "<="],
        ["", "", "", "not resolved"],
        ["", "", "", ""],
    ]


def test_csv_splits_the_papers_intervals_and_leaves_words_alone():
    header, lines = _csv(Cell("1.00", 1.0, paper="-0.58 +0.07 -open"), Cell("2.00", 2.0, paper="0.7315"))
    assert header == ["a", "a (paper)", "a (paper) high"]
    assert lines == [["1", "-0.58", "-0.51"], ["2", "0.7315", ""]]
    assert _csv(Cell("closes", good=True), Cell("cannot tell yet")) == (
        ["a"],
        [["closes"], ["cannot tell yet"]],
    )


@pytest.mark.parametrize("spec", read_paper().tables, ids=lambda spec: spec.label)
def test_csv_reads_every_number_of_the_paper(evidence, spec):
    header, *lines = csv.reader(io.StringIO(csv_text(paper_table(evidence.summary, spec))))
    theirs = [n for n, name in enumerate(header) if name.endswith("(paper)")]
    assert theirs
    assert all(float(line[n]) > -1 for line in lines for n in theirs if line[n])
