"""A study of signed weights, from its files to an observed one: every stage is real, nothing is learned."""

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import report_world
from click.testing import CliRunner
from finished_run import run_here, simulated
from scipy.stats import norm
from weighted_files import YIELDS, weighted_study, write_process, write_processes

from covad.cli.main import commands
from covad.errors import DamagedFileError, EventContentError
from covad.inference import signs
from covad.inference.signs import SignNoise
from covad.inference.verdict import Verdict
from covad.observed.examine import examine
from covad.observed.lines import observation_lines
from covad.observed.result import Observation
from covad.observed.run import FinishedRun
from covad.pipeline import dry_run
from covad.pipeline.outlook import _differing
from covad.pipeline.report import report_run
from covad.report.answers import answers
from covad.report.tables.significance import calibration_table, z_table
from covad.report.tables.spaces import smoothing_table
from covad.results.collect import collect
from covad.results.lines import summary_lines
from covad.results.overview import signs_text
from covad.results.run import open_run
from covad.results.summary import read_summary, select
from covad.runs.directory import RunDirectory
from covad.runs.products import Products
from covad.runs.smoothing import SmoothedPool, read_smoothing
from covad.runs.status import run_status
from covad.storage.sealed import read_sealed, write_sealed
from covad.study import Study
from covad.toys.pool_files import open_pools, pools_digest

