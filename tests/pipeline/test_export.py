"""Exported models against covad's own, on events that the export has not seen."""

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from encoders import UNTRAINED_KINDS, make_encoder
from finished_run import make_run
from samples import random_events

from covad.embedding.embed import encode
from covad.embedding.encoders import load_encoder
from covad.errors import MissingExtraError, StudyError, UnfinishedRunError
from covad.events.layout import Collection, EventLayout
from covad.pipeline import export
from covad.pipeline.claim import claim
from covad.pipeline.export import ExportError, PaddedEncoder, export_run
from covad.response.model import ResponseModel

FILES = [
    "covariant.json",
    "covariant_encoder.onnx",
    "covariant_linear_response.onnx",
    "covariant_quadratic_response.onnx",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("exporting") / "run", until="pools")


@pytest.fixture(scope="module")
def folder(run: Path) -> Path:
    written = export_run(run)
    assert [file.path.name for file in written] == FILES[1:]
    assert all(file.largest_difference < 1e-5 for file in written)
    return run / "export"


def computed(path: Path, **inputs: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)[0]


@pytest.mark.parametrize("kind", UNTRAINED_KINDS)
def test_padding_with_a_mask_changes_nothing(kind):
    """Also for events without any object, and whatever stands in the empty slots."""
    events = random_events(300, seed=4)
    encoder = make_encoder(events, settings=UNTRAINED_KINDS[kind])
    particles = events.particles.copy()
    particles[7] = 0
    mask = torch.from_numpy(particles[..., 0] > 0)
    expected = encode(encoder, particles)
    rubbish = np.where(mask[..., None], particles, np.float32(-3.0))
    with torch.no_grad():
        for padded in (particles, rubbish):
            z = PaddedEncoder(encoder)(torch.from_numpy(padded), mask)
            assert z.numpy() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("kind", UNTRAINED_KINDS)
def test_padding_works_in_any_layout(kind):
    layout = EventLayout((Collection("met", 1, ("pt", "phi")), Collection("tau", 3, ("pt", "eta", "mass"))))
    events = random_events(200, 5, layout)
    encoder = make_encoder(events, settings=UNTRAINED_KINDS[kind])
    with torch.no_grad():
        particles = torch.from_numpy(events.particles)
        z = PaddedEncoder(encoder)(particles, particles[..., 0] > 0)
    assert z.numpy() == pytest.approx(encode(encoder, events.particles), abs=1e-5)


def test_exported_files_give_the_numbers_of_torch(run, folder):
    assert sorted(path.name for path in folder.iterdir()) == FILES
    models = run / "models" / "covariant" / "fold_0"
    encoder = load_encoder(models / "encoder.safetensors")
    for n_events in (1, 137):
        particles = random_events(n_events, seed=n_events).particles
        z = computed(folder / FILES[1], particles=particles, mask=particles[..., 0] > 0)
        assert z == pytest.approx(encode(encoder, particles), abs=1e-5)
        for order, name in ((1, FILES[2]), (2, FILES[3])):
            response = ResponseModel.load(models / f"response_{order}.safetensors")
            assert computed(folder / name, z=z) == pytest.approx(response.columns(z), abs=1e-5)


@pytest.mark.parametrize("kind", ["transformer-event", "mlp-event"])
def test_encoders_of_every_kind_are_exported(tmp_path, kind):
    """The frame of the event is part of the graph."""
    events = random_events(200, seed=4)
    encoder = make_encoder(events, settings=UNTRAINED_KINDS[kind])
    inputs = {"particles": events.particles, "mask": events.particles[..., 0] > 0}
    target = tmp_path / "encoder.onnx"
    export._export(PaddedEncoder(encoder), inputs, "z", encode(encoder, events.particles), target)
    onnx.checker.check_model(str(target), full_check=True)
    fresh = random_events(31, seed=9).particles
    z = computed(target, particles=fresh, mask=fresh[..., 0] > 0)
    assert z == pytest.approx(encode(encoder, fresh), abs=1e-5)


def test_files_are_sound_and_tell_nothing_of_this_machine(folder):
    for name in FILES[1:]:
        onnx.checker.check_model(str(folder / name), full_check=True)
        assert str(Path.cwd()).encode() not in (folder / name).read_bytes()
        assert b".py" not in (folder / name).read_bytes()


def test_the_description_holds_what_another_program_needs(run, folder):
    content = json.loads((folder / "covariant.json").read_text())
    encoder = load_encoder(run / "models" / "covariant" / "fold_0" / "encoder.safetensors")
    assert EventLayout.from_description(content["layout"]) == encoder.layout
    assert content["z"][0]["scaling"]["centre"] == encoder.scaling.centre.tolist()
    scale = json.loads((run / "pools" / "covariant_linear" / "scale.json").read_text())
    assert content["standardisation"] == scale
    assert [entry["name"] for entry in content["systematics"]] == ["jet_energy_scale"]
    assert content["cuts"]["object_minimum"] == {"jet": 23.0}
    assert [len(entry["constants"]["offset"]) for entry in content["responses"]] == [1, 2]


@pytest.mark.parametrize("error", [1e-4, np.nan])
def test_a_file_that_does_not_agree_is_not_left(run, tmp_path, monkeypatch, error):
    honest = export.run_onnx
    monkeypatch.setattr(export, "run_onnx", lambda path, inputs: honest(path, inputs) + np.float32(error))
    with pytest.raises(ExportError, match=r"covariant_encoder\.onnx: not written, because ONNX differs"):
        export_run(run, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_missing_extra_is_named(run, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnxscript", None)
    with pytest.raises(MissingExtraError, match=r"\[onnx\]"):
        export_run(run, tmp_path / "out")


@pytest.mark.parametrize(
    ("lost", "stage"), [("encoder.safetensors", "spaces"), ("response_2.safetensors", "response")]
)
def test_an_unfinished_run_names_the_stage(run, tmp_path, lost, stage):
    copy = shutil.copytree(run, tmp_path / "copy")
    (copy / "models" / "covariant" / "fold_0" / lost).unlink()
    with pytest.raises(UnfinishedRunError, match=f"the stage '{stage}' has not run yet"):
        export_run(copy)


def test_a_run_without_models_is_refused(tmp_path):
    from covad.runs.directory import RunDirectory
    from covad.study import parse_study

    latent = parse_study({"seed": 1, "source": {"kind": "latent"}, "tests": {"convex": {}}}, "here")
    claim(RunDirectory(tmp_path), latent, None)
    with pytest.raises(StudyError, match="has models to export"):
        export_run(tmp_path)
