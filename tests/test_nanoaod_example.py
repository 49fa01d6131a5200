"""The first example of docs/tutorials/own-events.md: its files, and its commands in a copy."""

import importlib.util
import json
import subprocess
import sys

import numpy as np
import pytest
import uproot
import yaml
from tutorial_page import ROOT, commands, run_in_copy, verbs

from covad.events.processes import BACKGROUND_MIX

EXAMPLE = ROOT / "examples" / "nanoaod"
#: Expected events after the cuts.
EXPECTED = 3000


@pytest.fixture(scope="module")
def made():
    """The module that makes the files."""
    specification = importlib.util.spec_from_file_location("make_files", EXAMPLE / "make_files.py")
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module  # where dataclasses look their annotations up
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nanoaod")
    script = [sys.executable, EXAMPLE / "make_files.py", "--out", folder, "--scale", "0.05", "--seed", "7"]
    subprocess.run(script, check=True, capture_output=True)
    return folder


def arrays(files, name, tree="Events"):
    with uproot.open(files / name) as file:
        return file[tree].arrays(library="np")


def leading_lepton(events):
    """The largest pt of identified electrons and muons."""
    leptons = (("Electron_pt", "Electron_cutBased", 4), ("Muon_pt", "Muon_tightId", 1))
    return np.maximum(
        *(
            [max(pt[flag >= least], default=0.0) for pt, flag in zip(events[pts], events[flags], strict=True)]
            for pts, flags, least in leptons
        )
    )


def test_the_study_has_the_luminosity_and_the_cross_sections_of_the_files(made):
    source = yaml.safe_load((EXAMPLE / "study.yaml").read_text())["source"]
    assert source["luminosity"] == made.LUMINOSITY
    assert source["background"]["processes"] == {
        sample.process: {"cross_section": sample.cross_section} for sample in made.BACKGROUND
    }
    assert sum(source["splits"].values()) <= sum(sample.n_events for sample in made.BACKGROUND)


def test_yields_have_the_mix_of_the_paper(made, files):
    """Within 4 statistical errors and the 1 % to which skims are written: false alarms 1 in 4000."""
    for sample in made.BACKGROUND:
        passed, squares, generated = 0.0, 0.0, 0.0
        for name in sample.files:
            events = arrays(files, name)
            weights = (events["genWeight"] * events["puWeight"])[leading_lepton(events) >= 23]
            passed, squares = passed + weights.sum(dtype=float), squares + (weights**2).sum(dtype=float)
            generated += float(arrays(files, name, "Runs")["genEventSumw"][0])
        scale = made.LUMINOSITY * sample.cross_section / generated
        expected = EXPECTED * BACKGROUND_MIX[sample.process]
        assert scale * passed == pytest.approx(expected, abs=4 * scale * np.sqrt(squares) + 0.01 * expected)


def test_weights_have_both_signs_more_at_large_ht(files):
    events = arrays(files, "qcd.root")
    ht = np.array(
        [pt[flag >= 2].sum() for pt, flag in zip(events["Jet_pt"], events["Jet_jetId"], strict=True)]
    )
    negative = events["genWeight"] < 0
    shares = [negative[part].mean() for part in (ht < 30, (ht >= 30) & (ht < 150), ht >= 150)]
    assert 0.05 < shares[0] < shares[1] < shares[2] < 0.4


def test_jets_of_the_simulation_have_shifted_versions(files):
    events = arrays(files, "z.root")
    nominal, up, down = (
        np.concatenate(events[f"Jet_pt{end}"]) for end in ("", "_jesTotalUp", "_jesTotalDown")
    )
    assert up == pytest.approx(nominal * np.exp(0.025), rel=1e-6)
    assert down == pytest.approx(nominal * np.exp(-0.025), rel=1e-6)


def test_some_objects_are_fakes(files):
    events = arrays(files, "w_1.root")
    jets = np.concatenate(events["Jet_jetId"])
    assert 0 < (jets < 2).mean() < 0.5
    assert (events["nJet"] == [len(pt) for pt in events["Jet_pt"]]).all()


def test_files_of_one_process_hold_different_events(files):
    one, other = (arrays(files, f"w_{number}.root") for number in (1, 2))
    assert not np.isin(one["MET_pt"], other["MET_pt"]).mean() > 0.01


def test_data_have_no_weights(files, made):
    with uproot.open(files / "data.root") as file:
        names, n_events = set(file["Events"].keys()), file["Events"].num_entries
    assert not {name for name in names if "eight" in name or "jes" in name}
    expected = sum(sample.visible for sample in made.BACKGROUND) + 100
    assert n_events == pytest.approx(expected, abs=5 * np.sqrt(expected))


def test_the_tutorial_goes_from_root_to_a_p_value():
    steps = ["convert"] * 7 + ["inspect", "yields", "run", "status", "report", "test"]
    assert verbs(1) == steps


@pytest.mark.slow
def test_every_command_of_the_tutorial_works(tmp_path):
    """The hidden signal is found: of a median Z of about 5, 3 is 2 standard deviations below."""
    run_in_copy(EXAMPLE, tmp_path, commands(1))
    run = tmp_path / "run"
    assert (run / "report.html").exists()
    (answer,) = (run / "observed").glob("*.json")
    observation = json.loads(answer.read_text())
    assert observation["expected"] == pytest.approx(EXPECTED, rel=0.02)
    (test,) = observation["tests"]
    (quoted,) = (line for line in test["significances"] if line["null"] == test["quoted"])
    assert quoted["z"] > 3
    toys = json.loads((run / "summary.json").read_text())["toys"]
    assert toys["done"] == toys["requested"] > 0
