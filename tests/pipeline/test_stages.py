import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy_world import CHEAP, latent_pools, latent_sample

from covad.errors import CovadError, DamagedFileError, FileFormatError, PlanError, StudyError
from covad.inference.clip import ClipChoice
from covad.pipeline import choose_workers, dry_run, run_study
from covad.pipeline.claim import claim
from covad.results.collect import collect
from covad.runs.directory import RunDirectory
from covad.runs.products import LEARNING_STAGES, Products
from covad.runs.sources import open_sources
from covad.runs.status import run_status
from covad.runs.tuned import read_bases, read_clip_choices, read_clips
from covad.storage.records import write_record
from covad.storage.sealed import write_sealed
from covad.study import Sizes, parse_study
from covad.study.plan import plan, requests, space
from covad.toys.drawing import LatentSource
from covad.toys.ensembles import Shard
from covad.toys.pool_files import write_pools
from covad.toys.pools import Pool
from covad.toys.toy import run_block

BASIS = "basis/latent-profiled.json"
SMALL = {
    "seed": 1,
    "source": {"kind": "latent", "nuisances": 1},
    "sizes": {"expected": 200, "reference": 1000},
    "tests": {"convex": {"bumps": 5}},
    "nu_norm": [],
    "prior": False,
    "toys": 12,
}


def study(**changes):
    return parse_study(SMALL | changes, "here")


def here(blocks):
    """A backend without processes."""
    for block in blocks:
        yield block, run_block(block)


def test_a_run_does_what_is_missing_and_nothing_else(tmp_path):
    assert run_study(study(), tmp_path, here).computed == 12
    assert run_study(study(), tmp_path, here).computed == 0
    assert run_study(study(toys=20), tmp_path, here).computed == 8
    assert run_study(study(toys=12), tmp_path, here).computed == 0


def test_another_study_is_refused_with_the_key(tmp_path):
    run_study(study(), tmp_path, here)
    with pytest.raises(StudyError, match=r"seed was 1 and is now 2; use another directory$"):
        run_study(study(seed=2), tmp_path, here)
    assert run_study(study(), tmp_path, here).computed == 0


def test_a_study_from_before_a_setting_goes_on_with_its_default(tmp_path):
    run_study(study(), tmp_path, here)
    now = (tmp_path / "study.json").read_text()
    content = json.loads(now)
    del content["study"]["normalisation"], content["study"]["configurations"][0]["order"], content["seal"]
    write_sealed(tmp_path / "study.json", content)
    assert dry_run(study(normalisation=0.2), tmp_path)[0].endswith("normalisation was 0.1 and is now 0.2")
    assert run_study(study(), tmp_path, here).computed == 0
    assert (tmp_path / "study.json").read_text() == now


def test_a_study_with_a_key_that_is_gone_is_refused_with_the_key(tmp_path):
    run_study(study(), tmp_path, here)
    content = json.loads((tmp_path / "study.json").read_text())
    content["study"]["gone"] = 3
    del content["seal"]
    write_sealed(tmp_path / "study.json", content)
    with pytest.raises(StudyError, match=r"belongs to another study: gone was 3 and is now null"):
        run_study(study(), tmp_path, here)


def test_pools_that_changed_are_refused_and_pools_that_moved_are_not(tmp_path):
    def pool_study(name):
        return study(source={"kind": "pools", "path": str(tmp_path / name), "space": "latent"})

    write_pools(tmp_path / "a", latent_pools())
    write_pools(tmp_path / "moved", latent_pools())
    write_pools(tmp_path / "other", latent_pools(seed=6))
    assert run_study(pool_study("a"), tmp_path / "run", here).computed == 12
    assert run_study(pool_study("moved"), tmp_path / "run", here).computed == 0
    with pytest.raises(StudyError, match="the events or the systematics of the source was"):
        run_study(pool_study("other"), tmp_path / "run", here)


def test_a_summary_is_not_kept_if_the_pools_were_written_again(tmp_path):
    """They lie outside the run: none of its own files changes."""
    write_pools(tmp_path / "pools", latent_pools())
    source = {"kind": "pools", "path": str(tmp_path / "pools"), "space": "latent"}
    run_study(study(source=source), tmp_path / "run", here)
    before = collect(tmp_path / "run").made_of
    assert collect(tmp_path / "run").made_of == before
    write_pools(tmp_path / "pools", latent_pools(seed=6))
    assert collect(tmp_path / "run").made_of != before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"signals": {"bump": [280]}}, "the pool 'bump' has 300 events at nu = .0.0., but toys may need 380"),
        ({"nu": [0, 2]}, "there is no pool of data at nu = .2.0."),
        ({"signals": {"bup": [20]}}, "there is no pool of the signal 'bup'"),
    ],
)
def test_pools_that_cannot_serve_are_refused_before_the_tuning(tmp_path, changes, message):
    write_pools(tmp_path / "pools", latent_pools())
    source = {"kind": "pools", "path": str(tmp_path / "pools"), "space": "e"}
    with pytest.raises(CovadError, match=message):
        run_study(study(**{"source": source, "signals": {}} | changes), tmp_path / "run", here)
    assert not (tmp_path / "run" / "basis").exists()


