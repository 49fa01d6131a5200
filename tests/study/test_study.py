import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo

from covad.errors import StudyError
from covad.study import Change, Study, changes, expecting, json_schema, parse_study, read_study
from covad.toys.ensembles import Treatment

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
STUDY_KEYS = ROOT / "docs" / "reference" / "study.md"
STUDY = """\
seed: 1
source: {kind: latent, nuisances: 1}
sizes: {expected: 1e4, reference: 52e3}
tests: {network: {clip: 1.9}, convex: {spread: 5e-1}}
configurations: [{treatment: none}, {treatment: profiled}]
nu: [0, 1, -1]
signals: {signal: [50, 1e2]}
cluster: {system: slurm, jobs: 2, options: {queue: short}}
"""


def read(tmp_path, text):
    path = tmp_path / "study.yaml"
    path.write_text(text)
    return read_study(path)


def test_numbers_may_be_written_as_powers(tmp_path):
    study = read(tmp_path, STUDY)
    assert study.sizes.expected == 10_000.0
    assert study.sizes.reference == 52_000
    assert study.tests.convex.spread == 0.5
    assert study.signals == {"signal": (50.0, 100.0)}


def test_a_single_nuisance_needs_no_brackets(tmp_path):
    assert read(tmp_path, STUDY).nu == ((0.0,), (1.0,), (-1.0,))


@pytest.mark.parametrize("n_nuisances", [1, 2, 3])
def test_left_out_nu_is_zero_of_every_nuisance(n_nuisances):
    content = {"seed": 0, "source": {"kind": "latent", "nuisances": n_nuisances}, "tests": {"convex": {}}}
    study = parse_study(content, "here")
    assert study.nu == ((0.0,) * n_nuisances,)
    assert parse_study(json.loads(json.dumps(study.plain())), "again") == study


def test_two_systematics_need_no_nu():
    names = [{"name": "jet_energy_scale"}, {"name": "lepton_energy_scale"}]
    source = {"kind": "events", "background": {"simulate": 6_600_000}, "systematics": names}
    source["spaces"] = {"covariant": {"alpha": 30}}
    study = parse_study({"seed": 0, "source": source, "tests": {"convex": {}}}, "here")
    assert study.nu == ((0.0, 0.0),)


def test_defaults_are_those_of_the_paper():
    study = parse_study(
        {"seed": 0, "source": {"kind": "latent"}, "tests": {"network": {}, "convex": {}}}, "here"
    )
    assert (study.sizes.expected, study.sizes.reference, study.normalisation) == (10_000, 52_000, 0.1)
    assert (study.tests.network.clip, study.tests.network.hidden) == ("tune", (4, 4))
    assert [(c.space, c.treatment, c.order) for c in study.configurations] == [
        ("latent", Treatment.PROFILED, 1)
    ]


@pytest.mark.parametrize(
    "path",
    sorted(path for path in EXAMPLES.glob("**/*.yaml") if path.name != "mapping.yaml"),
    ids=lambda path: path.name,
)
def test_examples_are_studies(path):
    study = read_study(path)
    assert parse_study(json.loads(json.dumps(study.plain())), "again") == study


