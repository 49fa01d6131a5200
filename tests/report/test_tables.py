"""The tables of the report: right numbers at the right place, the paper's beside them where comparable."""

import csv
import io
from dataclasses import replace
from importlib.resources import files

import pytest
import report_world
import yaml
from observations import observation

from covad.errors import FileFormatError
from covad.inference.closure import Verdict
from covad.inference.intervals import Interval
from covad.report.formats.hepdata import check_submission, write_hepdata
from covad.report.names import SIGNAL_ORDER, latex, signal_label
from covad.report.page import sections
from covad.report.paper.numbers import read_paper
from covad.report.paper.tables import absent, other_tables, paper_table, papers_spread
from covad.report.tables import closure as closure_tables
from covad.report.tables import spaces as space_tables
from covad.report.tables.significance import calibration_table
from covad.report.tables.table import Cell, Column, Row, Table, csv_text, interval_cell, latex_text
from covad.report.tables.toys import toys_table
from covad.results.summary import select


@pytest.fixture(scope="module")
def evidence():
    return report_world.evidence(tests=("network", "convex"))


def _spec(label):
    return next(table for table in read_paper().tables if table.label == label)


def verdict_table(evidence):
    return closure_tables.verdict_table(evidence.summary, papers_spread)


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
    key = {"test": "network", "configuration": "contrastive-profiled", "nu": (1.0,)}
    (line,) = select(evidence.summary.closure, **key)
    cell = _cells(table, ("network", "AD"))[table.columns.index(Column("ν = +1σ", "against R₀"))]
    assert cell.text == next(found.text for found in line.against_null if found.test == "AD")
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


def test_toys_add_up(evidence):
    table = toys_table(evidence.summary)
    for row in table.rows:
        requested, done, failed, missing = (cell.value for cell in row.cells[:4])
        assert requested == done + failed + missing
    assert table.rows[-1].cells[0].value == sum(row.cells[0].value for row in table.rows[:-1])


def test_the_reach_is_a_bound_where_no_misfit_is_seen(evidence):
    texts = {row.keys[2]: row.cells[0].text for row in space_tables.reach_table(evidence.summary).rows}
    assert texts == {"ν = +1σ": "12 000 +3 000 -3 000", "ν = −1σ": ">= 8 000"}


def test_a_misfit_below_its_noise_has_no_size():
    few = report_world.evidence((("covariant", "profiled", 1),), injections=())
    lines = zip(few.summary.spaces[0].validation, (-0.07, 0.0, 0.05, 0.1), strict=True)
    changed = tuple(replace(line, residual_share=share) for line, share in lines)
    told = report_world.changed(few, "spaces", lambda _: {"validation": changed})
    cells = [row.cells[-1] for row in space_tables.validation_table(told.summary).rows]
    assert [cell.text for cell in cells] == ["none seen", "0.0", "5.0", "10.0"]
    assert cells[0].value is None


def test_learned_spaces_are_told_by_embedding_and_fold(evidence):
    embeddings = space_tables.embedding_table(evidence.summary)
    names = [("contrastive", "jet_energy_scale"), ("covariant", "jet_energy_scale")]
    assert [row.keys for row in embeddings.rows] == names
    cells = [cell.text for cell in embeddings.rows[0].cells]
    assert cells == ["93.10 ± 0.10", "85.0", "0.030", "5.0 +4.0 -5.0", "5.0 +4.0 -5.0"]
    folds = space_tables.fold_table(evidence.summary)
    assert [row.keys[2] for row in folds.rows] == ["0", "1"] * 3
    unfolded = report_world.changed(evidence, "spaces", lambda space: {"folds": space.folds[:1]})
    assert space_tables.fold_table(unfolded.summary) is None


def test_a_nuisance_is_called_as_the_study_calls_it():
    given = report_world.evidence((("covariant", "profiled", 1),), injections=())
    (space,) = given.summary.spaces
    second = tuple(replace(line, direction=(0.0, 1.0)) for line in space.linearity)
    two = report_world.changed(given, "spaces", lambda _: {"linearity": second}).summary
    (row,) = space_tables.embedding_table(two).rows
    assert row.keys == ("covariant", "ν2")
    source = two.study.source
    (known,) = source.systematics
    systematics = (known, known.model_copy(update={"name": "tau_scale"}))
    study = two.study.model_copy(update={"source": source.model_copy(update={"systematics": systematics})})
    (row,) = space_tables.embedding_table(replace(two, study=study)).rows
    assert row.keys == ("covariant", "tau_scale")


