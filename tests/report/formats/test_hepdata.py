"""The HEPData submission: valid, with numbers, bounds and levels."""

import pytest
import report_world
import yaml

from covad.errors import FileFormatError
from covad.report.formats.hepdata import check_submission, write_hepdata
from covad.report.paper import tables as paper
from covad.report.tables import closure as closure_tables


@pytest.fixture(scope="module")
def evidence():
    return report_world.evidence(tests=("network", "convex"))


def test_hepdata_is_valid_and_keeps_numbers_and_bounds(tmp_path, evidence):
    write_hepdata(
        tmp_path,
        evidence,
        [report_world.small_table(), closure_tables.verdict_table(evidence.summary, paper.spread)],
    )
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
    assert labels == [set(), *[{"90 % interval"}] * 3, *[{"68 % interval"}] * 3]


def test_a_broken_submission_is_refused(tmp_path, evidence):
    write_hepdata(tmp_path, evidence, [report_world.small_table()])
    (tmp_path / "t.yaml").write_text("independent_variables: 3\n")
    with pytest.raises(FileFormatError, match="not a valid HEPData submission"):
        check_submission(tmp_path)
