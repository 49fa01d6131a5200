"""What is damaged in a run is named by everybody who reads it, and made anew by `covad run`."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from finished_run import TINY, make_run, simulated, tiny_study

from covad.errors import DamagedFileError, StudyError
from covad.observed.examine import examine
from covad.pipeline import dry_run
from covad.pipeline.export import export_run
from covad.pipeline.manifest import timed
from covad.pipeline.report import report_run, write_summary
from covad.results.collect import collect
from covad.results.compute import current_summary
from covad.results.run import open_run
from covad.runs.directory import RunDirectory
from covad.runs.products import Products
from covad.runs.status import run_status

#: A file of every kind that the answer for an observed file comes from, and a byte in its numbers.
USED = {
    "models/covariant/fold_0/encoder.safetensors": -1001,
    "models/covariant/fold_0/response_1.safetensors": -101,
    "pools/covariant_linear/reference_z.npy": -1001,
    "pools/covariant_linear/data_0_linear.npy": -1001,
    "pools/covariant_linear/manifest.json": 30,
    "pools/covariant_linear/scale.json": 30,
    "basis/covariant-profiled.json": 20,
    "study.json": 40,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("damage") / "run")


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulated(tmp_path_factory.mktemp("damage") / "observed.h5", "background", 250, 77)


def damaged(run: Path, copy: Path, file: str, position: int) -> bytes:
    """Copy a run and flip one bit of a file; return its content as it was."""
    shutil.copytree(run, copy)
    whole = (copy / file).read_bytes()
    content = bytearray(whole)
    content[position] ^= 32
    (copy / file).write_bytes(content)
    return whole


@pytest.mark.parametrize("file", USED)
def test_a_flipped_bit_ends_in_a_sentence_that_names_the_file(
    run: Path, observed: Path, tmp_path: Path, file: str
) -> None:
    copy = tmp_path / "copy"
    damaged(run, copy, file, USED[file])
    with pytest.raises(DamagedFileError, match=Path(file).name):
        examine(copy, observed)


@pytest.mark.parametrize("file", ["pools/covariant_linear/reference_z.npy", "checks/covariant_linear.json"])
def test_reports_and_notebooks_verify_what_they_show(run: Path, tmp_path: Path, file: str) -> None:
    copy = tmp_path / "copy"
    damaged(run, copy, file, -1001)
    with pytest.raises(DamagedFileError, match=Path(file).name):
        report_run(copy)
    with pytest.raises(DamagedFileError, match=Path(file).name):
        _ = open_run(copy).summary


def test_a_kept_summary_does_not_outlive_its_checks(run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run, tmp_path / "copy")
    before = write_summary(collect(copy))
    assert before.spaces
    assert current_summary(collect(copy)).made_of == before.made_of
    shutil.rmtree(copy / "checks")
    assert current_summary(collect(copy)).spaces == ()


def test_events_that_nobody_counted_by_process_are_counted_by_the_next_run(run: Path, tmp_path: Path) -> None:
    """A count of another recipe, without the processes; a dry run says so first."""
    copy = shutil.copytree(run, tmp_path / "copy")
    study, product = tiny_study(), Products(tiny_study(), RunDirectory(copy)).selected()
    counted = json.loads(product.path.read_text())
    older = replace(product, recipe={k: v for k, v in product.recipe.items() if k != "processes"})
    product.path.write_text(json.dumps({k: v for k, v in counted.items() if k != "processes"}))
    older.note()
    assert not current_summary(collect(copy)).processes
    assert dry_run(study, copy)[0].endswith("samples kept, those that pass the cuts are counted")
    make_run(copy, until="events")
    assert json.loads(product.path.read_text()) == counted
    assert current_summary(collect(copy)).processes
    assert dry_run(study, copy)[0].endswith("samples kept")


def test_a_status_counts_no_toys_by_a_damaged_manifest(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    damaged(run, copy, "pools/covariant_linear/manifest.json", 200)
    with pytest.raises(DamagedFileError, match=r"manifest\.json"):
        run_status(copy)


def test_models_are_verified_before_they_are_exported(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    copy, file = tmp_path / "copy", "models/covariant/fold_0/encoder.safetensors"
    damaged(run, copy, file, USED[file])
    with pytest.raises(DamagedFileError, match=r"encoder\.safetensors"):
        export_run(copy)


@pytest.mark.parametrize(
    "file",
    [
        "events/background_0.h5",
        "models/covariant/fold_0/encoder.safetensors",
        "models/covariant/fold_0/response_1.safetensors",
        "pools/covariant_linear/reference_z.npy",
        "pools/covariant_linear/scale.json",
        "checks/covariant_linear.json",
        "basis/covariant-profiled.json",
    ],
)
def test_a_run_makes_anew_what_is_damaged(
    run: Path, tmp_path: Path, file: str, caplog: pytest.LogCaptureFixture
) -> None:
    copy = tmp_path / "copy"
    whole = damaged(run, copy, file, -101)
    make_run(copy)
    assert (copy / file).read_bytes() == whole
    assert f"{file}: is not what the stage" in caplog.text


@pytest.mark.parametrize("content", [b"", b"foreign"])
def test_an_empty_or_foreign_model_is_noticed_by_a_run_too(run: Path, tmp_path: Path, content: bytes) -> None:
    copy, file = tmp_path / "copy", "models/covariant/fold_0/response_1.safetensors"
    shutil.copytree(run, copy)
    foreign = (copy / "models/covariant/fold_0/response_2.safetensors").read_bytes()
    whole = (copy / file).read_bytes()
    (copy / file).write_bytes(content and foreign)
    make_run(copy)
    assert (copy / file).read_bytes() == whole


def test_systematics_whose_code_has_changed_are_refused(observed: Path, tmp_path: Path) -> None:
    module = tmp_path / "shift_of_mine.py"
    code = (
        "import numpy as np\n\n"
        "def shift(events, amount):\n"
        "    particles = events.particles.copy()\n"
        "    particles[:, events.layout.slots('jet'), 0] *= np.float32(1.0 + amount)\n"
        "    return events.with_particles(particles)\n"
    )
    module.write_text(code)
    source = {
        "systematics": [{"name": "mine", "function": "shift_of_mine:shift", "sigma": 0.01}],
        "folder": str(tmp_path),
    }
    run = make_run(tmp_path / "run", source=TINY["source"] | source)
    examine(run, observed)
    module.write_text(code.replace("1.0 + amount", "1.0 + 2 * amount"))
    with pytest.raises(
        StudyError, match="the code of the systematics or observables has changed since the run was made"
    ):
        examine(run, observed)


REMEDIES = {
    "study.json": "delete it and run the same study again",
    "events.json": "delete it and run again: the digests are taken anew",
}


@pytest.mark.parametrize("file", REMEDIES)
def test_the_remedy_is_told_and_keeps_what_was_made(run: Path, tmp_path: Path, file: str) -> None:
    copy = tmp_path / "copy"
    whole = damaged(run, copy, file, 40)
    with pytest.raises(DamagedFileError, match=REMEDIES[file]):
        make_run(copy)
    (copy / file).unlink()
    model = copy / "models/covariant/fold_0/encoder.safetensors"
    before = model.stat().st_mtime_ns
    make_run(copy)
    assert (copy / file).read_bytes() == whole
    assert model.stat().st_mtime_ns == before


def test_a_damaged_manifest_is_written_anew(
    run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copy = tmp_path / "copy"
    damaged(run, copy, "manifest.json", 40)
    make_run(copy)
    assert "manifest.json" in caplog.text
    found, before = RunDirectory(copy).read("manifest.json"), RunDirectory(run).read("manifest.json")
    assert found is not None
    assert before is not None
    assert set(found["stages"]) == set(before["stages"])


def test_what_ends_a_stage_is_not_hidden_by_the_manifest(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    damaged(run, copy, "study.json", 40)
    (copy / "manifest.json").unlink()
    with pytest.raises(ZeroDivisionError), timed(RunDirectory(copy), "events"):
        raise ZeroDivisionError


def test_a_dry_run_sees_what_is_damaged(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    damaged(run, copy, "checks/covariant_linear.json", -101)
    assert "checks: 1 kept, 1 made anew (damaged)" in dry_run(tiny_study(), copy)


@pytest.mark.parametrize("content", ["[]", "{}"])
def test_a_note_that_is_none_does_not_stop_a_run(run: Path, tmp_path: Path, content: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    for name in ("selected.json", "basis/covariant-profiled.json"):
        (copy / "made" / f"{name}.json").write_text(content)
    make_run(copy)
    assert (copy / "basis/covariant-profiled.json").exists()
