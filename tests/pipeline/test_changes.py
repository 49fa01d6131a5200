"""A study that changes in a run directory: what no changed key touches is kept, the rest is as if fresh."""

import json
import logging
import shutil
from dataclasses import replace

import pytest
from finished_run import TINY, make_run, tiny_study
from toy_world import latent_pools, results

from covad.errors import PlanError, RunInUseError, StudyError, TooFewEventsError
from covad.pipeline import dry_run, run_study
from covad.pipeline.claim import claim
from covad.pipeline.lock import announced_toys
from covad.pipeline.toys import compute_missing
from covad.results.collect import collect
from covad.results.compute import summarise
from covad.runs.directory import RunDirectory
from covad.storage.versions import Versions
from covad.study import parse_study
from covad.toys.ensembles import Shard
from covad.toys.pool_files import write_pools
from covad.toys.toy import run_block

LATENT = {
    "seed": 1,
    "source": {"kind": "latent", "nuisances": 1},
    "sizes": {"expected": 200, "reference": 1000},
    "tests": {"convex": {"bumps": 5}},
    "nu": [0, 1],
    "nu_norm": [],
    "prior": False,
    "signals": {"signal": [20]},
    "toys": 10,
}
ALTERED = {
    "sizes": {"sizes": {"expected": 300, "reference": 1000}},
    "tests": {"tests": {"convex": {"bumps": 6}}},
    "another test": {"tests": {"network": {"clip": 1.5, "starts": 1, "hops": 0}, "convex": {"bumps": 5}}},
    "nu": {"nu": [0, -1]},
    "signals": {"signals": {"signal": [20, 40]}},
    "normalisation": {"normalisation": 0.2},
    "toys": {"toys": 20},
    "configurations": {"configurations": [{"treatment": "none"}, {"treatment": "profiled"}]},
    "cluster": {"cluster": {"system": "slurm", "jobs": 2}},
}


def latent(**changes):
    return parse_study(LATENT | changes, "here")


def here(blocks):
    for block in blocks:
        yield block, run_block(block)


def toys_of(path):
    """All toys of a run to the bit, and the basis that they were tested with."""
    found = collect(path)
    toys = {identity: results(ensemble.toys) for identity, ensemble in found.toys.items()}
    slugs = [configuration.slug for configuration in found.study.configurations]
    return toys, [(path / "basis" / f"{slug}.json").read_bytes() for slug in slugs]


def told(path):
    """All that a run says, but when and how long."""
    found = summarise(collect(path))
    lines = tuple(replace(line, seconds_per_toy=None) for line in found.ensembles)
    return replace(found, ensembles=lines, manifest=None, made_of="", study=None)