def test_nothing_changes_once_it_is_read(tmp_path):
    study = read(tmp_path, STUDY)
    with pytest.raises(ValueError, match="frozen"):
        study.seed = 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seed: 1", "sed: 1", "sed: there is no such key (is 'seed' meant?)"),
        ("seed: 1\n", "", "seed: this key is needed"),
        ("seed: 1", "seed: -1", "seed: it should be greater than or equal to 0"),
        ("seed: 1", "seed: true", "seed: a number was expected, not true or false"),
        ("seed: 1", "seed: 1\nseed: 2", "key 'seed' stands twice, in line 1 and in line 2"),
        ("jobs: 2", "jobs: 2, jobs: 3", "key 'jobs' stands twice, in line 8 and in line 8"),
        ("nu: [0, 1, -1]", "toys: 1000000000", "toys: at most 10000000 toys can be asked for, which tell"),
        ("treatment: none", "treatment: none, toys: 1e12", "configurations.0.toys: at most 10000000 toys"),
        ("1e4", "1e300", "sizes.expected: it should be less than or equal to 100000000"),
        ("[50, 1e2]", "[1e300]", "signals.signal.0: it should be less than or equal to 100000000"),
        ("seed: 1", "seed: 1\nnormalisation: 1e-8", "normalisation: it should be greater than or equal to"),
        ("seed: 1", "seed: 1\nnormalisation: 11", "normalisation: it should be less than or equal to 10"),
        ("5e-1", "1e300", "tests.convex.spread: it should be less than or equal to 1000000"),
        ("5e-1", "1e-300", "tests.convex.spread: it should be greater than or equal to 0.000001"),
        ("spread: 5e-1", "bumps: 1000000000", "tests.convex.bumps: it should be less than or equal to"),
        ("jobs: 2", "jobs: 1000000000", "cluster.jobs: it should be less than or equal to 10000"),
        ("seed: 1", f"seed: {'[' * 100_000}", "cannot be read, its YAML is nested too deeply"),
        ("seed: 1", "seed: &a [*a]", "has more than 100000 values, aliases (*NAME) written out"),
        ("seed: 1", "seed: 2026-13-45", "is not YAML (month must be in 1..12)"),
        ("seed: 1", "? [1]\n: 2", "is not YAML (while constructing a mapping"),
        ("expected", "expectd", "sizes.expectd: there is no such key (is 'expected' meant?)"),
        ("1e4", "many", "sizes.expected: a number was expected, not 'many'"),
        ("1e4", "0", "sizes.expected: it should be greater than 0"),
        ("1e4", ".inf", "sizes.expected: it should be a finite number"),
        ("52e3", "5.5", "sizes.reference: it should be a valid integer"),
        ("1.9", "tun", "tests.network.clip: 'tune' or a positive number was expected, not 'tun'"),
        ("1.9", "-1", "tests.network.clip: 'tune' or a positive number was expected, not -1"),
        ("1.9", "[1]", "tests.network.clip: 'tune' or a positive number was expected"),
        ("kind: latent", "kind: latnt", "source.kind: latent or pools or events was expected"),
        ("kind: latent, ", "", "source.kind: latent or pools or events was expected"),
        ("nuisances: 1", "nuisances: 2", "nu: the source has 2 nuisances"),
        ("nuisances: 1", "nuisances: 51", "source.nuisances: it should be less than or equal to 50"),
        ("[0, 1, -1]", "[1, -1]", "nu: the central point 0 is needed"),
        ("[0, 1, -1]", "[0, 1, 1.0]", "nu: an entry stands twice"),
        ("[0, 1, -1]", "[0, [1, 1]]", "nu: all points need the same number"),
        (
            "nu: [0",
            "nu_norm: [1, 0]\nnu: [0",
            "nu_norm: an entry stands twice, or is 0, where toys are drawn",
        ),
        ("nu: [0", "nu_norm: [2, 1, 2.0]\nnu: [0", "nu_norm: an entry stands twice, or is 0"),
        ("nu: [0", "nu_norm: [-1, 1, 1.2]\nnu: [0", "nu_norm: 1 and 1.2 are nearer than 0.25 sigma"),
        ("nu: [0", "nu_norm: [1e-9]\nnu: [0", "nu_norm: 0 and 1e-09 are nearer than 0.25 sigma"),
        ("nu: [0", "nu_norm: [6]\nnu: [0", "nu_norm.0: it should be less than or equal to 5"),
        ("nu: [0", "nu_norm: [.nan]\nnu: [0", "nu_norm.0: it should be a finite number"),
        ("nu: [0", "nu_norm: 2\nnu: [0", "nu_norm: a list was expected"),
        ("nu: [0", "prior: maybe\nnu: [0", "prior: it should be a valid boolean"),
        ("nu: [0", "result: best\nnu: [0", "result: it should be 'adaptive', 'convex', 'network' or 'joint'"),
        (
            "{network: {clip: 1.9}, convex: {spread: 5e-1}}",
            "{convex: {}}\nresult: joint",
            "result: joint needs the network test, which tests lacks",
        ),
        (
            "{network: {clip: 1.9}, convex: {spread: 5e-1}}",
            "{network: {}}\nresult: convex",
            "result: convex needs the convex test, which tests lacks",
        ),
        (
            "{network: {clip: 1.9}, convex: {spread: 5e-1}}",
            "{network: {}, convex: {}}\nresult: adaptive",
            "result: adaptive needs the adaptive test, which tests lacks",
        ),
        (
            "treatment: none",
            "treatment: none, tests: [network]",
            "configurations.0.tests: result, which the study leaves open, is convex, so that the convex test",
        ),
        (
            "treatment: none}, {treatment: profiled}]",
            "treatment: none}, {tests: [convex]}]\nresult: joint",
            "configurations.1.tests: result is joint, so that the network test is needed in",
        ),
        (
            "treatment: none",
            "treatment: none, tests: [convex, adaptive]",
            "configurations.0.tests: the study has no adaptive test (it has: network, convex)",
        ),
        (
            "treatment: none",
            "treatment: none, tests: [convex, convex]",
            "configurations.0.tests: an entry stands twice",
        ),
        (
            "treatment: none",
            "treatment: none, tests: []",
            "configurations.0.tests: one test is needed at least",
        ),
        (
            "treatment: none",
            "treatment: none, tests: [convx]",
            "configurations.0.tests.0: it should be 'network', 'convex' or 'adaptive'",
        ),
        (
            "nu: [0",
            "main: latent\nnu: [0",
            "main: the study has no configuration 'latent' (it has: latent, no nuisances; latent, profiled)",
        ),
        ("[50, 1e2]", "50", "signals.signal: a list was expected"),
        ("[50, 1e2]", "[0]", "signals.signal.0: it should be greater than 0"),
        ("[50, 1e2]", "[50, 50.0]", "signals.signal: an entry stands twice"),
        ("{signal:", "{bump:", "signals.bump: the latent world has one signal, 'signal'"),
        (
            "{treatment: none}",
            "{sizes: {expected: 100}}, {sizes: {expected: 100, reference: 300}}",
            "configurations.0 and configurations.1 are both 'latent, profiled, 100 events': names must",
        ),
        ("profiled", "profild", "configurations.1.treatment: it should be 'none' or 'profiled'"),
        ("slurm", "pbs", "cluster.system: it should be 'slurm' or 'htcondor'"),
        ("{network: {clip: 1.9}, convex: {spread: 5e-1}}", "{}", "tests: at least one of"),
        (
            "{spread: 5e-1}",
            "{bumps: 40, capacity: 45}",
            "tests.convex: capacity 45 needs more than 40 bumps",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence_with_its_key(tmp_path, old, new, message):
    assert old in STUDY
    with pytest.raises(StudyError) as failure:
        read(tmp_path, STUDY.replace(old, new))
    said = str(failure.value)
    assert said.startswith(f"{tmp_path / 'study.yaml'}: {message}")
    assert "\n" not in said


EVENTS = {
    "kind": "events",
    "background": {"simulate": 6_100_000},
    "signals": {"a4l": {"simulate": 100}},
    "spaces": {"covariant": {"alpha": 30}},
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"encoder": {"width": 30}}, "source.encoder: an encoder of width 30 cannot have 4 heads"),
        ({"splits": {"encoder": 4000}}, "source: splits.encoder: 4000 events leave 3600 for the training"),
        ({"folds": 2, "splits": {"encoder": 9000}}, "source: splits.encoder: 9000 events leave 4050"),
        ({"pools": {"reference": 50_000}}, "source.pools: there is no such key (is 'splits' meant?)"),
        ({"training": {"weight_decy": 1}}, "weight_decy: there is no such key (is 'weight_decay' meant?)"),
        ({"background": {"fles": ["x.h5"]}}, "background.fles: there is no such key (is 'files' meant?)"),
        ({"signals": {"a4l": {"simulat": 5}}}, "a4l.simulat: there is no such key (is 'simulate' meant?)"),
        ({"splits": {"reference": 50_000}}, "source.splits.reference: toys need 52000 events"),
        ({"splits": {"data": 9_000}}, "source.splits.data: toys need 10000 events"),
        ({"signals": {"a4l": {"simulate": 40}}}, "source.signals.a4l.simulate: toys need 50 events"),
        ({"signals": {"data": {"simulate": 90}}}, "source: signals.data: the name is taken"),
        (
            {"systematics": [{"name": "jet_energy_scale"}, {"name": "jet_energy_scale", "sigma": 0.1}]},
            "systematics.1: 'jet_energy_scale' acts on the same events with different sigma",
        ),
        (
            {
                "systematics": [
                    {"name": "gen-w", "kind": "samples", "process": "z", "up": {"files": ["a.h5"]}},
                    {"name": "gen", "kind": "samples", "process": "w-z", "up": {"files": ["b.h5"]}},
                ]
            },
            "source: systematics: two separate samples would be called 'gen-w-z-up': rename one of them",
        ),
        (
            {
                "systematics": [
                    {"name": "jet_energy_scale"},
                    {"name": "gen", "kind": "samples", "process": "w", "up": {"files": ["a.h5"]}},
                ],
                "response": {"cross": [["jet_energy_scale", "gen"]]},
            },
            "source: response.cross: gen does not exist at both +1 and -1, where the mixed term is learned",
        ),
        (
            {"background": {"files": ["a.h5"], "processes": {"w": {"cross_section": 1, "yield": 3}}}},
            "source.background.processes.w: either cross_section or yield is needed: give one of them",
        ),
        (
            {"background": {"files": ["a.h5"], "processes": {"w": {}}}},
            "source.background.processes.w: either cross_section or yield is needed: give one of them",
        ),
        (
            {"background": {"files": ["a.h5"], "processes": {"w": {"yield": 3, "sum_of_weights": 2}}}},
            "processes.w: sum_of_weights does nothing beside yield: leave it out",
        ),
        (
            {"background": {"files": ["a.h5"], "processes": {"w": {"cross_section": 1}}}},
            "source: luminosity: the cross section of w needs it: give it, in 1/pb, or the yield",
        ),
        ({"luminosity": 3.0}, "source: luminosity: no entry of background.processes has a cross_section"),
        ({"luminosity": float("nan")}, "source.luminosity: it should be greater than 0"),
        (
            {"background": {"files": ["a.h5"], "processes": {"w": {"expected": 3}}}},
            "processes.w.expected: there is no such key (is 'yield' meant?)",
        ),
        (
            {"background": {"files": ["a.h5"], "processes": {"w": {"yield": float("nan")}}}},
            "processes.w.yield: it should be greater than 0",
        ),
        (
            {"background": {"files": ["a.h5"], "processes": {"w": {"yield": -1}}}},
            "processes.w.yield: it should be greater than 0",
        ),
        (
            {"signals": {"a4l": {"simulate": 100, "processes": {"a4l": {"yield": 3}}}}},
            "source.signals.a4l.processes: there is no such key",
        ),
        (
            {"background": {"simulate": 6_100_000, "processes": {"w": {"yield": 3}}}},
            "source.background: processes: simulated background has w, qcd, z, ttbar: name them",
        ),
        ({"signals": {"check": {"simulate": 90}}}, "source: signals.check: the name is taken"),
        ({"signals": {"encoder": {"simulate": 90}}}, "source: signals.encoder: the name is taken"),
        ({"signals": {"response": {"simulate": 90}}}, "source: signals.response: the name is taken"),
        (
            {"systematics": [{"name": "normalisation"}]},
            "systematics: the name normalisation is",
        ),
    ],
)
def test_events_that_cannot_do_are_refused_with_their_key(changes, message):
    content = {"seed": 1, "source": EVENTS, "tests": {"convex": {}}, "signals": {"a4l": [50]}}
    parse_study(content, "here")
    with pytest.raises(StudyError) as failure:
        parse_study(content | {"source": EVENTS | changes}, "here")
    assert message in str(failure.value)