SPACE = ("covariant", 1)
POOLS = "pools/covariant_linear"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Signed background and a signed signal, for both tests."""
    folder = tmp_path_factory.mktemp("weighted")
    signal = write_process(folder / "a4l.h5", "a4l", 600, 9, negative=0.2)
    return weighted_study(
        write_processes(folder),
        {name: {"yield": value} for name, value in YIELDS.items()},
        source={"signals": {"a4l": {"files": [str(signal)]}}},
        tests={"convex": {"bumps": 5}, "network": {"clip": 1.5, "hidden": [2]}},
        signals={"a4l": [20]},
    )


@pytest.fixture(scope="module")
def run(study, tmp_path_factory):
    return run_here(study, tmp_path_factory.mktemp("weighted") / "run")


@pytest.fixture(scope="module")
def observed(tmp_path_factory):
    return simulated(tmp_path_factory.mktemp("observed") / "observed.h5", "background", 210, seed=77)


def contents(run: Path) -> dict[str, bytes]:
    return {str(file.relative_to(run)): file.read_bytes() for file in run.rglob("*") if file.is_file()}


def test_all_pools_with_negative_weights_are_smoothed(run):
    smoothed = read_smoothing(Products(RunDirectory(run).study(), RunDirectory(run)).pools(SPACE))
    assert [(pool.pool, pool.nu) for pool in smoothed] == [
        ("reference", (0.0,)), ("data", (0.0,)), ("data", (1.0,)), ("a4l", (0.0,)), ("a4l", (1.0,)),
    ]  # fmt: skip
    assert max(pool.largest_residual for pool in smoothed) < 0.1
    pools = open_pools(run / POOLS, pools_digest(run / POOLS))
    assert (pools.reference.weights > 0).all()
    assert (pools.reference.signed < 0).mean() == smoothed[0].negative_share
    assert pools.data[0.0,].weights is None


def test_a_run_that_is_done_has_nothing_to_do(study, run):
    before = contents(run)
    run_here(study, run)
    after = contents(run)
    assert after.keys() == before.keys()
    assert [name for name in before if before[name] != after[name] and name != "manifest.json"] == []


def test_other_tests_make_the_pools_anew(study, run):
    """Weights are smoothed for the tests of the study; the models have nothing to do with them."""
    changed = study.model_copy(update={"tests": study.tests.model_copy(update={"network": None})})
    directory = RunDirectory(run)
    before, after = Products(directory.study(), directory), Products(changed, directory)
    assert before.pools(SPACE).made
    assert not after.pools(SPACE).made
    assert after.response("covariant", 0, 1).made
    assert "pools: 1 made anew (tests.network)" in dry_run(changed, run)


def test_another_expectation_makes_the_pools_anew(study, run):
    """What the smoothing moves is told for the expected events, be it that configurations have others."""
    sizes = study.sizes.model_copy(update={"expected": 200.0})
    own = tuple(c.model_copy(update={"sizes": sizes}) for c in study.configurations)
    one = study.model_copy(update={"sizes": sizes, "configurations": own})
    other = one.model_copy(update={"sizes": sizes.model_copy(update={"expected": 300.0})})
    recipes = [Products(each, RunDirectory(run)).pools(SPACE).recipe for each in (one, other)]
    assert recipes[0] != recipes[1]


def test_the_dry_run_says_for_which_tests_pools_are_made_anew(study, run):
    """By keys of the study file, whatever the recipe calls them."""
    more = study.model_copy(update={"sizes": study.sizes.model_copy(update={"expected": 230.0})})
    assert "pools: 1 made anew (sizes.expected)" in dry_run(more, run)
    one, two = ({"smoothed_for": [{"expected": 200.0}] * number} for number in (1, 2))
    assert list(_differing(one, two)) == ["the tests that weights are smoothed for"]


def test_pools_without_weights_do_not_depend_on_the_tests(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    directory = RunDirectory(copy)
    products = Products(directory.study(), directory)
    assert "smoothed_for" in products.pools(SPACE).recipe
    notes = read_sealed(copy / "events.json")
    for note in (note for sample in notes.values() for note in sample):
        note.pop("weighted", None)
    write_sealed(copy / "events.json", notes)
    assert "smoothed_for" not in Products(directory.study(), directory).pools(SPACE).recipe


def test_the_status_tells_how_weights_were_smoothed_and_what_it_cost(run):
    status = run_status(run)
    assert {len(pools) for pools in status.smoothing.values()} == {5}
    assert len(status.plain()["smoothing"]["covariant, linear"]) == 5
    said = CliRunner().invoke(commands, ["status", str(run)]).stdout
    lines = [" ".join(line.split()) for line in said.splitlines()]
    place = lines.index("stage pools: done")
    told = " ".join(lines[place + 1 : place + 4])
    assert told.startswith("covariant, linear: negative weights of 5 pools smoothed; sums that tests see are")
    assert "events of equal weight, accepted from weighted ones" in " ".join(lines)


def test_the_law_for_an_observed_file_has_the_noise_of_the_signs(run, observed):
    """The same t is less of a surprise to it."""
    found = examine(run, observed)
    assert found.n_reference == 1500
    finished = FinishedRun.open(run)
    assert SignNoise.of(finished.reference) is not None
    unsigned = replace(finished, reference=replace(finished.reference, signed=None))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FinishedRun, "open", lambda *_: unsigned)
        without = examine(run, observed)
    p, p_without = (one.result("convex").significances[-1].p for one in (found, without))
    assert p > p_without
    assert found.result("convex").t == without.result("convex").t
    for one, other in zip(found.nuisances, without.nuisances, strict=True):
        assert (one.fitted, one.auxiliary) == (other.fitted, other.auxiliary)
        assert one.error > other.error


def test_p_by_toys_with_the_noise_of_signs_must_not_be_quoted(run, observed, monkeypatch):
    """The network has no other null; the convex test leaves such toys out."""
    quotable = replace(examine(run, observed), rule="network")
    assert quotable.result("network").signs.tolerable
    assert "do not quote" not in quotable.answer.line
    assert len(quotable.result("convex").significances) > 1
    monkeypatch.setattr(signs, "TOLERATED_SHIFT", 0.01)
    monkeypatch.setattr("covad.observed.examine.TOLERATED_OFFSET", 0.01)
    found = examine(run, observed)
    convex, network = (found.result(test) for test in ("convex", "network"))
    assert not network.signs.tolerable
    assert convex.signs is None
    assert [line.null for line in convex.significances] == ["analytic"]
    warned = [line for line in found.warnings if line.startswith("negative weights of the simulation make")]
    assert [line.split(": ")[-1].split(",")[0] for line in warned] == [
        "simulate more events",
        "the quoted p is not concerned",
    ]
    assert (found.rule, found.off_by_signs) == ("convex", None)
    assert "do not quote" not in found.answer.line
    summary = open_run(run).summary
    for rule in ("network", "joint"):
        asked = replace(found, rule=rule)
        assert asked.off_by_signs == network.signs
        assert "do not quote this p: its toys have a noise of negative weights" in asked.answer.line
        closes = tuple(replace(line, verdict=Verdict.CLOSES) for line in summary.closure)
        line, *_ = observation_lines(asked, replace(summary, closure=closes))
        assert line.endswith(f"larger than that of observed data by {network.signs.text}")
        assert Observation.from_json(asked.to_json()) == asked


def test_a_doubtful_smoothing_is_told_wherever_its_answer_is(run, observed, monkeypatch):
    """By `covad test` where a network speaks, for pools of the background; by the report's card and table."""
    monkeypatch.setattr(SmoothedPool, "doubtful", True)
    found = "smoothed weights differ from signed ones in {} pools, most in '"
    rules = {}
    for rule in ("convex", "network", "joint"):
        monkeypatch.setattr(Study, "rule", rule)
        rules[rule] = [line for line in examine(run, observed).warnings if found.format("3 of 3") in line]
    assert [len(lines) for lines in rules.values()] == [0, 1, 1]
    summary = open_run(run).summary
    assert found.format("5 of 5") in smoothing_table(summary).caption
    trusted = answers(SimpleNamespace(summary=summary, observed=()), lambda *_: None)[-1]
    assert any(
        point.startswith("Smoothed weights differ from signed ones in 5 of 5") for point in trusted.points
    )
    monkeypatch.setattr(SmoothedPool, "doubtful", False)
    assert "differ from signed" not in smoothing_table(summary).caption


