"""The answer for an observed file: the one p to quote, and its JSON form."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from observations import observation, significance

from covad.errors import FileFormatError, UnknownNameError
from covad.nplm.fit import Status
from covad.observed.result import SCHEMA, Answer, Observation, read_observations
from covad.pipeline.observation import store_observation
from covad.runs.directory import RunDirectory
from covad.storage.sealed import write_sealed


def test_a_file_of_the_run_is_read_as_an_answer_and_its_seal_is_checked(tmp_path):
    told = observation("a.h5", 1.0)
    store_observation(tmp_path, told)
    text = (RunDirectory(tmp_path).observed / "a.json").read_text()
    assert Observation.from_json(text) == Observation.from_json(told.to_json())
    edited = text.replace('"n_selected": 10100', '"n_selected": 10101')
    assert edited != text
    with pytest.raises(FileFormatError, match=r"answer\.json: is damaged or was changed by hand"):
        Observation.from_json(edited, "answer.json")


def test_an_answer_of_the_schema_before_is_read_and_has_no_impacts():
    content = observation("a.h5", 1.0).plain()
    content["schema"] = SCHEMA - 1
    for test in content["tests"]:
        del test["impacts"], test["constraints_with_h"]
    for nuisance in content["nuisances"]:
        del nuisance["constraint"]
    del content["correlations"]
    found = Observation.from_plain(content, "here")
    assert found == observation("a.h5", 1.0)
    assert found.impacts == ()
    assert found.nuisances[0].constraint is found.correlations is None


NETWORK = replace(
    observation("a.h5", 1.0).tests[0],
    significances=tuple(significance(null, z) for null, z in (("R_0", 2.0), ("R_+1", 1.5), ("chi2", 0.5))),
)
CONVEX = replace(
    NETWORK,
    test="convex",
    quoted="analytic",
    how="law of t at the fitted nuisances",
    significances=tuple(
        significance(null, z) for null, z in (("R_0", 1.75), ("R_+1", 1.0), ("analytic", 1.25))
    ),
)
JOINT = significance("joint", 1.625)


@pytest.mark.parametrize(
    ("rule", "quoted", "check"),
    [
        ("network", NETWORK.significances[0], NETWORK.significances[1].p),
        ("convex", CONVEX.significances[2], CONVEX.significances[1].p),
        ("joint", JOINT, None),
    ],
)
def test_the_rule_decides_what_is_quoted_and_the_largest_p_over_toys_is_a_check(rule, quoted, check):
    for tests in ((NETWORK, CONVEX), (CONVEX, NETWORK)):
        answer = Answer.of(rule, "here", tests, JOINT)
        assert (answer.rule, answer.configuration, answer.status) == (rule, "here", Status.CONVERGED)
        assert (answer.null, answer.p, answer.z) == (quoted.null, quoted.p, quoted.z)
        assert answer.largest_p == check
    told = replace(observation("a.h5", 1.0), rule=rule, tests=(NETWORK, CONVEX), joint=JOINT)
    assert (told.answer.p, told.answer.z) == (told.p, told.z) == (quoted.p, quoted.z)
    assert (told.answer.rule, told.answer.configuration) == (rule, told.configuration)


@pytest.mark.parametrize(
    ("rule", "failed", "said"),
    [
        ("convex", "convex", "the fit of the convex test failed"),
        ("convex", "network", None),
        ("network", "network", "the fit of the network test failed"),
        ("joint", "network", "the fit of one of the tests failed"),
        ("joint", "convex", "the fit of one of the tests failed"),
    ],
)
def test_a_failed_fit_leaves_no_answer_where_the_rule_needs_it(rule, failed, said):
    lost = {"status": Status.FAILED, "t": None, "significances": (), "excess": None}
    tests = [replace(test, **lost) if test.test == failed else test for test in (CONVEX, NETWORK)]
    answer = Answer.of(rule, "here", tests, None)
    if said is None:
        assert (answer.p, answer.status) == (CONVEX.significances[2].p, Status.CONVERGED)
        return
    assert (answer.null, answer.p, answer.z, answer.largest_p) == (None, None, None, None)
    assert answer.status is Status.FAILED
    assert answer.line == f"result: none, because {said}"


@pytest.mark.parametrize(
    ("rule", "found", "said"),
    [
        (
            "network",
            significance("R_0", 0.5),
            (
                "p = 0.309, Z = 0.50 (the network test, toys at the fitted yield; "
                "largest p over toys at every nu: 0.309)"
            ),
        ),
        ("network", significance("R_0", 2.0, True), "p <= 0.0228, Z >= 2.00 (the network test, toys"),
        ("network", significance("R_0", -2.81, True), "p = 0.998, Z <= -2.81 (the network test, toys"),
        (
            "convex",
            significance("analytic", 5.0, extrapolated=True),
            (
                "p = 2.87e-07, Z = 5.00 (the convex test, law of t at the fitted nuisances, † beyond what "
                "toys of this study have tested)"
            ),
        ),
        (
            "joint",
            significance("joint", 3.0, True),
            "p <= 0.00135, Z >= 3.00 (both tests, the smaller p, by toys that both have)",
        ),
    ],
)
def test_the_one_line_says_how_p_was_made_and_is_honest_about_bounds(rule, found, said):
    tests = [replace(test, significances=(found,)) for test in (CONVEX, NETWORK)]
    assert Answer.of(rule, "here", tests, JOINT if rule != "joint" else found).line.startswith(
        f"result: {said}"
    )


def test_a_fit_that_did_not_converge_is_said_in_the_line():
    tests = (replace(NETWORK, status=Status.UNCONVERGED), CONVEX)
    assert "its fit ended as 'unconverged')" in Answer.of("network", "here", tests, JOINT).line
    assert "its fit ended as 'unconverged')" in Answer.of("joint", "here", tests, JOINT).line
    assert "ended" not in Answer.of("convex", "here", tests, JOINT).line


def test_a_failed_fit_has_neither_t_nor_p():
    failed = observation("a.h5", 1.0).result("convex")
    assert (failed.t, failed.p, failed.z, failed.significance) == (None, None, None, None)


def test_a_test_that_the_study_does_not_have_is_named():
    with pytest.raises(UnknownNameError, match=r"a\.h5 was not tested by 'adaptive' .*network, convex"):
        observation("a.h5", 1.0).result("adaptive")


def test_json_keeps_everything_to_the_bit():
    told = observation("a.h5", float(np.nextafter(0.1, 1.0)))
    open_ended = replace(told.nuisances[0], pull=-np.inf)  # a nuisance that the data do not tell
    told = replace(told, nuisances=(open_ended,))
    assert Observation.from_json(told.to_json()) == told


def test_answers_are_stored_and_read_in_the_order_of_their_names(tmp_path):
    answers = tuple(observation(f"{name}.h5", 1.0) for name in "abc")
    for answer in reversed(answers):
        store_observation(tmp_path, answer)
    assert read_observations(RunDirectory(tmp_path)) == answers
    store_observation(tmp_path, replace(answers[0], n_selected=3))
    assert [answer.n_selected for answer in read_observations(RunDirectory(tmp_path))] == [3, 10_100, 10_100]


def test_the_lines_of_the_documentation_work(tmp_path, monkeypatch):
    (tmp_path / "answer.json").write_text(observation("a.h5", 1.0).to_json())
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "test-observed-data.md").read_text()
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    exec(code, found := {})
    assert found["network"] == observation("a.h5", 1.0).result("network")


def _without(key):
    def change(content):
        del content[key]

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_without("sha256"), "sha256"),
        (_without("result"), "its 'result' is not that of its tests"),
        (lambda content: content["result"].update(p=1e-9), "its 'result' is not that of its tests"),
        (lambda content: content.update(extra=1), "extra"),
        (lambda content: content["tests"][0].pop("t"), r"tests\.0\.t"),
        (
            lambda content: content["tests"][0]["significances"][1].update(q=1),
            r"significances\.1\.q",
        ),
        (lambda content: content["tests"][0].update(status="lost"), r"tests\.0\.status"),
        (lambda content: content["nuisances"][0].update(pull="wide"), r"nuisances\.0\.pull"),
        (lambda content: content.update(schema=1), rf"schema {SCHEMA} \(it has 1\)"),
        (_without("schema"), rf"schema {SCHEMA} \(it has None\)"),
    ],
)
def test_other_contents_are_refused_in_one_sentence(tmp_path, change, message):
    content = json.loads(observation("a.h5", 1.0).to_json())
    change(content)
    path = tmp_path / "observed" / "a.json"
    write_sealed(path, content)
    with pytest.raises(FileFormatError, match=rf"^{path}: .*{message}") as refused:
        read_observations(RunDirectory(tmp_path))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ['{"schema": 2', "[]", "3", "\udcff"])
def test_what_is_no_observation_at_all_is_refused(text):
    with pytest.raises(FileFormatError, match=r"^a\.json: "):
        Observation.from_json(text, "a.json")