def contents(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """A run of the study as it was."""
    path = tmp_path_factory.mktemp("latent") / "run"
    run_study(latent(), path, here)
    return path


@pytest.fixture
def run(before, tmp_path):
    return shutil.copytree(before, tmp_path / "run")


@pytest.mark.parametrize(
    "key", [pytest.param(key, marks=pytest.mark.slow) if key == "another test" else key for key in ALTERED]
)
def test_a_changed_key_gives_what_a_fresh_run_gives(run, tmp_path, key):
    changed = latent(**ALTERED[key])
    run_study(changed, run, here)
    run_study(changed, tmp_path / "fresh", here)
    assert toys_of(run) == toys_of(tmp_path / "fresh")
    assert RunDirectory(run).study() == changed
    assert run_study(changed, run, here).computed == 0


@pytest.mark.parametrize(
    ("key", "computed"), [("nu", 20), ("signals", 20), ("toys", 40), ("sizes", 40), ("cluster", 0)]
)
def test_toys_that_a_change_does_not_touch_are_kept(run, key, computed):
    assert run_study(latent(**ALTERED[key]), run, here).computed == computed


def test_changing_back_finds_everything_again(run, before):
    run_study(latent(**ALTERED["tests"]), run, here)
    assert (run / "basis" / "latent-profiled.json").read_bytes() != contents(before)[
        "basis/latent-profiled.json"
    ]
    aside = sorted(file.name for file in (run / "aside").rglob("*.json"))
    assert aside == ["latent-profiled.json", "latent-profiled.json.json"]  # the basis and its note
    assert run_study(latent(), run, here).computed == 0
    assert toys_of(run) == toys_of(before)
    same = contents(run)
    for name in ("basis/latent-profiled.json", "made/basis/latent-profiled.json.json"):
        assert same[name] == contents(before)[name]


def test_a_dry_run_says_what_changes_and_writes_nothing(run, before):
    assert dry_run(latent(), run) == ["tune: 1 kept", "toys: 40 are there, 0 are computed"]
    changed = latent(**ALTERED["sizes"])
    assert dry_run(changed, run) == [
        "the study has changed: sizes.expected was 200.0 and is now 300.0",
        "tune: 1 made anew (sizes.expected)",
        "toys: 0 are there, 40 are computed",
    ]
    assert dry_run(latent(nu=[0, 1, -1]), run)[1:] == ["tune: 1 kept", "toys: 40 are there, 20 are computed"]
    with pytest.raises(StudyError, match="seed was 1 and is now 2"):
        dry_run(latent(seed=2), run)
    assert contents(run) == contents(before)
    assert dry_run(latent(), run.parent / "new") == ["tune: 1 made", "toys: 0 are there, 40 are computed"]
    assert dry_run(latent(), run.parent / "new", until="tune") == ["tune: 1 made"]
    assert not (run.parent / "new").exists()


def test_a_run_says_the_same_before_it_starts_and_only_then(run, caplog):
    caplog.set_level(logging.INFO, "covad")
    changed = latent(**ALTERED["sizes"])
    lines = dry_run(changed, run)
    run_study(changed, run, here, until="tune")
    assert caplog.messages[: len(lines)] == lines
    caplog.clear()
    run_study(changed, run, here)
    run_study(latent(**ALTERED["sizes"] | ALTERED["cluster"]), run, here)
    assert not set(lines) & set(caplog.messages)


def test_a_damaged_note_is_told_and_mended(run, before):
    note = run / "made" / "basis" / "latent-profiled.json.json"
    note.write_text(note.read_text().replace('"bytes": ', '"bytes": 1'))
    assert dry_run(latent(), run)[0] == "tune: 1 made anew (damaged)"
    assert run_study(latent(nu=[0, 1, -1]), run, here).computed == 20
    assert toys_of(run)[1] == toys_of(before)[1]


def test_a_refused_study_leaves_everything_as_it_is(run, before):
    with pytest.raises(StudyError, match="seed was 1 and is now 2"):
        run_study(latent(seed=2, sizes={"expected": 300, "reference": 1000}), run, here)
    assert contents(run) == contents(before)


def test_a_study_that_needs_more_events_than_there_are_does_not_replace_the_old_one(tmp_path):
    write_pools(tmp_path / "pools", latent_pools())
    source = {"kind": "pools", "path": str(tmp_path / "pools"), "space": "latent"}
    run_study(latent(source=source, signals={}), tmp_path / "run", here)
    before = contents(tmp_path / "run")
    large = latent(source=source, signals={}, sizes={"expected": 200, "reference": 5000})
    with pytest.raises(TooFewEventsError, match="pool 'reference' has 2000 events"):
        run_study(large, tmp_path / "run", here)
    assert contents(tmp_path / "run") == before


def test_report_and_summary_of_the_study_as_it_was_are_set_aside(run):
    for name in ("summary.json", "report.html", "report/tables/a.csv"):
        (run / name).parent.mkdir(exist_ok=True, parents=True)
        (run / name).write_text("the first")
    run_study(latent(toys=12), run, here, until="tune")
    assert (run / "report.html").exists()
    for number, changed in enumerate((latent(**ALTERED["nu"]), latent(), latent(**ALTERED["nu"])), start=1):
        run_study(changed, run, here, until="tune")
        assert not any((run / name).exists() for name in ("summary.json", "report.html", "report"))
        (run / "report.html").write_text(f"number {number}")
    found = sorted(path.read_text() for path in (run / "aside").rglob("report.html"))
    assert found == ["number 1", "number 2", "the first"]
    assert len(list((run / "aside").rglob("a.csv"))) == 1


def test_shards_wait_until_the_changed_study_was_tuned(run):
    changed = latent(**ALTERED["signals"])
    with pytest.raises(PlanError, match=r"has changed, signals\.signal was .* --until tune` comes first"):
        run_study(changed, run, here, Shard(1, 2))
    run_study(changed, run, here, until="tune")
    assert sum(run_study(changed, run, here, Shard(n, 2)).computed for n in (1, 2)) == 20


def test_nobody_changes_the_study_while_a_shard_starts(run, monkeypatch):
    tried = []

    def meanwhile(study, directory):
        tried.append(study)
        if len(tried) == 1:  # before the shard says that it is there
            return
        with pytest.raises(RunInUseError, match="computes toys of the study as it was"):
            run_study(latent(**ALTERED["sizes"]), run, here, until="tune")

    monkeypatch.setattr("covad.pipeline.stages.refuse_unprepared", meanwhile)
    run_study(latent(), run, here, Shard(1, 2))
    assert tried == [latent(), latent()]


def test_a_shard_does_not_write_its_study_over_a_changed_one(run, monkeypatch):
    """Another machine may have looked for notes just before ours was there."""
    directory, changed = RunDirectory(run), latent(**ALTERED["sizes"])
    source = directory.origin()["source_digest"]
    monkeypatch.setattr(
        "covad.pipeline.stages.refuse_unprepared", lambda *_: claim(directory, changed, source)
    )
    with pytest.raises(PlanError, match=r"has changed, sizes\.expected"):
        run_study(latent(), run, here, Shard(1, 2))
    assert directory.study() == changed


def test_toys_of_a_space_without_pools_are_an_error(run):
    with pytest.raises(PlanError, match=r"the pools of .* are not there"):
        compute_missing(latent(), {}, RunDirectory(run), here, Shard(1, 2))


def test_the_study_stays_as_long_as_others_compute_its_toys(run, before):
    with (
        announced_toys(RunDirectory(run), Shard(1, 2)),
        pytest.raises(RunInUseError, match="computes toys of the study as it was"),
    ):
        run_study(latent(**ALTERED["sizes"]), run, here)
    assert contents(run) == contents(before)


class KilledError(Exception):
    pass


@pytest.mark.parametrize("stage", ["claim", "tune", "toys"])
def test_a_change_that_is_interrupted_goes_on(run, tmp_path, monkeypatch, stage):
    changed = latent(**ALTERED["tests"])

    def killed(*_, **__):
        raise KilledError

    with monkeypatch.context() as patch:
        name = {
            "claim": "claim.write_sealed",
            "tune": "stages.choose_bases",
            "toys": "stages.compute_missing",
        }
        patch.setattr(f"covad.pipeline.{name[stage]}", killed)
        with pytest.raises(KilledError):
            run_study(changed, run, here)
    run_study(changed, run, here)
    run_study(changed, tmp_path / "fresh", here)
    assert toys_of(run) == toys_of(tmp_path / "fresh")


def test_what_other_versions_made_is_added_to_with_a_warning(run, caplog):
    """The basis of one configuration is there, that of another is chosen now."""
    old = replace(Versions.here(), numpy="1.0")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Versions, "here", classmethod(lambda cls: old))
        run_study(latent(**ALTERED["configurations"], toys=11), run, here)
    caplog.clear()
    stages = json.loads((run / "manifest.json").read_text())["stages"]
    assert {name: len(lines) for name, lines in stages.items()} == {"tune": 2, "toys": 2}
    toys = told(run).toy_versions
    assert {line.versions: line.toys for line in toys} == {old: 37, Versions.here(): 40}
    run_study(latent(**ALTERED["configurations"], toys=11), run, here)
    assert caplog.messages == []
    run_study(latent(**ALTERED["configurations"] | ALTERED["tests"]), run, here)
    assert caplog.messages[0].startswith(
        "models, pools or tests here were made with numpy 1.0, and now it is "
    )