def test_a_part_of_the_reference_has_the_noise_of_all_of_it(run, monkeypatch):
    """Files stand one after the other in the pool: a stretch of it would be one process.

    Every third of its events: traces agree within 5 standard errors of such a part.
    """
    finished = FinishedRun.open(run)
    group = next(group for group in finished.groups if group.test == "convex")
    test = group.ensemble.test.build(group.ensemble.source)
    dataset = group.ensemble.source.draw(group.ensemble.draw, group.ensemble.seeds(0))
    whole = SignNoise.of(finished.reference)
    n = len(finished.reference)
    monkeypatch.setattr(signs, "_EVENTS", n // 3 + 1)
    part = SignNoise.of(finished.reference)
    assert len(part.events) == -(-n // 3)
    for nu in (None, np.array([1.0, 0.1])):
        all_of_it, of_part = (np.trace(noise.in_test(test, dataset, nu)) for noise in (whole, part))
        assert of_part == pytest.approx(all_of_it, rel=5 * 2 / np.sqrt(n / 3))


def test_expected_significances_are_those_of_observed_data(run):
    """By the law with the noise of the reference's signs, and without that of the data's in t."""
    summary = open_run(run).summary
    group = next(group for group in collect(run).groups() if group.test == "convex")
    pools = open_pools(run / POOLS, pools_digest(run / POOLS))
    plain, of_data = group.analytic.law, group.analytic_of_data.law
    assert of_data.mean > 1.02 * plain.mean
    ((nu, signal, injected), toys), *_ = group.signals.items()
    ratio = pools.background(nu).signed_variance / pools.reference.signed_variance
    t = np.median(group.t(toys)) - (of_data.mean - plain.mean) * ratio
    key = {"test": "convex", "nu": nu, "signal": signal, "injected": injected}
    by_law, by_toys = (select(summary.significance, null=null, **key)[0] for null in ("analytic", "R_0"))
    assert by_law.t == pytest.approx(t)
    assert by_law.p == pytest.approx(float(of_data.sf(t)))
    assert by_toys.t == pytest.approx(np.median(group.t(toys)))
    power = select(summary.power, null="analytic", **key)[0]
    beyond = of_data.sf(group.t_of_data(toys, nu)) <= norm.sf(1.0)
    assert power.power[10] == pytest.approx(beyond.mean())


def test_the_tables_of_sensitivity_tell_what_toys_have_and_data_do_not(run):
    summary = open_run(run).summary
    network = select(summary.nulls, test="network")[0].signs
    told = f"network test: by {network.text}"
    assert told in signs_text(summary)
    assert any(told in line for line in summary_lines(summary))
    assert told.replace("+-", "±") in calibration_table(summary).caption
    assert told.replace("+-", "±") in z_table(summary, summary.main, "R_0").caption
    without = tuple(replace(line, signs=None) for line in summary.nulls)
    assert signs_text(replace(summary, nulls=without)) == ""


def test_observed_events_have_no_weights(run, observed, tmp_path):
    weighted = shutil.copy(observed, tmp_path / "weighted.h5")
    with h5py.File(weighted, "r+") as file:
        file["weight"] = np.where(np.arange(210) == 3, 0.5, 1.0)
    with pytest.raises(EventContentError, match=r"weighted\.h5: event 3 has the weight 0\.5, but observed"):
        examine(run, weighted)


def test_the_report_has_both_tables_and_the_summary_their_numbers(run, tmp_path, monkeypatch):
    monkeypatch.setattr("covad.report.figures.canvas.Canvas.savefig", report_world.write_nothing)
    copy = shutil.copytree(run, tmp_path / "copy")
    report_run(copy)
    summary = read_summary(copy)
    assert [len(space.smoothing) for space in summary.spaces] == [5]
    assert {line.process for line in summary.yields.processes} == set(YIELDS)
    assert open_run(copy).summary == summary
    page = (copy / "report.html").read_text()
    assert "Negative weights, smoothed" in page
    assert "What is expected of every process" in page
    assert (copy / "report/tables/smoothing.csv").exists()


@pytest.mark.parametrize("file", ["smoothing.json", "reference_weights.npy", "reference_signed.npy"])
def test_what_is_damaged_is_named_and_made_anew(study, run, observed, tmp_path, file):
    copy = shutil.copytree(run, tmp_path / "copy")
    whole = (copy / POOLS / file).read_bytes()
    content = bytearray(whole)
    content[-40] ^= 1
    (copy / POOLS / file).write_bytes(content)
    with pytest.raises(DamagedFileError, match=file):
        examine(copy, observed)
    with pytest.raises(DamagedFileError, match=file):
        report_run(copy)
    run_here(study, copy, until="pools")
    assert (copy / POOLS / file).read_bytes() == whole


def test_a_smoothing_that_is_gone_is_made_anew(study, run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    whole = (copy / POOLS / "smoothing.json").read_bytes()
    (copy / POOLS / "smoothing.json").unlink()
    assert run_status(copy).smoothing == {}
    run_here(study, copy, until="pools")
    assert (copy / POOLS / "smoothing.json").read_bytes() == whole
