"""A study of signed weights, from its files to an observed one: every stage is real, nothing is learned."""

import shutil
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import report_world
from click.testing import CliRunner
from finished_run import run_here, simulated
from weighted_files import YIELDS, weighted_study, write_process, write_processes

from covad.cli.main import commands
from covad.errors import DamagedFileError, EventContentError
from covad.observed.examine import examine
from covad.observed.run import FinishedRun
from covad.observed.signs import SignNoise
from covad.pipeline import dry_run
from covad.pipeline.report import report_run
from covad.results.run import open_run
from covad.results.summary import read_summary
from covad.runs.directory import RunDirectory
from covad.runs.products import Products
from covad.runs.smoothing import read_smoothing
from covad.runs.status import run_status
from covad.storage.sealed import read_sealed, write_sealed
from covad.toys.pools import open_pools, pools_digest

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
    assert any(line.startswith("pools: ") and "anew" in line for line in dry_run(changed, run))


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
    """The same t is less of a surprise to it; toys of the network do not know, and a warning says so."""
    found = examine(run, observed)
    warned = [line for line in found.warnings if line.startswith("negative weights of the simulation add")]
    assert len(warned) == 1
    assert "toys of the network test have: t is larger by" in warned[0]
    assert found.n_reference == 1500
    finished = FinishedRun.open(run)
    assert SignNoise.of(finished.reference) is not None
    unsigned = replace(finished, reference=replace(finished.reference, signed=None))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FinishedRun, "open", lambda *_: unsigned)
        without = examine(run, observed)
    assert not any(line.startswith("negative weights") for line in without.warnings)
    p, p_without = (one.result("convex").significances[-1].p for one in (found, without))
    assert p > p_without
    assert found.result("convex").t == without.result("convex").t
    for one, other in zip(found.nuisances, without.nuisances, strict=True):
        assert (one.fitted, one.auxiliary) == (other.fitted, other.auxiliary)
        assert one.error > other.error


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