def changed_reference(change):
    """Pools whose reference, basis and nominal data went through `change`, a function of z."""
    pools = latent_pools()
    data = {nu: replace(pool, sample=latent_sample(change(pool.sample.z))) for nu, pool in pools.data.items()}
    reference = Pool(latent_sample(change(pools.reference.sample.z)))
    return replace(pools, reference=reference, basis=change(pools.basis), data=data)


def test_a_reference_with_copies_is_refused(tmp_path):
    pools = latent_pools()
    twice = Pool(latent_sample(np.repeat(pools.reference.sample.z[:1000], 2, axis=0)))
    write_pools(tmp_path / "pools", replace(pools, reference=twice))
    source = {"kind": "pools", "path": str(tmp_path / "pools"), "space": "e"}
    with pytest.raises(FileFormatError, match="1000 of 2000 events of the pool 'reference' are copies"):
        run_study(study(source=source), tmp_path / "run", here)
    assert not (tmp_path / "run").exists()


def test_discrete_events_are_tested_with_fewer_bumps(tmp_path, caplog):
    """In four binary dimensions there are 16 points: 30 bumps cannot be had, and no copies are seen."""
    write_pools(tmp_path / "pools", changed_reference(lambda z: (z > 0).astype(np.float32)))
    source = {"kind": "pools", "path": str(tmp_path / "pools"), "space": "latent"}
    discrete = study(source=source, tests={"convex": {"bumps": 30}})
    assert run_study(discrete, tmp_path / "run", here).computed == 12
    assert "only 16 different points, so the test has 8 bumps instead of 30" in caplog.text
    basis = json.loads((tmp_path / "run" / BASIS).read_text())
    assert len(basis["arrays"]["centres"]) == 8


def test_a_reference_smaller_than_the_data_is_told(tmp_path, caplog):
    dry_run(study(sizes={"expected": 200, "reference": 100}), tmp_path)
    assert "sizes.reference, for 'latent, profiled': the reference is worth 100 events" in caplog.text
    assert "add 200 % to the variance of the data" in caplog.text
    caplog.clear()
    dry_run(study(), tmp_path)
    assert "reference" not in caplog.text


def test_a_stage_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(PlanError, match="no stage 'toy'"):
        run_study(study(), tmp_path, here, until="toy")


@pytest.mark.parametrize("stage", LEARNING_STAGES)
@pytest.mark.parametrize("kind", ["latent", "pools"])
def test_a_learning_stage_that_a_study_does_not_have_tunes_nothing(tmp_path, kind, stage):
    write_pools(tmp_path / "pools", latent_pools())
    source = {"kind": "pools", "path": str(tmp_path / "pools"), "space": "e"}
    tuned = study(source=source if kind == "pools" else SMALL["source"], tests={"network": {"clip": "tune"}})
    assert run_study(tuned, tmp_path / "run", here, until=stage) is None
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["study.json"]


def test_until_tune_chooses_the_bases_and_runs_no_toys(tmp_path):
    two = study(configurations=[{"treatment": "none"}, {"treatment": "profiled"}])
    assert run_study(two, tmp_path, here, until="tune") is None
    assert not (tmp_path / "toys").exists()
    assert set(_tuned(tmp_path, read_bases)) == {("convex", "latent-none"), ("convex", "latent-profiled")}


def _tuned(path, read):
    directory = RunDirectory(path)
    study = directory.study()
    return read(Products(study, directory), open_sources(study, directory))


def _written(path):
    """When and as what a file was written, whoever has read it since."""
    return path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes()


def test_shards_wait_for_the_basis_and_leave_them_as_they_are(tmp_path):
    with pytest.raises(PlanError, match=r"basis of the convex test .* --until tune"):
        run_study(study(), tmp_path, here, Shard(1, 2))
    assert not (tmp_path / BASIS).exists()
    run_study(study(), tmp_path, here, until="tune")
    chosen = _written(tmp_path / BASIS)
    assert [run_study(study(), tmp_path, here, Shard(n, 2)).computed for n in (1, 2)] == [10, 2]
    assert _written(tmp_path / BASIS) == chosen


def test_a_run_whose_basis_is_lost_has_no_ensembles_to_judge(tmp_path):
    run_study(study(), tmp_path, here)
    assert len(list(collect(tmp_path).groups())) == 1
    (tmp_path / BASIS).unlink()
    found = collect(tmp_path)
    assert [entry.ensemble for entry in found.entries] == [None]
    assert list(found.groups()) == []
    assert not (tmp_path / BASIS).exists()