PROCESSES = {"w": {"yield": 7000}, "qcd": {"yield": 4000, "label": "w"}}


def of_processes(**changes):
    source = EVENTS | {"background": {"files": ["/a.h5"], "processes": PROCESSES}}
    return parse_study({"seed": 1, "source": source, "tests": {"convex": {}}} | changes, "here")


def test_expected_events_that_follow_are_settled_once():
    """A study file may leave them open, also where no split would have the default; a run may not."""
    study = of_processes(sizes={"reference": 60_000}, configurations=[{}, {"sizes": {"reference": 70_000}}])
    assert study.leaves_open(study.sizes)
    made = expecting(study, 11_000.0)
    assert (made.sizes.expected, made.sizes.reference) == (11_000.0, 60_000)
    assert made.configurations[1].sizes.expected == 11_000.0
    assert not made.leaves_open(made.sizes)
    assert parse_study(json.loads(json.dumps(made.plain())), "again") == made
    assert made.plain()["source"]["background"]["processes"]["w"]["yield"] == 7000
    with pytest.raises(
        StudyError, match=r"2e\+06 events are expected of .*: source.splits.data: toys need 2e"
    ):
        expecting(study, 2e6)


def test_expected_events_that_are_given_stay():
    study = of_processes(sizes={"expected": 12_000})
    assert expecting(study, 11_000.0).sizes.expected == 12_000
    with pytest.raises(StudyError, match=r"source.splits.data: toys need 2e\+06"):
        of_processes(sizes={"expected": 2e6})