def test_a_linearity_that_could_not_be_measured_leaves_gaps():
    few = report_world.evidence((("covariant", "profiled", 1),), injections=())
    told = report_world.changed(few, "spaces", lambda _: {"linearity": ()})
    (row,) = space_tables.embedding_table(told.summary).rows
    assert [cell.text for cell in row.cells] == ["93.10 ± 0.10", "85.0", "–", "–", "–"]


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


def test_tables_with_the_papers_z_say_that_its_intervals_hold_less(evidence):
    note = "the paper's of the null alone"
    specs = read_paper().tables
    told = {spec.label for spec in specs if note in paper_table(evidence.summary, spec).caption}
    assert told == {
        spec.label for spec in specs if paper_table(evidence.summary, spec).quantity == "median Z"
    }
    own = report_world.evidence((("latent", "profiled", 1),), checked=False)
    assert not any(note in table.caption for table in other_tables(own.summary))


def _small_table(text="1.08 +0.11 -0.10"):
    cells = (Cell(text, 1.08, 0.98, 1.19, ">= 2.81"), Cell("<= 1e-06", 1e-6))
    return Table(
        "t", "A_title", "50 % of χ²", ("ν",), (Column("a", "G"), Column("b")), (Row(("0",), cells),), "Z"
    )


def test_latex_sets_intervals_and_escapes():
    text = latex_text(_small_table())
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
    tables = [table for section in sections(observed) for table in section.tables]
    assert len(tables) > 15
    assert [text for table in tables if not (text := latex_text(table)).isascii()] == []
    captions = files("covad.report").joinpath("texts.yaml").read_text(encoding="utf-8")
    assert latex(captions).isascii()
    assert latex(" ".join(signal_label(name).text for name in SIGNAL_ORDER)).isascii()


def test_latex_says_that_the_papers_numbers_need_not_agree(evidence):
    note = "In brackets: the paper's numbers (tab:validation\\_C), from other samples, which need not agree."
    assert note in latex_text(paper_table(evidence.summary, _spec("tab:validation_C")))
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


def _csv(*cells):
    rows = tuple(Row((str(n),), (cell,)) for n, cell in enumerate(cells))
    header, *lines = csv.reader(io.StringIO(csv_text(Table("t", "", "", ("n",), (Column("a"),), rows, "Z"))))
    return header[1:], [line[1:] for line in lines]


def test_csv_gives_numbers_columns_of_their_own():
    header, row = csv.reader(io.StringIO(csv_text(_small_table())))
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


def test_an_open_interval_is_written_as_such():
    assert interval_cell(1.0, Interval(0.5, None)).text == "1.00 +open -0.50"


def test_hepdata_is_valid_and_keeps_numbers_and_bounds(tmp_path, evidence):
    write_hepdata(tmp_path, evidence, [_small_table(), verdict_table(evidence)])
    submission = list(yaml.safe_load_all((tmp_path / "submission.yaml").read_text()))
    names = [document["name"] for document in submission[1:]]
    assert {"t", "closure_verdicts", "t_network_covariant_profiled"} <= set(names)
    assert submission[1]["description"] == "A_title. 50 % of χ²"
    assert submission[2]["description"].startswith(
        "Does it close, and does Z depend on ν? Background-only toys"
    )
    variable, bound = yaml.safe_load((tmp_path / "t.yaml").read_text())["dependent_variables"]
    assert variable["values"][0]["value"] == 1.08
    assert variable["values"][0]["errors"][0]["asymerror"] == {"plus": 0.11, "minus": -0.1}
    assert bound["values"][0]["value"] == "<= 1e-06"


def test_hepdata_labels_an_interval_with_its_level(tmp_path, evidence):
    write_hepdata(tmp_path, evidence, [closure_tables.shift_table(evidence.summary)])
    content = yaml.safe_load((tmp_path / "false_positives.yaml").read_text())["dependent_variables"]
    labels = [
        {error["label"] for value in variable["values"] for error in value.get("errors", ())}
        for variable in content
    ]
    assert labels == [{"95 % interval"}, *[{"68 % interval"}] * 3]


def test_a_broken_submission_is_refused(tmp_path, evidence):
    write_hepdata(tmp_path, evidence, [_small_table()])
    (tmp_path / "t.yaml").write_text("independent_variables: 3\n")
    with pytest.raises(FileFormatError, match="not a valid HEPData submission"):
        check_submission(tmp_path)
