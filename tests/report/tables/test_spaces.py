"""Tables of the learned spaces."""

from dataclasses import replace

import pytest
import report_world

from covad.report.page import response
from covad.report.tables import spaces as space_tables
from covad.runs.smoothing import ClosureCheck, SmoothedPool


@pytest.fixture(scope="module")
def evidence():
    return report_world.evidence(tests=("network", "convex"))


def test_the_reach_is_a_bound_where_no_misfit_is_seen(evidence):
    texts = {row.keys[2]: row.cells[0].text for row in space_tables.reach_table(evidence.summary).rows}
    assert texts == {
        "prior average": "7 000 +1 500 -1 000",
        "ν = +1σ": "12 000 +3 000 -3 000",
        "ν = −1σ": ">= 8 000",
        "ν = +2σ": "3 000 +600 -500",
        "ν = −2σ": "12 000 +3 000 -3 000",
    }


def test_what_is_left_of_the_yield_is_told_as_a_shift_of_t(evidence):
    rows = space_tables.yield_table(evidence.summary).rows
    texts = [(row.keys[2], *(cell.text for cell in row.cells)) for row in rows[:2]]
    assert texts == [
        ("ν = −2σ", "0.9780", "0.9800", "-0.200 ± 0.050", "<= 0.30", "10000"),
        ("ν = +2σ", "1.0220", "1.0200", "0.200 ± 0.050", "0.20 +0.10 -0.20", "10000"),
    ]


def test_a_misfit_below_its_noise_has_no_size():
    few = report_world.evidence((("covariant", "profiled", 1),), injections=())
    lines = zip(few.summary.spaces[0].validation, (-0.07, 0.0, 0.05, 0.1), strict=True)
    changed = tuple(replace(line, residual_share=share) for line, share in lines)
    told = report_world.changed(few, "spaces", lambda _: {"validation": changed})
    cells = [row.cells[-1] for row in space_tables.validation_table(told.summary).rows]
    assert [cell.text for cell in cells] == ["none seen", "0.0", "5.0", "10.0"]
    assert cells[0].value is None


def test_learned_spaces_are_told_by_embedding_and_fold(evidence):
    embeddings = space_tables.separation_table(evidence.summary)
    names = [("contrastive", "jet_energy_scale"), ("covariant", "jet_energy_scale")]
    assert [row.keys for row in embeddings.rows] == names
    cells = [cell.text for cell in embeddings.rows[0].cells]
    assert cells == ["93.10 ± 0.10", "85.0", "0.030", "5.0 +4.0 -5.0", "5.0 +4.0 -5.0"]
    folds = space_tables.fold_table(evidence.summary)
    assert [row.keys[2] for row in folds.rows] == ["0", "1"] * 3
    assert [column.label for column in folds.columns[2:]] == ["prior average", "ν = ±1σ", "ν = ±2σ"]
    smallest = ["7 000 +1 500 -1 000", "12 000 +3 000 -4 000", "3 000 +600 -500"]
    assert [cell.text for cell in folds.rows[0].cells[2:]] == smallest
    unfolded = report_world.changed(evidence, "spaces", lambda space: {"folds": space.folds[:1]})
    assert space_tables.fold_table(unfolded.summary) is None


def test_a_nuisance_is_called_as_the_study_calls_it():
    given = report_world.evidence((("covariant", "profiled", 1),), injections=())
    (space,) = given.summary.spaces
    second = tuple(replace(line, direction=(0.0, 1.0)) for line in space.linearity)
    two = report_world.changed(given, "spaces", lambda _: {"linearity": second}).summary
    (row,) = space_tables.separation_table(two).rows
    assert row.keys == ("covariant", "ν2")
    source = two.study.source
    (known,) = source.systematics
    systematics = (known, known.model_copy(update={"name": "tau_scale"}))
    study = two.study.model_copy(update={"source": source.model_copy(update={"systematics": systematics})})
    (row,) = space_tables.separation_table(replace(two, study=study)).rows
    assert row.keys == ("covariant", "tau_scale")


def test_a_linearity_that_could_not_be_measured_leaves_gaps():
    few = report_world.evidence((("covariant", "profiled", 1),), injections=())
    told = report_world.changed(few, "spaces", lambda _: {"linearity": ()})
    (row,) = space_tables.separation_table(told.summary).rows
    assert [cell.text for cell in row.cells] == ["93.10 ± 0.10", "85.0", "–", "–", "–"]


def smoothed(pool, nu, moves, dof=3):
    closure = ClosureCheck(functions=4, largest_pull=1.5, chi2=4.2, dof=dof, p=0.24)
    return SmoothedPool(pool, nu, 12_000, 0.2, 9_000.4, 4_300.0, 102, 2, 0.123, closure, closure, moves)


def test_smoothed_weights_are_told_by_pool_and_of_the_prior_the_worst(evidence):
    assert space_tables.smoothing_table(evidence.summary) is None
    assert "smoothing" not in [table.name for table in response(evidence).tables]
    pools = (
        smoothed("reference", (0.0,), -0.3, dof=0),
        smoothed("data", (1.0,), 0.051),
        smoothed("prior", (0.4,), 0.1),
        smoothed("prior", (-0.7,), 0.25),
        smoothed("a4l", (0.0,), 0.0),
    )
    first = report_world.changed(
        evidence, "spaces", lambda space: {"smoothing": pools if space.name == "covariant_linear" else ()}
    )
    assert "smoothing" in [table.name for table in response(first).tables]
    table = space_tables.smoothing_table(first.summary)
    assert [row.keys for row in table.rows] == [
        ("covariant", "linear", "reference", "ν = 0"),
        ("covariant", "linear", "data", "ν = +1σ"),
        ("covariant", "linear", "A → 4ℓ", "ν = 0"),
        ("covariant", "linear", "prior", "worst of 2 points"),
    ]
    rows = [[cell.text for cell in row.cells] for row in table.rows]
    same = ["12 000", "20.0", "9 000", "4 300", "2 of 102", "0.123"]
    assert rows[0] == [*same, "–", "–", "none seen"], "all sums are decided by the smoothing"
    assert rows[1] == [*same, "0.24", "0.24", "0.051"]
    assert rows[3][-1] == "0.25"
    assert "{" not in table.caption