@pytest.mark.parametrize("key", ["weights", "weight_decay", "expected"])
def test_a_key_that_is_like_none_of_its_place_gets_no_hint(key):
    content = {"seed": 1, "source": EVENTS | {key: 1}, "tests": {"convex": {}}}
    with pytest.raises(StudyError, match=f"source.{key}: there is no such key$"):
        parse_study(content, "here")


@pytest.mark.parametrize(
    "text", ["", "- a\n- b\n", "seed", "a: [", "a: !!python/object:os.system {}\n", "\x00"]
)
def test_what_is_no_study_is_refused(tmp_path, text):
    with pytest.raises(StudyError, match=r"study\.yaml: "):
        read(tmp_path, text)


def test_merged_keys_are_read(tmp_path):
    text = STUDY.replace("{treatment: none}", "&common {treatment: none, toys: 90}").replace(
        "{treatment: profiled}", "{<<: *common, treatment: profiled}"
    )
    first, second = read(tmp_path, text).configurations
    assert (first.toys, second.toys, second.treatment) == (90, 90, Treatment.PROFILED)
    twice = text.replace("treatment: profiled", "<<: *common")
    with pytest.raises(StudyError, match="key '<<' stands twice, in line 5 and in line 5"):
        read(tmp_path, twice)


def test_aliases_cannot_blow_a_study_up(tmp_path):
    laughs = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    with pytest.raises(StudyError, match="has more than 100000 values"):
        read(tmp_path, f"a0: &a0 [1]\n{laughs}{STUDY}")


