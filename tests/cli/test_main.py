"""The command line as a user meets it: real processes, exit codes, one sentence for each mistake."""

import json
import subprocess
import sys
import time
from dataclasses import asdict, fields, replace
from pathlib import Path
from xml.etree import ElementTree as ET

import h5py
import numpy as np
import pytest
from click.testing import CliRunner
from event_files import write_events
from public_service import Service
from samples import random_events, weighted_events

from covad.cli import bench
from covad.cli.inspection import inspect_file
from covad.cli.main import commands
from covad.events.files import EventWriter, open_events
from covad.events.layout import Collection, EventLayout

EXAMPLES = Path(__file__).parents[2] / "examples"
#: What a benchmark that measured nothing would give.
NO_TIMES = bench.ToyTimes(*[0.0] * len(fields(bench.ToyTimes)))
OWN_STUDY, LATENT_STUDY = EXAMPLES / "own_events" / "study.yaml", EXAMPLES / "latent.yaml"


def covad(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from covad.cli.main import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


def complaint(result: subprocess.CompletedProcess[str]) -> str:
    """The one sentence of a refused command."""
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("covad: ")
    return lines[0]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sample") / "background.h5"
    result = covad("simulate", "--process", "background", "--events", 3000, "--seed", 1, "--out", path)
    assert result.returncode == 0, result.stderr
    assert "wrote 3000 events of background" in result.stdout
    return path


def test_simulated_files_have_the_public_layout(sample: Path) -> None:
    with h5py.File(sample) as file:
        assert file["Particles"].shape == (3000, 19, 4)
        assert list(file["Particles_Names"].asstr()) == ["Pt", "Eta", "Phi", "Class"]
    with open_events(sample) as source:
        assert source.provenance["seed"] == 1
        assert source.read().process_counts()["w"] > 1500


def test_the_same_command_writes_the_same_events(sample: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.h5"
    covad("simulate", "--process", "background", "--events", 3000, "--seed", 1, "--out", again)
    with h5py.File(sample) as a, h5py.File(again) as b:
        assert a["Particles"][:].tobytes() == b["Particles"][:].tobytes()


def test_a_terminated_simulation_leaves_nothing(tmp_path: Path) -> None:
    """Batch systems end a job that runs too long with SIGTERM."""
    arguments = ("simulate", "--process", "w", "--events", 10**9, "--out", tmp_path / "x.h5")
    command = [sys.executable, "-c", "from covad.cli.main import main; main()", *map(str, arguments)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as job:
        while job.poll() is None and not list(tmp_path.iterdir()):
            time.sleep(0.05)
        assert list(tmp_path.iterdir()), "the file grows under another name"
        job.terminate()
        _, complaints = job.communicate(timeout=60)
    assert (job.returncode, complaints.strip()) == (130, "covad: interrupted")
    assert list(tmp_path.iterdir()) == []


def test_inspect_shows_counts_ranges_and_the_shift(sample: Path) -> None:
    result = covad("inspect", sample)
    assert result.returncode == 0, result.stderr
    for word in ("3000 events", "ttbar", "seed: 1", "jets per event", "+2"):
        assert word in result.stdout


def test_inspect_shows_what_is_hidden_in_pseudo_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = random_events(60, seed=1)
    made = {"events": 50, "injected": {"a4l": 10}, "shifts": {"jet_energy_scale": 0.025}}
    path = tmp_path / "pseudo.h5"
    with EventWriter(path, events.layout, events.process_names, made) as writer:
        writer.append(events)
    inspect_file(path)
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].endswith("pseudo.h5: 60 events")
    assert "  events: 50, without the injected ones" in shown
    assert "  injected: a4l 10" in shown
    assert "  shifts: jet_energy_scale 0.025" in shown


def test_a_dry_run_prints_what_a_run_would_do(tmp_path: Path) -> None:
    study = "seed: 1\nsource: {kind: latent}\ntests: {convex: {bumps: 5}}\ntoys: 10\n"
    (tmp_path / "study.yaml").write_text(study)
    result = covad("run", tmp_path / "study.yaml", "--out", tmp_path / "run", "--dry-run")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "tune: 1 made\ntoys: 0 are there, 60 are computed\n"
    assert [path.name for path in tmp_path.iterdir()] == ["study.yaml"]


def test_help_names_every_process() -> None:
    result = covad("simulate", "--help")
    assert result.returncode == 0
    for process in ("w", "z", "qcd", "ttbar", "lq", "a4l", "h0", "hpm", "background"):
        assert process in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("simulate", "--process", "higgs", "--events", 5, "--out", "x.h5"), "unknown process 'higgs'"),
        (("simulate", "--process", "w", "--events", 0, "--out", "x.h5"), "at least one event"),
        (("simulate", "--process", "w", "--events", 5, "--seed", -3, "--out", "x.h5"), "seed"),
        (("simulate", "--process", "w", "--events", 5, "--out", "no/such/x.h5"), "no/such/x.h5"),
        (("simulate", "--process", "w", "--events", 5, "--out", "."), "."),
        (
            ("simulate", "--process", "w", "--events", 5, "--lepton-filter", -1, "--out", "x.h5"),
            "lepton_filter",
        ),
        (
            ("simulate", "--process", "w", "--events", "many", "--out", "x.h5"),
            "'many' is not",
        ),
        (("simulate", "--process", "w", "--events", 5), "Missing option '--out'"),
        (("inspect", "missing.h5"), "missing.h5"),
        (("inspect", "missing.h5", "--systematic", "luck"), "unknown systematic 'luck'"),
        (("inspect", "missing.h5", "--study", "none.yaml"), "none.yaml: cannot be read"),
        (("inspect", "missing.h5", "--study", OWN_STUDY), "missing.h5"),
        (("inspect", "missing.h5", "--study", LATENT_STUDY), "a study of events was expected, not latent"),
        (("inspect", "x.h5", "--study", OWN_STUDY, "--systematic", "met_soft_scale"), "exclude each other"),
        (("fetch", "adc2022"), "No such command 'adc2022'"),
        (("inspect", "."), "is a directory"),
        (("inspect",), "PATH is missing"),
        (("inspect", "x.h5", "--figures", "here"), "--figures needs --against OBSERVED"),
        (("inspect", "--against", "x.h5"), "--against needs a run, `covad inspect RUN`, or a study"),
        (("inspect", "RUN", "--study", OWN_STUDY, "--against", "x.h5"), "--against needs a run"),
        (("inspect", "--study", LATENT_STUDY, "--against", "x.h5"), "a study of events was expected"),
        (("inspect", ".", "--against", "x.h5"), "is not a run directory"),
    ],
)
def test_mistakes_end_in_one_sentence_and_leave_nothing(
    arguments: tuple[object, ...], message: str, tmp_path: Path
) -> None:
    assert message in complaint(covad(*arguments, cwd=tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_inspect_compares_an_observed_file_with_a_study(sample: Path, tmp_path: Path) -> None:
    with open_events(sample) as source:
        events = source.read()[:800]
    degrees = events.particles * np.array([1.0, 1.0, 180 / np.pi], dtype=np.float32)
    observed = write_events(tmp_path / "degrees.h5", events.with_particles(degrees))
    study = tmp_path / "study.yaml"
    assert covad("init", study).returncode == 0
    figures = tmp_path / "figures"
    result = covad("inspect", "--study", study, "--against", observed, "--figures", figures)
    assert result.returncode == 0, result.stderr
    assert "degrees.h5: 800 events selected, beside 20000 selected background events" in result.stdout
    assert "warning: jet phi does not look like the simulation: " in result.stdout
    assert "jet pt does not look" not in result.stdout
    assert len(list(figures.glob("*.pdf"))) == len(list(figures.glob("*.svg"))) == 16
    ET.parse(figures / "degrees_jet_phi.svg")


def test_inspect_refuses_bad_numbers(sample: Path, tmp_path: Path) -> None:
    with h5py.File(sample) as file:
        particles = file["Particles"][:100]
    particles[7, 9, 0] = np.nan
    bad = tmp_path / "bad.h5"
    with h5py.File(bad, "w") as file:
        file["Particles"] = particles
    sentence = complaint(covad("inspect", bad))
    assert "bad.h5" in sentence
    assert "event 7" in sentence


def test_inspect_shows_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = weighted_events(200, seed=1)
    path = tmp_path / "weighted.h5"
    with EventWriter(
        path,
        events.layout,
        ("w", "qcd", "z"),
        weighted=True,
        variations=tuple(events.variations),
        varied=("jesTotalUp",),
        sum_of_weights={"w": 12345.0, "z": 678.0},
    ) as writer:
        writer.append(events, {"jesTotalUp": events.particles * np.float32([1.5, 1.0, 1.0])})
    inspect_file(path)
    shown = [
        [cell.strip() for cell in line.split("│")[1:-1]] for line in capsys.readouterr().out.splitlines()
    ]
    for code, name in enumerate(("w", "qcd")):
        w = events.event_weights[events.process == code]
        cells = [str(len(w)), f"{len(w) / 200:.2%}", f"{w.sum():.6g}", f"{(w < 0).mean():.2%}"]
        cells += [f"{w.sum() ** 2 / (w @ w):.1f}", "12345" if name == "w" else ""]
        assert [name, *cells] in shown
    assert ["z", "0", "0.00%", "0", "0.00%", "0.0", "678"] in shown  # generated, but all cut away
    total = events.event_weights.sum()
    assert ["scaleUp", f"{1.2 * total:.6g}", "1.2000"] in shown
    jets = events.objects("jet")[events.present("jet")][:, 0]
    varied = next(row for row in shown if row[:1] == ["jesTotalUp"])
    assert varied[2] == f"{1.5 * jets.mean(dtype=float):.2f}"


def test_inspect_of_weights_that_add_up_to_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = replace(random_events(50, seed=1), weights=np.where(np.arange(50) % 2, -2.0, 1.0))
    inspect_file(write_events(tmp_path / "negative.h5", events))
    shown = capsys.readouterr().out
    assert "no shifts are shown, because the weights of the selected events add up to -25 at nu = 0" in shown


def test_inspect_works_without_the_collection_of_the_systematic(tmp_path: Path) -> None:
    layout = EventLayout((Collection("photon", 2, ("e", "theta")),))
    events = random_events(50, seed=1, layout=layout)
    path = tmp_path / "photons.h5"
    with EventWriter(path, layout, events.process_names, {}) as writer:
        writer.append(events)
    result = covad("inspect", path)
    assert result.returncode == 0, result.stderr
    assert "theta" in result.stdout


def test_inspect_without_a_study_cuts_nothing(tmp_path: Path) -> None:
    """Not one event has a lepton for the default trigger, and most jets are below its default cut."""
    layout = EventLayout((Collection("met", 1), Collection("jet", 2)))
    events = random_events(50, seed=1, layout=layout)
    result = covad("inspect", write_events(tmp_path / "hadronic.h5", events))
    assert result.returncode == 0, result.stderr
    for word in ("cuts", "efficiency", "yield ratio", "selected"):
        assert word not in result.stdout
    assert f"{events.present('jet').sum() / len(events):.4f}" in result.stdout


def test_inspect_of_events_that_all_fail_the_selection_of_a_study(tmp_path: Path) -> None:
    events = random_events(50, seed=1)
    events.objects("electron")[:] = events.objects("muon")[:] = 0
    path = write_events(tmp_path / "no leptons.h5", events)
    assert covad("init", "study.yaml", cwd=tmp_path).returncode == 0
    result = covad("inspect", path, "--study", tmp_path / "study.yaml")
    assert result.returncode == 0, result.stderr
    assert "after the cuts: 0 events" in result.stdout
    assert "no event passes the selection at nu = 0" in result.stdout


def test_inspect_names_a_collection_that_is_not_there(sample: Path) -> None:
    assert "no collection 'jets'" in complaint(covad("inspect", sample, "--collection", "jets"))


def test_inspect_with_a_study_refuses_events_that_its_cuts_do_not_fit(sample: Path) -> None:
    """The run would refuse them too, later."""
    assert "no collection 'photon'" in complaint(covad("inspect", sample, "--study", OWN_STUDY))


def test_inspect_shows_brackets_as_they_are(tmp_path: Path) -> None:
    path = write_events(tmp_path / "[bold].h5", random_events(50, seed=1), note="[/red]")
    result = covad("inspect", path, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "[bold].h5" in result.stdout.replace("\n", "")
    assert "note: [/red]" in result.stdout


def test_help_without_a_command() -> None:
    result = covad()
    assert (result.returncode, result.stderr) == (0, "")
    assert "simulate" in result.stdout


def test_fetch_verifies_and_does_not_fetch_twice(service: Service, tmp_path: Path) -> None:
    service.publish("lq", "leptoquark.h5", b"some bytes")
    command = ("fetch", "adc2021", "--sample", "lq", "--url", service.url, "--out", tmp_path)
    first, second = covad(*command), covad(*command)
    assert "fetched, 10 bytes, md5:" in first.stdout, first.stderr
    assert "already there" in second.stdout
    assert (tmp_path / "leptoquark.h5").read_bytes() == b"some bytes"


def test_fetch_refuses_wrong_bytes(service: Service, tmp_path: Path) -> None:
    service.publish("lq", "leptoquark.h5", b"some bytes", checksum="md5:" + 32 * "0")
    command = ("fetch", "adc2021", "--sample", "lq", "--url", service.url, "--out", tmp_path)
    assert "leptoquark.h5" in complaint(covad(*command))
    assert list(tmp_path.iterdir()) == []
    assert "unknown public sample 'top'" in complaint(
        covad("fetch", "adc2021", "--sample", "top", "--out", ".")
    )


def damaged_files(folder: Path, whole: Path) -> dict[str, str]:
    """File name -> what the complaint must say: one file for each way in which an event file can be bad."""
    content = whole.read_bytes()
    (folder / "truncated.h5").write_bytes(content[: len(content) // 2])
    (folder / "empty.h5").touch()
    (folder / "text.h5").write_text("pt eta phi\n")
    np.savez(folder / "pickled.npz", x_train=np.array([{"pt": 1}], dtype=object))
    with h5py.File(whole) as file:
        particles = file["Particles"][:10]
    negative = particles.copy()
    negative[3, 0, 0] = -1.0
    for name, array in (
        ("shape.h5", particles[:, :5]),
        ("dtype.h5", particles.astype(np.int64)),
        ("negative.h5", negative),
    ):
        with h5py.File(folder / name, "w") as file:
            file["Particles"] = array
    with h5py.File(folder / "dataset.h5", "w") as file:
        file["Jets"] = particles
    return {
        "truncated.h5": "truncated.h5",
        "empty.h5": "is empty",
        "text.h5": "neither an HDF5 file nor an npz file",
        "pickled.npz": "pickled",
        "shape.h5": "Particles",
        "dtype.h5": "Particles",
        "negative.h5": "event 3",
        "dataset.h5": "Particles",
    }


def test_inspect_refuses_every_kind_of_bad_file(sample: Path, tmp_path: Path) -> None:
    for name, message in damaged_files(tmp_path, sample).items():
        sentence = complaint(covad("inspect", tmp_path / name))
        assert name in sentence
        assert message in sentence


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_leaves_the_answer_of_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covad.parallel.in_one_thread", lambda _, fast: NO_TIMES)
    monkeypatch.setattr(bench, "format_table", str)
    answer = tmp_path / "answer.json"
    answer.write_bytes(b"{}")
    result = CliRunner().invoke(commands, ["bench", "toys", "--json", str(answer)])
    assert str(result.exception) == (
        f"{answer}: cannot be written (No space left on device): free some space, or choose another disk"
    )
    assert answer.read_bytes() == b"{}"
    assert list(tmp_path.iterdir()) == [answer]


def test_the_schema_of_study_files_is_json() -> None:
    found = json.loads(covad("schema").stdout)
    assert {"seed", "source", "tests"} <= set(found["properties"])


def test_json_goes_to_devices_and_through_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covad.parallel.in_one_thread", lambda _, fast: NO_TIMES)
    monkeypatch.setattr(bench, "format_table", str)
    link, target = tmp_path / "link.json", tmp_path / "target.json"
    link.symlink_to(target)
    for path in ("/dev/null", str(link)):
        assert CliRunner().invoke(commands, ["bench", "toys", "--json", path]).exit_code == 0
    assert link.is_symlink()
    assert json.loads(target.read_text()) == asdict(NO_TIMES)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("run", LATENT_STUDY, "--out", "new", "--dry-run", "--until", "fits"), "no stage 'fits'"),
        (("run", LATENT_STUDY, "--out", "new", "--dry-run", "--shard", "9/2"), "no shard 9 of 2"),
        (("inspect", ".", "--systematic", "jet_energy_scale"), "--systematic is for event files"),
        (("inspect", ".", "--study", OWN_STUDY), "--study is for event files"),
        (("inspect", ".", "--against", "data.h5", "--labels", "labels.npz"), "--labels does not go with"),
        (("tune-power", ".", "--leave-out", "z", "--to", "new", "--share", "0.1"), "--leave-out only writes"),
    ],
)
def test_options_that_would_do_nothing_are_refused(arguments, told, tmp_path):
    (tmp_path / "study.json").write_text("{}")  # what makes a folder a run
    assert told in complaint(covad(*arguments, cwd=tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["study.json"]
