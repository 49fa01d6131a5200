"""Kinds of systematics in a study file, their correlations, and points by name."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from covad.errors import StudyError
from covad.study import changes, parse_study, read_study
from covad.study.plan import nuisance_names
from covad.study.systematics import NormalisationEntry, SamplesEntry, ShiftEntry, VariedEntry, WeightsEntry

ENTRIES = [
    {"name": "jet_energy_scale", "sigma": 0.025},
    {"name": "jes_total", "kind": "varied", "up": "jesTotalUp", "down": "jesTotalDown"},
    {"name": "pileup", "kind": "weights", "up": "puUp", "down": "puDown", "only": ["w", "z"]},
    {"name": "trigger", "kind": "weights", "function": "math:exp"},
    {"name": "ttbar_model", "kind": "samples", "process": "ttbar", "up": {"files": ["/alt.h5"]}},
    {"name": "ttbar_rate", "kind": "normalisation", "uncertainty": 0.06, "only": ["ttbar"]},
    {"name": "pileup", "kind": "normalisation", "uncertainty": 0.01},
]


def content(systematics, **keys):
    source = {"kind": "events", "background": {"files": ["/a.h5"]}, "systematics": systematics}
    source |= {"spaces": {"covariant": {"alpha": 1}}, "correlations": keys.pop("correlations", [])}
    return {"seed": 1, "source": source, "tests": {"convex": {}}, **keys}


def study(systematics, **keys):
    return parse_study(content(systematics, **keys), "here")


def test_every_kind_has_its_class_and_survives_json():
    found = study(ENTRIES, nu=[0, {"ttbar_model": 1}])
    kinds = [ShiftEntry, VariedEntry, WeightsEntry, WeightsEntry, SamplesEntry, NormalisationEntry]
    assert [type(entry) for entry in found.source.systematics[:6]] == kinds
    again = parse_study(json.loads(json.dumps(found.plain())), "again")
    assert again == found
    assert list(changes(again.plain(), found.plain())) == []


def test_entries_of_one_name_are_one_nuisance():
    found = study(ENTRIES)
    names = ("jet_energy_scale", "jes_total", "pileup", "trigger", "ttbar_model", "ttbar_rate")
    assert found.source.nuisances == names
    assert found.source.n_nuisances == 6
    assert found.nu == ((0.0,) * 6,)
    assert nuisance_names(found) == (*names, "normalisation")
    assert list(found.source.separate_samples) == ["ttbar_model-ttbar-up"]


def test_points_may_be_written_by_name():
    points = [0, {"jet_energy_scale": 1}, {"pileup": "5e-1", "jet_energy_scale": -2}, [0, 0, 0, 0, 1, 0]]
    found = study(ENTRIES, nu=points, configurations=[{"nu": [{}, {"trigger": 1}]}])
    assert found.nu == (
        (0.0,) * 6,
        (1.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        (-2.0, 0.0, 0.5, 0.0, 0.0, 0.0),
        (0.0, 0.0, 0.0, 0.0, 1.0, 0.0),
    )
    assert found.configurations[0].nu == ((0.0,) * 6, (0.0, 0.0, 0.0, 1.0, 0.0, 0.0))


def test_the_default_systematic_can_be_named():
    given = content(ENTRIES, nu=[0, {"jet_energy_scale": 1}])
    del given["source"]["systematics"]
    assert parse_study(given, "here").nu == ((0.0,), (1.0,))


def test_descriptions_of_shifts_are_those_of_older_runs():
    """Recipes hold them: other ones would make all models anew."""
    assert [entry.description for entry in study(ENTRIES).source.systematics[:2]] == ENTRIES[:2]
    written = {"name": "lepton_energy_scale", "kind": "shift", "only": [], "collections": ["muon"]}
    (found,) = study([written]).source.systematics
    assert found.description == {"name": "lepton_energy_scale", "collections": ["muon"]}


def test_descriptions_leave_out_where_files_lie():
    first, second = (
        study([{"name": "m", "kind": "samples", "process": "w", "up": {"files": [file]}}])
        for file in ("/a/x.h5", "/b/x.h5")
    )
    assert first.source.systematics[0].description == second.source.systematics[0].description
    (change,) = changes(first.plain(), second.plain())
    assert change.is_free


def test_paths_of_samples_are_relative_to_the_file(tmp_path):
    entry = {"name": "m", "kind": "samples", "process": "w", "up": {"files": ["u.h5"]}}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(content([entry | {"down": {"files": ["d.h5"]}}])))
    found = read_study(tmp_path / "study.yaml").source.separate_samples
    assert [sample.files for sample in found.values()] == [
        (Path(tmp_path / name).resolve(),) for name in ("u.h5", "d.h5")
    ]


def test_correlations_become_a_matrix():
    assert study(ENTRIES).source.correlation is None
    given = [
        {"between": ["pileup", "jes_total"], "value": 0.3},
        {"between": ["jes_total", "trigger"], "value": "-5e-1"},
    ]
    expected = np.eye(6)
    expected[1, 2] = expected[2, 1] = 0.3
    expected[1, 3] = expected[3, 1] = -0.5
    np.testing.assert_array_equal(study(ENTRIES, correlations=given).source.correlation, expected)


def pair(first, second, value):
    return {"between": [first, second], "value": value}


@pytest.mark.parametrize(
    ("correlations", "message"),
    [
        (
            [pair("pileup", "pile", 0.3)],
            "source: correlations.0: there is no nuisance 'pile' (there",
        ),
        ([pair("pileup", "pileup", 0.3)], "correlations.0: a nuisance has the correlation 1 with itself"),
        (
            [pair("pileup", "trigger", 0.3), pair("trigger", "pileup", 0.3)],
            "correlations.1: trigger and pileup stand there twice",
        ),
        (
            [pair("pileup", "trigger", 0), pair("trigger", "pileup", 0.3)],
            "correlations.1: trigger and pileup stand there twice",
        ),
        ([pair("pileup", "trigger", 1)], "source.correlations.0.value: it should be less than 1"),
        (
            [pair("pileup", "trigger", float("nan"))],
            "correlations.0.value: it should be a finite number",
        ),
        ([{"between": ["pileup"], "value": 0.1}], "source.correlations.0.between.1: this key is needed"),
        (
            [
                pair("pileup", "trigger", 0.9),
                pair("trigger", "jes_total", 0.9),
                pair("pileup", "jes_total", -0.9),
            ],
            "correlations: together they are not positive definite (smallest eigenvalue -0.8)",
        ),
    ],
)
def test_correlations_that_cannot_be_are_one_sentence(correlations, message):
    with pytest.raises(StudyError) as failure:
        study(ENTRIES, correlations=correlations)
    assert message in str(failure.value)
    assert "\n" not in str(failure.value)


SCALE = {"name": "jet_energy_scale"}
RATE = {"name": "rate", "kind": "normalisation", "uncertainty": 0.1}
OWN = {"name": "own", "function": "m:f", "sigma": 1}
WEIGHTS = {"name": "pu", "kind": "weights"}


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([{"name": "x", "kind": "wieghts"}], "systematics.0.kind: shift or varied or weights or samples"),
        ([WEIGHTS | {"up": "a"}], "source.systematics.0: up without down: give both"),
        ([WEIGHTS | {"down": "a"}], "source.systematics.0: down without up: give both"),
        ([WEIGHTS], "source.systematics.0: either up and down or a function is needed"),
        ([WEIGHTS | {"up": "a", "down": "b", "function": "m:f"}], "either up and down or a function"),
        ([WEIGHTS | {"up": "a", "down": "b", "sigma": 1}], "sigma does nothing beside up and down"),
        ([WEIGHTS | {"up": "a", "down": "a"}], "source.systematics.0: up and down are both 'a'"),
        ([WEIGHTS | {"kind": "varied", "up": "a", "down": "a"}], "systematics.0: up and down are both 'a'"),
        (
            [
                {"name": "a-b", "kind": "samples", "process": "c", "up": {"files": ["a"]}},
                {"name": "a", "kind": "samples", "process": "b-c", "up": {"files": ["b"]}},
            ],
            "systematics: two separate samples would be called 'a-b-c-up'",
        ),
        ([WEIGHTS | {"up": "a", "dwn": "b"}], "source.systematics.0.dwn: there is no such key (is 'down'"),
        ([WEIGHTS | {"built_in": "slope", "up": "a"}], "systematics.0: up does nothing beside built_in"),
        ([{"name": "x", "kind": "varied", "up": "a"}], "source.systematics.0.down: this key is needed"),
        ([{"name": "x", "kind": "samples", "up": {"files": ["a"]}}], "systematics.0.process: this key is"),
        (
            [{"name": "x", "kind": "samples", "process": "w", "up": {}}],
            "source.systematics.0.up: either files or simulate is needed",
        ),
        ([RATE | {"uncertainty": -0.1}], "source.systematics.0.uncertainty: it should be greater than 0"),
        ([{"name": "rate", "kind": "normalisation"}], "source.systematics.0.uncertainty: this key is needed"),
        (
            [SCALE, SCALE],
            "systematics.1: 'jet_energy_scale' acts on the same events, twice",
        ),
        ([SCALE, SCALE | {"sigma": 0.1}], "with different sigma, but one nuisance has one"),
        ([SCALE | {"only": ["w", "z"]}, SCALE | {"sigma": 0.1, "only": ["z"]}], "with different sigma"),
        ([OWN, OWN | {"function": "m:g", "sigma": 2}], "with different sigma"),
        ([RATE, RATE | {"uncertainty": 0.2, "only": ["w"]}], "with different uncertainty"),
        ([SCALE | {"only": ["w", "w"]}], "systematics.0.only: a process stands twice"),
        ([RATE | {"name": "normalisation"}], "systematics: the name normalisation is taken"),
    ],
)
def test_entries_that_cannot_be_are_one_sentence(entries, message):
    with pytest.raises(StudyError) as failure:
        study(entries)
    assert message in str(failure.value)
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize(
    "entries",
    [
        [SCALE | {"only": ["w"]}, SCALE | {"sigma": 0.1, "only": ["z"]}],
        [OWN, OWN | {"function": "m:g"}],
        [SCALE, {"name": "jet_energy_scale", "kind": "normalisation", "uncertainty": 0.1}],
    ],
)
def test_one_nuisance_may_act_in_several_ways(entries):
    assert study(entries).source.n_nuisances == 1


@pytest.mark.parametrize(
    ("nu", "message"),
    [
        ([0, {"pile": 1}], "nu.1: there is no nuisance 'pile' (there are jet_energy_scale, jes_total"),
        ([0, {"pileup": "x"}], "nu.1.2: a number was expected, not 'x'"),
        ([0, {"ttbar_model": 2}], "'ttbar_model' has separate samples, which are there at -1, 0 and 1 only"),
        ([{"pileup": 1}], "nu: the central point 0 is needed"),
        ([0, {}], "nu: an entry stands twice"),
        ([0, 1], "nu: all points need the same number of nuisances"),
    ],
)
def test_points_that_cannot_be_are_one_sentence(nu, message):
    with pytest.raises(StudyError) as failure:
        study(ENTRIES, nu=nu)
    assert message in str(failure.value)


def test_the_latent_world_names_no_nuisances():
    with pytest.raises(StudyError, match=r"nu\.1: only nuisances of source\.systematics can be named"):
        parse_study(
            {"seed": 1, "source": {"kind": "latent"}, "tests": {"convex": {}}, "nu": [0, {"a": 1}]}, "here"
        )


def test_a_signal_may_not_be_called_like_a_sample():
    given = content(ENTRIES)
    given["source"]["signals"] = {"ttbar_model-ttbar-up": {"files": ["/s.h5"]}}
    with pytest.raises(StudyError, match="is called so: rename it"):
        parse_study(given, "here")
