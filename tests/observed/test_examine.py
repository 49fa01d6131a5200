"""`covad test` on a whole, tiny run: every stage is real, but nothing is learned in four training steps."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from click.testing import CliRunner
from event_files import write_events
from finished_run import EVERYWHERE, make_run, simulated
from observations import failed_convex
from samples import random_events
from scipy.stats import norm

import covad
from covad.cli.main import commands
from covad.errors import (
    CovadError,
    DuplicateEventsError,
    FileFormatError,
    FileWriteError,
    LayoutError,
    NotKeptWarning,
    StudyError,
    TooFewEventsError,
    UnfinishedRunError,
    UnknownNameError,
)
from covad.events.files import open_events
from covad.events.layout import Collection, EventLayout, Events, concatenate
from covad.events.processes import ADC2021_LAYOUT
from covad.events.selection import Selection
from covad.nplm.convex.convex import ConvexTest
from covad.nplm.fit import Status
from covad.nplm.likelihood import fit_nuisances
from covad.nplm.statistic import likelihood_ratio
from covad.observed.copies import refuse_events_of_run
from covad.observed.dataset import read_observed
from covad.observed.examine import digest_of_file, examine, fitted_yield
from covad.observed.inputs import compare_with_run
from covad.observed.result import Observation, read_observations
from covad.observed.run import FinishedRun
from covad.pipeline.claim import claim
from covad.pipeline.observation import store_observation
from covad.pipeline.report import report_run
from covad.report.evidence import read_evidence
from covad.results.collect import collect, joint_null
from covad.results.compute import summarise
from covad.runs.collisions import CollisionData
from covad.runs.directory import RunDirectory
from covad.storage.sealed import read_sealed, write_sealed

PROFILED, QUADRATIC, NONE = "covariant, profiled", "covariant, profiled, quadratic", "covariant, none"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("finished") / "run", **EVERYWHERE)


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulated(tmp_path_factory.mktemp("observed") / "observed.h5", "background", 210, seed=77)


def test_a_file_is_tested_against_every_null_of_the_run(run, observed):
    found = examine(run, observed)
    assert (found.configuration, found.label) == ("covariant-profiled", PROFILED)
    assert (found.n_file, found.n_selected, found.n_reference, found.expected) == (210, 210, 1000, 200)
    assert [test.test for test in found.tests] == ["convex", "network"], "the default test speaks first"
    nulls = [[line.null for line in test.significances] for test in found.tests]
    assert nulls == [["R_0", "R_+1", "analytic"], ["R_0", "R_+1", "chi2"]]
    for test in found.tests:
        assert test.t == pytest.approx(test.tau - test.delta)
        assert test.t >= -0.01
        # the rank of the file among itself and the 10 toys of each of five yields; for the network, which
        # needs more of them to tell how t moves with the yield, among those of one
        n = {"convex": 51, "network": 11}[test.test]
        assert test.significances[0].p * n == pytest.approx(round(test.significances[0].p * n))
        for line in test.significances:
            assert line.extrapolated == (not line.null.startswith("R_") and line.z > norm.isf(1 / n))
    assert [line.name for line in found.nuisances] == ["jet_energy_scale", "normalisation"]
    assert all(len(test.nu_with_h) == 2 for test in found.tests)
    convex, network = found.tests
    assert found.impacts == convex.impacts
    assert {impact.name for impact in found.impacts} == {"jet_energy_scale", "normalisation"}
    for impact in found.impacts:
        for end in (impact.down, impact.up, impact.prefit_down, impact.prefit_up):
            assert end.z - end.change == pytest.approx(convex.z)
    assert len(convex.constraints_with_h) == len(found.nuisances)
    assert (network.impacts, network.constraints_with_h) == ((), ())
    assert found.correlations.names == ("jet_energy_scale", "normalisation")
    assert found.compatibility.dof == 2
    few = (
        "the null of the network test has 10 toys per yield: its p may be off at yields far from the nominal "
        "one, 100 and more are needed"
    )
    assert found.warnings == (few,)


def test_the_answer_is_kept_and_is_the_same_again(run, observed, tmp_path):
    found = examine(run, observed)
    path = run / "observed" / f"{found.name}.json"
    assert store_observation(run, found)
    assert not store_observation(run, found), "the run has it already"
    assert Observation.from_plain(read_sealed(path), str(path)) == found
    assert found in read_observations(RunDirectory(run))
    moved = shutil.copy(observed, tmp_path / "renamed.h5")
    again = examine(run, Path(moved))
    assert replace(again, name=found.name, file=found.file) == found


def ask(run: Path, observed: Path, *options: object):
    """`covad test` in this process."""
    return CliRunner().invoke(commands, ["test", str(run), str(observed), *map(str, options)])


def test_the_last_line_is_the_result(run, observed, tmp_path):
    answer = examine(run, observed).answer
    *toys, law = examine(run, observed).result("convex").significances
    assert (answer.rule, answer.configuration) == ("convex", "covariant-profiled")
    assert (answer.null, answer.p, answer.z) == ("analytic", law.p, law.z)
    assert answer.largest_p == max(line.p for line in toys)
    said = ask(run, observed, "--json", tmp_path / "answer.json")
    assert said.exit_code == 0
    assert said.stdout.splitlines()[-1] == answer.line
    told = (
        f"result: p = {answer.p:.3g}, Z = {answer.z:.2f} (the convex test, law of t at the fitted nuisances"
    )
    assert answer.line.startswith(told)
    written = json.loads((tmp_path / "answer.json").read_text())["result"]
    assert (written["p"], written["z"], written["rule"]) == (answer.p, answer.z, "convex")
    assert written["configuration"] == "covariant-profiled"


def with_study(run: Path, copy: Path, **changes: object) -> Path:
    """Copy a run whose study says another thing, as `covad run` would leave it if no toy were missing."""
    shutil.copytree(run, copy)
    content = read_sealed(copy / "study.json")
    content["study"] |= changes
    write_sealed(copy / "study.json", content)
    return copy


def test_the_law_is_that_of_the_fitted_yield_and_toys_see_t_moved_to_theirs(run, observed, monkeypatch):
    """With other expectations the same data have another fitted yield: it decides what t is held against."""
    fitted, found_by = [], fitted_yield
    monkeypatch.setattr(
        "covad.observed.examine.fitted_yield", lambda *what: fitted.append(found_by(*what)) or fitted[-1]
    )
    opened = FinishedRun.open(run)
    convex = next(group for group in opened.groups if group.test == "convex")
    for expected in (200.0, 240.0):
        found = examine(run, observed, expected=expected)
        (fit,) = (line.fitted for line in found.nuisances if line.name == "normalisation")
        relative = fitted[-1]
        # an encoder that has learned nothing: the shape hardly changes the yield
        assert relative == pytest.approx(0.1 * fit + np.log(expected / 200.0), abs=0.03)
        moved = convex.moments.at_nominal(found.result("convex").t, relative)
        r_0, _, law = found.result("convex").significances
        assert r_0.t == pytest.approx(float(moved))
        assert law.t == found.result("convex").t
        # the law at the fitted yield, of another sample of the reference
        at_fitted = convex._analytic.at_yield(relative).law
        assert law.z == pytest.approx(float(norm.isf(at_fitted.sf(law.t))), abs=0.2)


@pytest.mark.parametrize("rule", ["network", "joint"])
def test_the_study_names_the_rule_beforehand(run, observed, tmp_path, rule):
    usual = examine(run, observed)
    found = examine(with_study(run, tmp_path / "copy", result=rule), observed)
    assert found.rule == found.answer.rule == rule
    assert found.joint == usual.joint
    if rule == "network":
        assert [test.test for test in found.tests] == ["network", "convex"]
        assert (found.p, found.answer.null) == (found.result("network").significances[0].p, "R_0")
        assert "(the network test, toys at the nominal yield; largest p over toys" in found.answer.line
    else:
        assert (found.p, found.answer.null) == (usual.joint.p, "joint")
        assert found.answer.largest_p is None
        assert "(both tests, the smaller p, by toys that both have)" in found.answer.line


def test_the_joint_p_is_that_of_toys_which_both_tests_have(run, observed):
    groups = {group.test: group for group in FinishedRun.open(run).groups}
    found = examine(run, observed)
    null = joint_null(groups["convex"], groups["network"])
    assert len(null.t) == 10, "without their moments, toys of other yields have no say"
    least = min(test.p for test in found.tests)
    assert found.joint.t == pytest.approx(-np.log(least))
    assert found.joint.p == float(null.p(-np.log(least)))


def test_one_failed_fit_leaves_no_joint_p(run, observed, tmp_path, monkeypatch):
    copy = with_study(run, tmp_path / "copy", result="joint")
    compute = likelihood_ratio

    def fail_network(dataset, test, seed, delta):
        outcome = compute(dataset, test, seed, delta)
        return outcome if isinstance(test, ConvexTest) else replace(outcome, status=Status.FAILED)

    monkeypatch.setattr("covad.observed.examine.likelihood_ratio", fail_network)
    found = examine(copy, observed)
    assert found.joint is None
    assert found.p is None
    assert found.result("convex").p is not None
    assert found.answer.line == "result: none, because the fit of one of the tests failed"


def test_a_json_file_that_cannot_be_written_does_not_cost_the_answer(run, observed, tmp_path):
    said = ask(run, observed, "--json", tmp_path / "nowhere" / "answer.json")
    assert isinstance(said.exception, FileWriteError)
    assert said.stdout.splitlines()[-1].startswith("result: p = ")


def test_a_run_that_cannot_be_written_still_answers(run, observed, tmp_path):
    """Root may write anywhere, but not into a file as if it were a folder."""
    copy = shutil.copytree(run, tmp_path / "copy", ignore=shutil.ignore_patterns("observed"))
    (copy / "observed").touch()
    before = {file: file.read_bytes() for file in copy.rglob("*") if file.is_file()}
    said = ask(copy, observed)
    assert said.exit_code == 0
    note, result = said.stdout.splitlines()[-2:]
    assert note.startswith(f"note: the answer was not stored in the run: {copy / 'observed'}")
    assert result == examine(run, observed).answer.line
    with pytest.warns(NotKeptWarning, match="the answer was not stored in the run"):
        assert covad.test(copy, observed) == examine(run, observed)
    assert {file: file.read_bytes() for file in copy.rglob("*") if file.is_file()} == before


def test_a_new_answer_outdates_the_page(run, observed, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy", ignore=shutil.ignore_patterns("observed"))
    page = copy / "report.html"
    page.write_text("<main>\n<p>Observed files: none was tested.</p></main>")
    covad.test(copy, observed)
    assert "An observed file was tested after this page was made" in page.read_text()
    page.write_text("<main>drawn again</main>")
    covad.test(copy, observed)
    assert page.read_text() == "<main>drawn again</main>", "it shows this answer already"


def test_without_a_result_the_exit_code_says_so(run, observed, monkeypatch):
    """No file makes the fit of the convex test fail, so that the answer is changed on its way."""
    found = examine(run, observed)
    changed = replace(found, name="failed", tests=(failed_convex(), *found.tests[1:]))
    monkeypatch.setattr("covad.pipeline.observation.examine", lambda *_, **__: changed)
    said = ask(run, observed)
    assert said.exit_code == 1
    assert said.stdout.splitlines()[-1] == "result: none, because the fit of the convex test failed"
    (run / "observed" / "failed.json").unlink()


def test_the_answer_to_one_question_does_not_replace_that_to_another(run, observed):
    usual = examine(run, observed)
    assert usual.name.endswith("-covariant-profiled")
    same = examine(run, observed, expected=200, auxiliary={"jet_energy_scale": 0})
    assert same == usual
    others = (
        {"expected": 220.0},
        {"auxiliary": {"jet_energy_scale": 1.0}},
        {"auxiliary": {"normalisation": 1.0}},
    )
    names = {usual.name, *(examine(run, observed, **question).name for question in others)}
    assert len(names) == 4


def test_a_damaged_block_of_a_null_is_named(run, observed, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run")
    for block in (copy / "toys").glob("*.parquet"):
        block.write_bytes(b"")
    with pytest.raises(UnfinishedRunError, match=r"\.parquet: .*run again, it is computed anew"):
        examine(copy, observed)


def test_an_answer_is_shown_only_as_long_as_it_holds_for_the_study(run, observed, tmp_path, monkeypatch):
    """Another number of toys leaves it; another normalisation does not; changing back brings it back."""
    copy = shutil.copytree(run, tmp_path / "run")
    found = examine(run, observed)
    shutil.rmtree(copy / "observed", ignore_errors=True)
    store_observation(copy, found)

    def shown():
        evidence = read_evidence(copy, summarise(collect(copy)), {})
        return evidence.observed, evidence.outdated

    assert shown() == ((found,), ())
    make_run(copy, until="tune", toys=11, **EVERYWHERE)
    assert shown() == ((found,), ())
    make_run(copy, until="tune", normalisation=0.2, **EVERYWHERE)
    assert shown() == ((), (found.name,))
    monkeypatch.setattr("covad.pipeline.report.write_report", lambda *_: copy / "report.html")
    told = [line for line in report_run(copy).lines if line.startswith("observed ")]
    changed = "left out, because the study or its models have changed since: test it again"
    assert told == [f"observed {found.name}: {changed}"]
    assert examine(run, observed).nulls == found.nulls
    make_run(copy, until="tune", **EVERYWHERE)
    assert shown() == ((found,), ())


def test_events_are_ranked_by_h_with_their_number_in_the_file(run, observed):
    for test in examine(run, observed).tests:
        excess = test.excess
        h = [event.h for event in excess.ranked]
        assert h == sorted(h, reverse=True)
        assert excess.n_top == len(h) == 20
        assert h[-1] == excess.h_threshold
        assert len({event.event for event in excess.ranked}) == 20
        assert all(0 <= event.event < 210 for event in excess.ranked)
        assert 0 < excess.expected < 200
        for line in excess.observables:
            assert sum(line.top) == 20
            assert sum(line.observed) == 210
            assert sum(line.region) == pytest.approx(excess.expected)
            values = [event.observables[line.name] for event in excess.ranked]
            assert line.top_mean == pytest.approx(np.mean(values))


def test_events_that_fail_the_selection_are_left_out_but_counted(run, tmp_path):
    events = random_events(300, seed=3)
    particles = events.particles.copy()
    particles[:100, events.layout.slots("electron")] = 0
    particles[:100, events.layout.slots("muon")] = 0
    path = write_events(tmp_path / "half.h5", replace(events, particles=particles))
    found = examine(run, path)
    assert (found.n_file, found.n_selected) == (300, 200)
    assert all(event.event >= 100 for event in found.tests[0].excess.ranked)


def test_a_gross_excess_is_found_where_it_is(run, observed, tmp_path):
    """Forty copies of one background event: whatever the encoder has learned, they sit in one place."""
    with open_events(observed) as source:
        events = source.read()
    rows = np.r_[np.arange(200), np.repeat(205, 40)]
    path = write_events(tmp_path / "pile.h5", events[rows])
    found = examine(run, path)
    convex = found.result("convex")
    analytic = convex.significances[-1]
    assert analytic.z > 4
    pile = [event.event >= 200 for event in convex.excess.ranked]
    # one in six by chance; bumps are wider than the pile, so its neighbours are among the first as well
    assert np.mean(pile) > 0.5


def test_an_auxiliary_value_far_from_the_data_is_named(run, observed):
    """A measured yield of 10 sigma_N = 1 in its logarithm, where the data say none."""
    found = examine(run, observed, auxiliary={"normalisation": 10.0})
    assert any("auxiliary value of normalisation contradicts" in warning for warning in found.warnings)


def test_auxiliary_values_pull_the_nuisances(run, observed):
    low, high = (
        examine(run, observed, auxiliary={"jet_energy_scale": value}).nuisances[0] for value in (-4.0, 4.0)
    )
    assert high.auxiliary - low.auxiliary == 8.0
    assert low.fitted < high.fitted
    norm = examine(run, observed, auxiliary={"normalisation": 1.5}).nuisances[1]
    assert norm.auxiliary == pytest.approx(1.5)


def test_other_configurations_are_tested_too(run, observed):
    quadratic = examine(run, observed, configuration=QUADRATIC)
    assert quadratic.label == QUADRATIC
    assert examine(run, observed, configuration=quadratic.configuration) == quadratic
    assert quadratic.nuisances[0].name == "jet_energy_scale"
    plain = examine(run, observed, configuration=NONE)
    assert plain.nuisances == ()
    assert plain.compatibility is None
    assert all(test.delta == 0.0 and test.t == test.tau for test in plain.tests)
    assert all(test.nu_with_h == () for test in plain.tests)
    assert len({f.name for f in (quadratic, plain)}) == 2


def test_what_a_small_reference_costs_is_said(run, tmp_path):
    many = simulated(tmp_path / "many.h5", "background", 800, seed=78)
    found = examine(run, many, expected=800.0, configuration=NONE)
    assert any("a signal must be 1.34 times as large for the same Z" in line for line in found.warnings)


def test_a_surprising_yield_is_said(run, observed):
    found = examine(run, observed, expected=2000.0)
    assert any("210 events are observed where 2000 are expected: " in line for line in found.warnings)


def test_the_yield_that_surprises_is_that_at_the_auxiliary_values(run, observed):
    """10 sigma_N of 0.1: e times as many as at 0."""
    found = examine(run, observed, auxiliary={"normalisation": 10.0})
    told = "210 events are observed where 543.656 are expected at the auxiliary values: -"
    assert any(line.startswith(told) for line in found.warnings)


def test_a_test_without_nuisances_takes_the_yield_as_exact(run, observed):
    """-4.9 Poisson standard deviations, with sigma_N of 0.1 fewer than three."""
    found = examine(run, observed, expected=290.0, configuration=NONE)
    told = (
        "210 events are observed where 290 are expected: -4.9 standard deviations of a Poisson number; this "
        "test takes the yield as exact, and t sees the difference; is --expected right?"
    )
    assert told in found.warnings
    assert found.result("convex").how == "law of t without nuisances"
    assert not any("the fit has" in line for line in found.warnings)
    assert not any("where 290 are" in line for line in examine(run, observed, expected=290.0).warnings)


@pytest.mark.parametrize(
    ("question", "warned"),
    [
        ({}, []),
        ({"expected": 230.0, "auxiliary": {"normalisation": -1.4}}, []),
        ({"expected": 1100.0}, ["network"]),
        ({"expected": 2000.0}, ["convex", "network"]),
        ({"configuration": NONE}, []),
        ({"configuration": NONE, "expected": 250.0}, ["convex", "network"]),
    ],
    ids=["as expected", "within the nulls", "beyond the toys", "beyond the law", "none", "none, other yield"],
)
def test_a_yield_beyond_the_nulls_is_said_for_each_test(run, observed, question, warned):
    """Toys lie within +-3 sigma_N and what data add, the law within 6; without a fit, all at one yield."""
    found = examine(run, observed, **question)
    said = [line for line in found.warnings if "times the yield of the toys of the" in line]
    assert [
        test for test in ("convex", "network") if any(f"the {test} test" in line for line in said)
    ] == warned
    of_toys = {
        "network": "their p are approximate",
        "convex": "the p of toys are approximate, the quoted one is not concerned",
    }
    for line in said:
        words = of_toys["convex" if "the convex test" in line else "network"]
        far = "farther from it than its nulls were drawn"
        if question.get("configuration") == NONE:
            far = "is expected, and this test fits no yield"
        assert line.endswith(f"{far}: {words}")


def test_the_nuisances_are_fitted_once(run, observed, monkeypatch):
    """Both tests, the warnings and the table of nuisances have the same Delta."""
    fits = []
    for module in ("covad.observed.examine", "covad.nplm.statistic"):
        monkeypatch.setattr(
            f"{module}.fit_nuisances", lambda dataset: fits.append(fit_nuisances(dataset)) or fits[-1]
        )
    found = examine(run, observed)
    assert len(fits) == 1
    assert [test.delta for test in found.tests] == [fits[0].value] * 2


def test_other_layouts_are_refused(run, tmp_path):
    layout = EventLayout((Collection("met", 1), Collection("photon", 2, ("pt", "eta", "phi"))))
    path = write_events(tmp_path / "photons.h5", random_events(50, 1, layout))
    with pytest.raises(LayoutError, match=r"photons\.h5: its events have 1 x met .* 2 x photon"):
        examine(run, path)


def test_a_file_without_selected_events_is_refused(run, tmp_path):
    events = random_events(50, seed=3)
    particles = events.particles.copy()
    particles[:, events.layout.slots("electron")] = 0
    particles[:, events.layout.slots("muon")] = 0
    path = write_events(tmp_path / "empty.h5", replace(events, particles=particles))
    with pytest.raises(TooFewEventsError, match=r"empty\.h5: none of its 50 events passes"):
        examine(run, path)


def test_events_of_the_run_itself_are_refused(run):
    with pytest.raises(FileFormatError, match="an event file of the run itself, of its sample 'background'"):
        examine(run, run / "events" / "background_0.h5")


def rewritten(path: Path, observed: Path, rows: np.ndarray, extra: Events | None = None) -> Path:
    """Write chosen events of a file, and others behind them, to a new one."""
    with open_events(observed) as source:
        events = source.read()[rows]
    return write_events(path, events if extra is None else concatenate([events, extra]))


def test_a_part_of_the_run_is_refused_however_it_is_written(run, observed, tmp_path):
    """Five events of the run among 210 others: shuffled, cut as the study cuts, compressed in another way."""
    with open_events(run / "events" / "background_0.h5") as source:
        theirs = source.read(np.array([7000, 3, 11, 4500, 200]))
    cut, _ = Selection().apply(theirs)
    file = rewritten(tmp_path / "mixed.h5", observed, np.arange(100, 210), cut)
    with h5py.File(file, "r+") as content:
        particles, process = content["Particles"][:][::-1], content["process"][:][::-1]
        del content["Particles"], content["process"]
        content.create_dataset("Particles", data=particles.astype(np.float64), compression="lzf")
        content["process"] = process
    told = r"mixed\.h5: 5 of its 115 .* in its sample 'background'.* set source.duplicates to 'allowed'"
    with pytest.raises(DuplicateEventsError, match=told):
        examine(run, file)


def test_events_that_are_alike_by_chance_are_no_copies_where_the_study_allows_them(run, observed):
    """A study of coarse features: events of the background have twins as often as observed ones do."""
    directory = RunDirectory(run)
    coarse = CollisionData.of(directory.study(), directory)
    coarse = replace(coarse, source=coarse.source.model_copy(update={"duplicates": "allowed"}))
    events = read_observed(observed, ADC2021_LAYOUT, coarse.selection)
    refuse_events_of_run(observed, events, coarse)
    known = coarse.fingerprints("background").copy()
    one_copy = replace(events, particles=events.particles.copy())
    with coarse.open("background") as files:
        one_copy.particles[:3] = coarse.selection.apply(files.read(np.arange(3)))[0].particles
    with pytest.raises(DuplicateEventsError, match=r"3 of its 210 selected events"):
        refuse_events_of_run(observed, one_copy, coarse)
    with pytest.MonkeyPatch.context() as patch:
        known["event"][: len(known) // 4] = known["event"][0]  # a quarter of the background is one event
        patch.setattr(CollisionData, "fingerprints", lambda *_: known)
        refuse_events_of_run(observed, one_copy, coarse)


def test_background_files_that_have_changed_are_named(run, observed, tmp_path):
    """One bit of one row that is read again, in a file whose digest nobody takes."""
    copy = shutil.copytree(run, tmp_path / "copy")
    file = copy / "events" / "background_0.h5"
    data = CollisionData.of(RunDirectory(copy).study(), RunDirectory(copy))
    row = int(data.rows["reference"][0])
    with h5py.File(file, "r+") as content:
        particles = content["Particles"][row]
        particles[0, 0] = np.nextafter(particles[0, 0], np.float32(np.inf))
        content["Particles"][row] = particles
    with pytest.raises(FileFormatError, match=rf"background_0\.h5: has changed .* event {row};"):
        examine(copy, observed)


def test_events_that_stand_twice_in_the_observed_file_are_told(run, observed, tmp_path):
    rows = np.r_[np.arange(200), np.arange(10)]
    found = examine(run, rewritten(tmp_path / "twice.h5", observed, rows))
    assert found.inputs.n_repeated == 10
    assert "10 of the 210 selected events repeat another one (4.8%)" in found.warnings[0]
    assert found.p is not None


def test_data_that_do_not_look_like_the_simulation_are_told_but_tested(run, observed, tmp_path):
    with open_events(observed) as source:
        events = source.read()
    particles = events.particles * np.array([1000.0, 1.0, 1.0], dtype=np.float32)
    found = examine(run, write_events(tmp_path / "mev.h5", events.with_particles(particles)))
    different = [quantity.name for quantity in found.inputs.different]
    assert {"met pt", "electron pt", "muon pt", "jet pt"} <= set(different)
    assert any("jet pt does not look like the simulation: 100.0%" in line for line in found.warnings)
    assert found.t is not None


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"auxiliary": {"jes": 1.0}}, "has no nuisance 'jes' .*jet_energy_scale, normalisation"),
        ({"configuration": NONE, "auxiliary": {"jet_energy_scale": 1.0}}, "its nuisances: none"),
        ({"configuration": "covariant"}, "no configuration 'covariant' .*covariant, no nuisances"),
    ],
)
def test_unknown_names_are_named(run, observed, question, message):
    with pytest.raises(UnknownNameError, match=message):
        examine(run, observed, **question)


@pytest.mark.parametrize("expected", [0.0, -1.0, 1e-300, 0.9, 1.1e8, np.inf, np.nan, "many"])
def test_a_senseless_yield_is_refused(run, observed, expected):
    with pytest.raises(CovadError, match="expected yield must be a number of events from 1 to 1e"):
        examine(run, observed, expected=expected)


@pytest.mark.parametrize("value", [np.inf, np.nan, 1e9, -10.5, "high", None])
def test_a_senseless_auxiliary_value_is_refused(run, observed, value):
    with pytest.raises(CovadError, match="auxiliary value of 'jet_energy_scale' must be a number of sigma"):
        examine(run, observed, auxiliary={"jet_energy_scale": value})


@pytest.mark.parametrize(
    ("lost", "stage"),
    [
        ("models/covariant/fold_0/encoder.safetensors", "spaces"),
        ("models/covariant/fold_0/response_1.safetensors", "response"),
        ("pools/covariant_linear/manifest.json", "pools"),
        ("basis/covariant-profiled.json", "tune"),
        ("toys", "toys"),
    ],
)
def test_an_unfinished_run_names_the_stage(run, observed, tmp_path, lost, stage):
    copy = shutil.copytree(run, tmp_path / "copy")
    path = copy / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(UnfinishedRunError, match=f"the stage '{stage}'"):
        examine(copy, observed)


@pytest.mark.parametrize("content", [None, "[]", '{"centre": [0]}'], ids=["lost", "no object", "half"])
def test_a_damaged_scale_is_named(run, observed, tmp_path, content):
    copy = shutil.copytree(run, tmp_path / "copy")
    scale = copy / "pools" / "covariant_linear" / "scale.json"
    scale.unlink() if content is None else scale.write_text(content)
    with pytest.raises(CovadError, match=r"scale\.json: is not what|the stage 'pools' has not run yet"):
        examine(copy, observed)


def test_a_clip_that_is_not_tuned_yet_is_named(run, observed, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    content = json.loads((copy / "study.json").read_text())
    content["study"]["tests"]["network"]["clip"] = "tune"
    del content["seal"]
    write_sealed(copy / "study.json", content)
    with pytest.raises(UnfinishedRunError, match="the stage 'tune'"):
        examine(copy, observed)


def test_a_run_without_events_is_refused(tmp_path, observed):
    from covad.study import parse_study

    latent = parse_study({"seed": 1, "source": {"kind": "latent"}, "tests": {"convex": {"bumps": 5}}}, "here")
    claim(RunDirectory(tmp_path), latent, None)
    with pytest.raises(StudyError, match="a source of kind 'events'"):
        examine(tmp_path, observed)


def test_the_comparison_alone_is_that_of_the_test(run, observed):
    assert compare_with_run(run, observed) == examine(run, observed).inputs


def test_a_name_that_is_not_utf8_is_written_out(run, observed, tmp_path):
    odd = shutil.copy(observed, tmp_path / os.fsdecode(b"ob\xffs.h5"))
    found = examine(run, Path(odd))
    assert found.file == r"ob\udcffs.h5"
    assert found.name.isascii()
    found.to_json().encode()


def test_a_long_name_is_cut_in_the_name_of_the_answer(run, observed, tmp_path):
    long = shutil.copy(observed, tmp_path / f"{'x' * 240}.h5")
    assert store_observation(shutil.copytree(run, tmp_path / "copy"), examine(run, Path(long)))


def test_a_file_that_changes_while_it_is_read_is_refused(run, observed, tmp_path, monkeypatch):
    copy = Path(shutil.copy(observed, tmp_path / "growing.h5"))

    def read_and_grow(path, *settings):
        events = read_observed(path, *settings)
        with path.open("ab") as file:
            file.write(b"more")
        return events

    monkeypatch.setattr("covad.observed.examine.read_observed", read_and_grow)
    with pytest.raises(FileFormatError, match=r"growing\.h5: has changed while it was read"):
        examine(run, copy)


@pytest.mark.parametrize("values", [{"expected": True}, {"auxiliary": {"jet_energy_scale": True}}])
def test_true_is_no_number(run, observed, values):
    with pytest.raises(CovadError, match="number"):
        examine(run, observed, **values)


def test_a_run_whose_study_has_changed_since_it_was_opened_is_opened_again(run, observed, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    opened = covad.open_run(copy)
    content = read_sealed(copy / "study.json")
    content["study"]["toys"] = 11
    write_sealed(copy / "study.json", content)
    with pytest.raises(StudyError, match="has changed since it was opened: open it again"):
        covad.test(opened, observed)


def test_an_observed_file_that_is_not_there_is_asked_about(tmp_path: Path) -> None:
    with pytest.raises(
        FileFormatError, match=r"none.h5: cannot be read \(No such file .*: is the name right"
    ):
        digest_of_file(tmp_path / "none.h5")