COLLISIONS = {
    "source": TINY["source"] | {"signals": {"a4l": {"simulate": 300}, "lq": {"simulate": 300}}},
    "tests": {"convex": {"bumps": 5}},
    "configurations": [{"treatment": "profiled"}],
    "signals": {"a4l": [20]},
}
EXTENDED = {
    "sizes": {"sizes": {"expected": 300, "reference": 1000}},
    "tests": {"tests": {"convex": {"bumps": 6}}},
    "nu": {"nu": [0, -1, 1]},
    "signals": {"signals": {"lq": [20], "a4l": [20, 30]}},
    "normalisation": {"normalisation": 0.3},
    "order": {"configurations": [{"treatment": "profiled", "order": 2}, {"treatment": "none"}]},
    "response": {"source": COLLISIONS["source"] | {"response": {"epochs": 2, "hidden": [8]}}},
    "space": {
        "source": COLLISIONS["source"] | {"spaces": {"covariant": {"alpha": 10}, "plain": {"alpha": 0}}},
        "configurations": [{"space": name, "treatment": "profiled"} for name in ("covariant", "plain")],
    },
    "a new signal": {
        "source": COLLISIONS["source"]
        | {"signals": {**COLLISIONS["source"]["signals"], "h0": {"simulate": 300}}},
        "signals": {"a4l": [20], "h0": [25]},
    },
    "all at once": {
        "sizes": {"expected": 300, "reference": 1000},
        "tests": {"convex": {"bumps": 6}},
        "nu": [0, -1, 1],
        "signals": {"lq": [20], "a4l": [20, 30]},
        "configurations": [{"treatment": "profiled", "order": 2}, {"treatment": "profiled"}],
    },
}


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("learned") / "run", **COLLISIONS)