def test_shards_wait_for_the_clip(tmp_path):
    tuned = study(tests={"network": {"clip": "tune"}})
    with pytest.raises(PlanError, match="--until tune"):
        run_study(tuned, tmp_path, here, Shard(1, 2))


@pytest.mark.parametrize(
    "content", ["{", "[]", "{}", "7", '{"format": 2}', '{"format": 2, "study": {}, "source": ""}']
)
def test_a_spoilt_run_directory_is_named(tmp_path, content):
    (tmp_path / "study.json").write_text(content)
    with pytest.raises((FileFormatError, StudyError), match=r"study\.json|another study"):
        run_study(study(), tmp_path, here)


@pytest.mark.parametrize("fate", ["before the format had a number", "of another format"])
def test_a_run_of_another_version_is_refused_in_one_sentence(tmp_path, fate):
    run_study(study(), tmp_path, here)
    content = json.loads((tmp_path / "study.json").read_text())
    if fate == "of another format":
        content["format"] += 1
    else:  # as it was: no number, bumps called features
        del content["format"]
        content["study"]["tests"]["convex"]["features"] = content["study"]["tests"]["convex"].pop("bumps")
    (tmp_path / "study.json").write_text(json.dumps(content))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    for use in (
        lambda: run_study(study(), tmp_path, here),
        lambda: run_status(tmp_path),
        lambda: collect(tmp_path),
    ):
        with pytest.raises(
            FileFormatError, match=r"^\S+/study\.json: .*another version.* in a new run directory$"
        ):
            use()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.json")} == before


def test_a_place_that_is_no_run_is_named(tmp_path):
    with pytest.raises(FileFormatError, match="is not a run directory"):
        RunDirectory(tmp_path).study()


def test_the_study_is_kept_with_the_run(tmp_path):
    run_study(study(), tmp_path, here)
    assert RunDirectory(tmp_path).study() == study()
    assert json.loads((tmp_path / "study.json").read_text())["source_digest"] == LatentSource(1).digest


def test_a_basis_is_chosen_once_and_kept(tmp_path):
    run_study(study(), tmp_path, here)
    stored = json.loads((tmp_path / BASIS).read_text())
    assert len(stored["arrays"]["centres"]) == 5
    chosen, built = _written(tmp_path / BASIS), []

    def look(blocks):
        for block in blocks:
            built.append(block.ensemble.test.build(block.ensemble.source).ridge)
            yield block, run_block(block)

    run_study(study(toys=20), tmp_path, look)
    assert set(built) == {stored["ridge"]}
    assert _written(tmp_path / BASIS) == chosen


def test_a_stored_basis_is_the_one_that_was_chosen(tmp_path):
    run_study(study(), tmp_path, here, until="tune")
    stored = _tuned(tmp_path, read_bases)["convex", "latent-profiled"]
    chosen = CHEAP.build(LatentSource(1))
    assert stored.ridge == chosen.ridge
    for name, array in chosen.basis.arrays().items():
        np.testing.assert_array_equal(stored.basis.arrays()[name], array)


@pytest.mark.parametrize("content", ["[]", "", None])
def test_a_spoilt_basis_is_named_by_readers_and_made_anew_by_a_run(tmp_path, caplog, content):
    run_study(study(), tmp_path, here)
    whole = (tmp_path / BASIS).read_text()
    (tmp_path / BASIS).write_text(whole.replace("1", "2", 1) if content is None else content)
    with pytest.raises(DamagedFileError, match=r"latent-profiled\.json: is not what the stage 'tune' made"):
        collect(tmp_path)
    run_study(study(), tmp_path, here)
    assert (tmp_path / BASIS).read_text() == whole
    assert "latent-profiled.json" in caplog.text
    assert "`covad run` makes it anew" in caplog.text


def test_clips_come_from_the_study_or_from_the_search(tmp_path):
    directory = RunDirectory(tmp_path)
    tuned = study(
        tests={"network": {"clip": "tune"}}, configurations=[{"treatment": "none"}, {"treatment": "profiled"}]
    )
    claim(directory, tuned, None)
    products, sources = Products(tuned, directory), open_sources(tuned, directory)
    for configuration, clip in zip(tuned.configurations, (1.5, 1.75), strict=True):
        product = products.clip(configuration, sources[space(configuration)])
        write_record(product.path, ClipChoice(clip, 0.1, 45, 45.0, 0.5, 2.0, 3, ()))
        product.note()
    clips = read_clips(products, sources)
    assert clips == {"latent-none": 1.5, "latent-profiled": 1.75}
    found = requests(plan(tuned, sources, clips))
    assert [request.ensemble.test.clip for request in found] == [1.5, 1.75]


