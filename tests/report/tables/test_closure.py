"""Verdicts, and what calibrates false positives."""

import pytest
import report_world

from covad.inference.closure import Verdict
from covad.report.paper import tables as paper
from covad.report.tables import closure as closure_tables


@pytest.fixture(scope="module")
def evidence():
    return report_world.evidence(tests=("network", "convex"))


def verdict_table(evidence):
    return closure_tables.verdict_table(evidence.summary, paper.spread)


@pytest.mark.parametrize(
    ("verdict", "word", "good"),
    [
        (Verdict.CLOSES, "closes", True),
        (Verdict.DOES_NOT_CLOSE, "does not close", False),
        (Verdict.CANNOT_TELL, "cannot tell yet", None),
    ],
)
def test_a_verdict_has_three_values_and_a_colour_only_where_it_is_known(evidence, verdict, word, good):
    first = evidence.summary.closure[0]  # one nu of several decides
    told = report_world.changed(
        evidence, "closure", lambda line: {"verdict": Verdict.CLOSES if line is first else verdict}
    )
    cells = [row.cells[0] for row in verdict_table(told).rows]
    assert {(cell.text, cell.good) for cell in cells} == {(word, good)}


def test_the_spread_of_every_configuration_stands_beside_its_verdict(evidence):
    table = verdict_table(evidence)
    spread = [column.label for column in table.columns].index("spread of Z over ν")
    papers = {row.keys: row.cells[spread].paper for row in table.rows if row.cells[spread].paper}
    assert papers == {
        ("network", "contrastive, profiled"): "0.95",
        ("network", "covariant, profiled"): "0.16",
    }


def test_false_positives_say_what_calibrates_them(evidence):
    table = closure_tables.shift_table(evidence.summary)
    by = {(row.keys[0], row.keys[3]) for row in table.rows}
    assert by == {("network", "R₀"), ("convex test", "generalised χ²")}
    for caption in (table.caption, verdict_table(evidence).caption):
        assert "R₀ for the network and by the generalised χ²" in caption.replace("\n", " ")