def state(path):
    return {
        str(file.relative_to(path)): (file.stat().st_ino, file.stat().st_mtime_ns)
        for file in path.rglob("*")
        if file.is_file()
    }


@pytest.mark.slow
@pytest.mark.parametrize("key", EXTENDED)
def test_a_changed_key_keeps_the_encoder_and_gives_what_a_fresh_run_gives(learned, tmp_path, key):
    run = shutil.copytree(learned, tmp_path / "run")
    before = state(run)
    make_run(run, **COLLISIONS | EXTENDED[key])
    after = state(run)
    kept = [
        name for name in before if name.startswith(("events/", "models/covariant/fold_0/encoder", "toys/"))
    ]
    assert len(kept) > 8
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    fresh = make_run(tmp_path / "fresh", **COLLISIONS | EXTENDED[key])
    assert told(run) == told(fresh)
    made = ("pools/", "models/", "checks/", "basis/")
    products = {name: content for name, content in contents(fresh).items() if name.startswith(made)}
    for name, content in products.items():
        assert (run / name).read_bytes() == content, name


@pytest.mark.slow
def test_a_dry_run_of_collisions_names_the_keys(learned):
    before = contents(learned)
    same = dry_run(tiny_study(**COLLISIONS), learned)
    assert same == [
        "events: 2 samples kept",
        "encoder: 1 kept",
        "response: 1 kept",
        "pools: 1 kept",
        "checks: 1 kept",
        "tune: 1 kept",
        "toys: 40 are there, 0 are computed",
    ]
    changed = dry_run(tiny_study(**COLLISIONS | EXTENDED["all at once"]), learned)[1:]
    assert changed == [
        "events: 2 samples kept, new: lq, those that pass the cuts are counted",
        "encoder: 1 kept",
        "response: 1 kept, 1 made",
        "pools: 1 made anew (nu, signals.lq), 1 made",
        "checks: 1 made anew (sizes.expected, tests.convex.bumps, tests.convex.capacity), 1 made",
        "tune: 1 made anew (sizes.expected, tests.convex.bumps, tests.convex.capacity), 1 made",
        "toys: 0 are there, 240 are computed",
    ]
    more = dry_run(tiny_study(**COLLISIONS | EXTENDED["nu"]), learned)[1:]
    assert more[-1] == "toys: 40 are there, 20 are computed"
    longer = COLLISIONS["source"] | {"training": COLLISIONS["source"]["training"] | {"steps": 5}}
    with pytest.raises(StudyError, match=r"source\.training\.steps was 4 and is now 5"):
        dry_run(tiny_study(**COLLISIONS | {"source": longer}), learned)
    assert contents(learned) == before
    note = learned / "made" / "models" / "covariant" / "fold_0" / "encoder.safetensors.json"
    note.write_text(note.read_text().replace('"bytes": ', '"bytes": 1'))
    (line,) = dry_run(tiny_study(**COLLISIONS), learned)
    assert line.startswith(f"{note}: is damaged")
    note.write_bytes(before[str(note.relative_to(learned))])