def test_only_a_small_regular_file_is_a_study(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as large:
        large.truncate(2**30)
    for path, reason in (
        (Path("/dev/zero"), "is not a regular file"),
        (tmp_path / "pipe", "is not a regular file"),
        (tmp_path, "is a directory"),
        (tmp_path / "large", "has 1073741824 bytes, more than the 1048576"),
    ):
        with pytest.raises(StudyError, match=f"^{re.escape(str(path))}: {reason}"):
            read_study(path)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StudyError, match=r"none\.yaml: cannot be read"):
        read_study(tmp_path / "none.yaml")


def test_paths_are_relative_to_the_file(tmp_path):
    study = read(tmp_path, STUDY.replace("{kind: latent, nuisances: 1}", "{kind: pools, path: p, space: e}"))
    assert study.source.path == tmp_path / "p"


def test_the_schema_describes_the_file():
    schema = json.loads(json_schema())
    assert set(yaml.safe_load(STUDY)) <= set(schema["properties"])
    assert schema["additionalProperties"] is False


def change(tmp_path, old, new):
    before, after = read(tmp_path, STUDY).plain(), read(tmp_path, STUDY.replace(old, new)).plain()
    (found,) = changes(before, after)
    return found


def test_the_key_that_changed_is_named(tmp_path):
    assert str(change(tmp_path, "1e4", "2e4")) == "sizes.expected was 10000.0 and is now 20000.0"
    assert str(change(tmp_path, "clip: 1.9", "clip: tune")) == 'tests.network.clip was 1.9 and is now "tune"'
    assert str(change(tmp_path, "[0, 1, -1]", "[0]")).startswith("nu was [[0.0], [1.0], [-1.0]]")
    assert str(change(tmp_path, ", convex: {spread: 5e-1}", "")).startswith("tests.convex was")


def test_toys_and_cluster_may_change_without_a_consequence(tmp_path):
    assert change(tmp_path, "seed: 1", "seed: 1\ntoys: 900").is_free
    assert change(tmp_path, "treatment: none", "treatment: none, background_toys: 900").is_free
    assert change(tmp_path, "jobs: 2", "jobs: 20").is_free
    assert not change(tmp_path, "1e4", "2e4").is_free