def test_workers_are_chosen_by_what_the_user_names():
    some = study(cluster={"system": "slurm", "jobs": 1})
    names = [
        type(choose_workers(s, workers, address)).__name__
        for s, workers, address in [
            (study(), None, None),
            (some, None, None),
            (some, 2, None),
            (some, 2, "tcp://there:1"),
        ]
    ]
    assert names == ["LocalWorkers", "DaskWorkers", "LocalWorkers", "DaskWorkers"]


def test_nothing_is_written_outside_the_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_study(study(), Path("run"), here)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@dataclass(frozen=True)
class Stretched:
    """A test whose t grows with the clip as t = clip * (t of the convex test), to look for a known root."""

    clip: float

    @property
    def capacity(self):
        return CHEAP.capacity

    def describe(self):
        return {"kind": "stretched", "clip": self.clip}

    def build(self, source):
        return StretchedTest(CHEAP.build(source), self.clip)


@dataclass(frozen=True)
class StretchedTest:
    inner: Any
    clip: float

    def fit(self, dataset, null, seed):
        fit = self.inner.fit(dataset, null, seed)
        return replace(fit, value=null.value + self.clip * (fit.value - null.value))


class KilledError(Exception):
    pass


@pytest.fixture
def stretched_study(monkeypatch):
    for module in ("covad.study.plan", "covad.pipeline.tune"):
        monkeypatch.setattr(f"{module}.tuned_network", lambda study, source, clip: Stretched(clip))
    return study(
        tests={"network": {"clip": "tune"}}, configurations=[{"treatment": "none"}, {"treatment": "profiled"}]
    )


def test_the_clip_is_found_treatment_by_treatment(tmp_path, stretched_study):
    assert run_study(stretched_study, tmp_path, here).computed == 24
    clips = _tuned(tmp_path, read_clips)
    assert set(clips) == {"latent-none", "latent-profiled"}
    for name, clip in clips.items():
        stored = json.loads((tmp_path / "clip" / f"{name}.json").read_text())
        assert stored["clip"] == clip == round(clip, 4)
        assert len(stored["scan"]) > 2
        scanned = [p for p in stored["scan"] if abs(p["clip"] - clip) < 0.5]
        slope = np.mean([p["mean"] / p["clip"] for p in scanned])
        # the root to the tolerance that choose_clip promises, 0.1 of sqrt(2 dof), taken five times
        dof = round(CHEAP.capacity)
        assert clip * slope == pytest.approx(dof, abs=0.5 * np.sqrt(2 * dof))
    streams = [json.loads(path.read_text())["stream"] for path in (tmp_path / "toys").glob("*.json")]
    assert streams.count("toys") == 2
    assert streams.count("scan") > 4


def test_a_search_whose_toys_all_fail_says_why(tmp_path, stretched_study):
    tiny = stretched_study.model_copy(update={"sizes": Sizes(expected=1e-6, reference=10)})
    with pytest.raises(PlanError, match="all toys of the search failed: DatasetError") as failure:
        run_study(tiny, tmp_path, here)
    assert str(failure.value).startswith("tests.network.clip, for 'latent, no nuisances': ")
    assert str(failure.value).endswith("; set it to a number")


def test_a_clip_that_cannot_be_found_is_named_with_its_key_and_configuration(
    tmp_path, stretched_study, monkeypatch
):
    monkeypatch.setattr(Stretched, "capacity", 1000.0)
    with pytest.raises(
        PlanError, match=r"^tests\.network\.clip, for 'latent, no nuisances': no clip from 0\.5 to 4 "
    ):
        run_study(stretched_study, tmp_path, here)


def test_a_capacity_that_cannot_be_had_is_named_with_its_key_and_configuration(tmp_path):
    big = study(tests={"convex": {"bumps": 5, "capacity": 4, "spread": 1e-3}})
    with pytest.raises(
        PlanError, match=r"^tests\.convex\.capacity, for 'latent, profiled': a capacity of 4 "
    ):
        run_study(big, tmp_path, here)


def test_a_killed_search_goes_on_and_ends_alike(tmp_path, stretched_study):
    run_study(stretched_study, tmp_path / "alone", here)
    computed = []

    def dying(blocks):
        for block in blocks:
            if len(computed) % 7 == 6:
                computed.append(None)
                raise KilledError
            computed.append(block)
            yield block, run_block(block)

    while True:
        try:
            run_study(stretched_study, tmp_path / "killed", dying)
            break
        except KilledError:
            pass
    assert computed.count(None) > 3
    done = [block for block in computed if block is not None]
    assert len(set(done)) == len(done)
    ends = [_tuned(tmp_path / name, read_clip_choices) for name in ("alone", "killed")]
    assert ends[0] == ends[1]
