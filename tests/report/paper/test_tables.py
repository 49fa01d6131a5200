"""The paper's tables with our numbers: right numbers at the right place, its own beside them."""

import pytest
import report_world

from covad.report.paper.numbers import read_paper
from covad.report.paper.tables import absent, other_tables, paper_table
from covad.report.tables.table import Column
from covad.results.summary import select


@pytest.fixture(scope="module")
def evidence():
    return report_world.evidence(tests=("network", "convex"))


def _spec(label):
    return next(table for table in read_paper().tables if table.label == label)


def _cells(table, keys):
    return next(row.cells for row in table.rows if row.keys == keys)


def test_the_paper_has_eleven_tables_with_these_numbers():
    paper = read_paper()
    assert len(paper.tables) == 11
    assert _spec("tab:validation_x2").value("covariant", "chi2 (25 dof)") == "0.7315"
    assert _spec("tab:validation_unlinearized").value("chi2", "+1", "KS") == "2.555e-28"
    assert _spec("unlinearized_with_nuisance").value("lq", "0.5 %", "0") == "-0.58 +0.07 -0.07"
    assert _spec("tab:validation_quadratic_sig").value("hpm", "1 %", "-1") == "2.43 +0.48 -0.16"
    assert _spec("tab:validation_E").value("hpm", "1 %", "nowhere") is None


def test_every_cell_of_the_papers_tables_is_filled():
    def leaves(values):
        for value in values.values():
            yield from leaves(value) if isinstance(value, dict) else [value]

    counts = [len(list(leaves(table.values))) for table in read_paper().tables]
    # p of 5 tests in 2 embeddings, closure p, Z of 4 signals at 2 injections and 3 nu (or 2 embeddings)
    assert counts == [10, 20, 20, 24, 24, 24, 24, 24, 16, 12, 24]


@pytest.mark.parametrize("spec", read_paper().tables, ids=lambda spec: spec.label)
def test_all_eleven_are_there_with_the_papers_numbers_for_the_network_only(evidence, spec):
    table = paper_table(evidence.summary, spec)
    assert table is not None
    by_test = {
        test: [c for row in table.rows if row.keys[0] == test for c in row.cells] for test in ("network",)
    }
    assert any(cell.paper for cell in by_test["network"])
    assert not any(cell.paper for row in table.rows if row.keys[0] == "convex test" for cell in row.cells)


def test_a_significance_stands_where_it_belongs(evidence):
    table = paper_table(evidence.summary, _spec("tab:validation_C"))
    (line,) = select(
        evidence.summary.significance,
        test="network",
        configuration="covariant-profiled",
        nu=(-1.0,),
        signal="lq",
        injected=50.0,
        null="R_+1",
    )
    cell = _cells(table, ("network", "ν = −1σ"))[table.columns.index(Column("0.5 %", "LQ → bτ"))]
    assert (cell.text, cell.value, cell.paper) == (line.text, line.z, "0.24 +0.07 -0.06")


def test_closure_p_values_stand_where_they_belong(evidence):
    table = paper_table(evidence.summary, _spec("tab:validation_unlinearized"))
    key = {"test": "network", "configuration": "contrastive-profiled", "point": "R_+1"}
    (line,) = select(evidence.summary.closure, **key)
    cell = _cells(table, ("network", "AD"))[table.columns.index(Column("ν = +1σ", "against R₀"))]
    assert cell.text == next(found.text for found in line.against_null if found.method == "AD")
    assert cell.paper == "0.0001"


def test_toys_of_other_sizes_are_not_compared(evidence):
    small = report_world.changed(evidence, "configurations", lambda _: {"expected": 1000.0}).summary
    tables = [paper_table(small, spec) for spec in read_paper().tables]
    assert not any(table.has_paper for table in tables if table)


def test_a_configuration_that_is_not_there_is_named():
    only = report_world.evidence((("covariant", "profiled", 1),)).summary
    spec = _spec("tab:validation_quadratic")
    assert paper_table(only, spec) is None
    assert "(covariant, profiled, quadratic)" in absent(only, spec)


def test_configurations_beyond_the_paper_get_tables_of_their_own(evidence):
    assert [table.name for table in other_tables(evidence.summary)] == ["closure_contrastive_none"]
    latent = report_world.evidence((("latent", "profiled", 1),), checked=False)
    names = [table.name for table in other_tables(latent.summary)]
    assert names == ["closure_latent_profiled", "z_r_0_latent_profiled", "z_law_latent_profiled"]


def test_tables_with_the_papers_z_say_that_its_intervals_hold_less(evidence):
    note = "the paper's of the null alone"
    specs = read_paper().tables
    told = {spec.label for spec in specs if note in paper_table(evidence.summary, spec).caption}
    assert told == {
        spec.label for spec in specs if paper_table(evidence.summary, spec).quantity == "median Z"
    }
    own = report_world.evidence((("latent", "profiled", 1),), checked=False)
    assert not any(note in table.caption for table in other_tables(own.summary))