@pytest.mark.parametrize(
    ("key", "before", "after", "refused"),
    [
        ("sizes.expected", 1, 2, False),
        ("tests.convex", None, {}, False),
        ("nu", [0], [1], False),
        ("signals.lq", None, [3], False),
        ("configurations", [], [{}], False),
        ("configurations.0.order", 1, 2, False),
        ("normalisation", 0.1, None, False),
        ("source.response.epochs", 1, 2, False),
        ("source.fold", 0, 1, False),
        ("source.luminosity", 1.0, 2.0, False),
        ("source.background.processes", {}, {"w": {"yield": 3}}, False),
        ("source.background.processes.w.cross_section", 1.0, 2.0, False),
        ("source.duplicates", "refused", "allowed", False),
        ("source.signals.lq", None, {"simulate": 3}, False),
        ("source.signals.lq", {"simulate": 3}, None, False),
        ("source.spaces.second", None, {"alpha": 1}, False),
        ("source.signals.lq.files", ["a"], ["b"], False),
        ("source.signals.lq.simulate", 3, 4, True),
        ("source.spaces.second.alpha", 1, 2, True),
        ("source.training.steps", 1, 2, True),
        ("source.background.simulate", None, 3, True),
        ("source.folds", 1, 2, True),
        ("source.kind", "latent", "pools", True),
        ("seed", 1, 2, True),
        ("gone", 1, None, True),
    ],
)
def test_what_no_encoder_depends_on_may_change(key, before, after, refused):
    assert Change(key, before, after).is_refused == refused


def test_toys_of_the_prior_are_the_default_where_there_are_events_for_them(tmp_path):
    """Pools that were embedded elsewhere have no points of the prior, unless the study says that they do."""
    latent = {"seed": 0, "source": {"kind": "latent"}, "tests": {"convex": {}}}
    pools = latent | {"source": {"kind": "pools", "path": str(tmp_path), "space": "here"}}
    assert parse_study(latent, "here").prior
    assert not parse_study(pools, "here").prior
    assert parse_study(pools | {"prior": True}, "here").prior
    again = parse_study(pools, "here")
    assert parse_study(json.loads(json.dumps(again.plain())), "again") == again


def test_reading_a_study_needs_no_heavy_library():
    """Its sections are the settings of the rooms, which stand apart from torch and the compiler."""
    code = "import sys, covad.study; print(*{'torch', 'numba', 'scipy', 'dask', 'h5py'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


def keys_of(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo, bool]]:
    """All keys below a section as docs/reference/study.md writes them, and whether they hold sections."""
    for attribute, field in model.model_fields.items():
        name = field.alias or attribute
        below = list(sections_in(field.annotation))
        yield prefix + name, field, bool(below)
        for path, section in below:
            yield from keys_of(section, f"{prefix}{name}{path}.")


def sections_in(annotation: Any, path: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield path, annotation
    steps = {tuple: "[]", dict: ".NAME"}
    for part in get_args(annotation):
        yield from sections_in(part, path + steps.get(get_origin(annotation), ""))


def documented_defaults() -> dict[str, str]:
    rows = [line.split(" | ") for line in STUDY_KEYS.read_text().splitlines() if line.startswith("| `")]
    return {key: row[1].strip("`") for row in rows for key in re.findall(r"`(.*?)`", row[0])}


def test_every_key_and_its_default_is_documented():
    rows = documented_defaults()
    for path, field, has_parts in keys_of(Study):
        key = path.replace("source.spaces.NAME.encoder.", "source.encoder.")  # the same class, told once
        assert key in rows or (has_parts and any(row.startswith(key) for row in rows)), key
        if has_parts or field.get_default(call_default_factory=True) is None:
            continue
        kinds = {"source.systematics[].kind": "shift", "source.spaces.NAME.kind": "learned"}
        if key in kinds:  # every class has its own, and one of them is the default
            assert rows[key] == kinds[key]
            continue
        if field.is_required():
            assert rows[key] == "needed", key
        else:
            value = TypeAdapter(Annotated[field.annotation, *field.metadata, "a default"])
            expected = field.get_default(call_default_factory=True)
            assert value.validate_python(yaml.safe_load(rows[key])) == expected, key
