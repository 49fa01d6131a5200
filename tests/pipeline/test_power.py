"""`covad tune-power` and `covad bench power` on runs: what is kept, what is refused, and the same toys."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from finished_run import TINY, here, make_run
from latent_run import make_latent_run
from matplotlib.figure import Figure
from toy_world import latent_pools

import covad
from covad.cli.main import commands
from covad.errors import CovadError, PlanError, StudyError, UnknownNameError
from covad.events.changes import CHANGES
from covad.events.files import FileSet
from covad.events.systematics.variation import BadEventError
from covad.pipeline import run_study
from covad.pipeline.leave_out import leave_out
from covad.pipeline.tune_power import Grid, tune_power
from covad.pipeline.wide_pools import WidePools, with_inputs
from covad.pipeline.yardsticks import bench_power
from covad.report.evidence import read_evidence
from covad.report.tables.yardsticks import yardstick_table
from covad.results import collect
from covad.results.compute import current_summary
from covad.results.frontier import read_frontier
from covad.results.power import TUNING, YARDSTICKS, read_tuning, read_yardsticks
from covad.runs.changed import changed_events
from covad.runs.collisions import CollisionData
from covad.runs.directory import RunDirectory
from covad.runs.sources import open_sources
from covad.storage.records import plain
from covad.storage.sealed import write_sealed
from covad.study import parse_study
from covad.study.reading import read_study
from covad.toys.drawing import draw_from
from covad.toys.pool_files import open_pools, write_pools

POOLS = {
    "seed": 3,
    "sizes": {"expected": 200, "reference": 800},
    "tests": {"convex": {"bumps": 8}},
    "configurations": [{"treatment": "profiled"}],
    "nu": [1, 0],  # nu = 0 need not come first
    "nu_norm": [],
    "prior": False,
    "signals": {"bump": [40]},
    "toys": 45,
}
GRID = Grid(capacities=(3.0, 5.0), spreads=(3.0,), bumps=12, tests=("convex",))


@pytest.fixture(scope="module")
def pooled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run from pools: z alone, and no labels."""
    folder = tmp_path_factory.mktemp("pooled")
    write_pools(folder / "pools", latent_pools(3000))
    source = {"kind": "pools", "path": str(folder / "pools"), "space": "latent"}
    run_study(parse_study(POOLS | {"source": source}, "here"), folder / "run", here)
    return folder / "run"


@pytest.fixture(scope="module")
def collided(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run from events, with inputs and labels, in spaces of two alphas."""
    spaces = {"covariant": {"alpha": 10}, "contrastive": {"alpha": 0}}
    source = TINY["source"] | {"signals": {"lq": {"simulate": 300}}, "spaces": spaces}
    return make_run(
        tmp_path_factory.mktemp("collided") / "run",
        source=source,
        tests={"convex": {"bumps": 5}},
        configurations=[{"space": space, "treatment": "profiled"} for space in spaces],
        signals={"lq": [20]},
        toys=2,
    )


def test_settings_are_ranked_and_kept(pooled):
    found = tune_power(pooled, GRID, n_bumps=4, toys=3)
    assert {(s.capacity, s.spread) for s in found.settings} == {(3.0, 3.0), (5.0, 3.0)}
    means = [setting.mean for setting in found.ranked]
    assert means == sorted(means, reverse=True)
    assert all(family.toys == 3 for setting in found.settings for family in setting.families)
    assert (pooled / TUNING).exists()
    assert "no process can be left out" in found.notes[0]
    assert tune_power(pooled, GRID, n_bumps=4, toys=3) == found


def test_a_signal_counts_only_when_it_is_asked_for(pooled):
    usual, with_signal = (tune_power(pooled, GRID, 3, signals=names) for names in ((), ("bump",)))
    assert [f.family for f in usual.settings[0].families] == ["random bumps"]
    assert [f.family for f in with_signal.settings[0].families] == ["random bumps", "bump"]
    with pytest.raises(UnknownNameError, match="no signal 'lq'"):
        tune_power(pooled, GRID, 3, signals=("lq",))


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ({"capacities": (1.0,)}, "a capacity is"),
        ({"capacities": (np.nan,)}, "a capacity is"),
        ({"spreads": (np.nan,)}, "a spread is"),
        ({"spreads": (0.0,)}, "a spread is"),
    ],
)
def test_settings_that_no_test_has_are_refused(grid, words):
    with pytest.raises(PlanError, match=words):
        Grid(**grid)


def test_a_study_file_is_sent_to_covad_run(tmp_path):
    (tmp_path / "study.yaml").write_text("seed: 1\n")
    with pytest.raises(StudyError, match="--until pools"):
        tune_power(tmp_path / "study.yaml", GRID)


def test_another_test_has_to_be_known():
    with pytest.raises(UnknownNameError, match="no test 'wishful' to compare"):
        Grid(tests=("wishful",))


def test_the_adaptive_test_stands_beside_the_convex_ones_by_formula(pooled):
    found = tune_power(pooled, Grid((3.0,), (3.0,), 12), 3)
    assert [setting.name for setting in found.settings] == ["adaptive", "convex, capacity 3, spread 3"]
    assert all(0.0 < setting.mean_of_bumps < 1.0 for setting in found.settings)
    assert found.settings[0].mean_of_processes is None
    assert read_tuning(RunDirectory(pooled)) == found


def test_yardsticks_stand_beside_the_tests_of_the_run(pooled):
    found = bench_power(pooled, 45)
    expected = {"convex", "profiled chi2 in cells of z", "best of 1-D tests", "supervised on z"}
    assert expected | {"classifier two-sample test on z"} == set(found.names)
    assert found.null_toys == 45
    for line in found.lines:
        assert line.found is not None
        if line.signal is None and not any(line.nu):
            assert line.found <= 1  # one of 45 is beyond the quantile that it defines
    assert max(line.found for line in found.lines if line.signal is None and line.nu == (1.0,)) > 1
    (ceiling,) = found.ceilings
    assert ceiling.expected_z > 2.0
    assert read_yardsticks(RunDirectory(pooled)) == found


def test_the_latent_world_has_no_ceiling_but_all_other_yardsticks(tmp_path):
    changes = {"tests": {"convex": {"bumps": 8}}, "toys": 3, "nu_norm": [], "prior": False}
    run = make_latent_run(tmp_path, configurations=[{"treatment": "profiled"}], **changes)
    found = bench_power(run, 2)
    assert {"profiled chi2 in cells of z", "best of 1-D tests"} < set(found.names)
    assert not found.ceilings
    assert "fresh events" in found.notes[0]
    assert [f.family for f in tune_power(run, GRID, 2).settings[0].families] == ["random bumps"]


def test_kept_toys_are_not_computed_again(pooled, monkeypatch):
    first = bench_power(pooled, 45)
    monkeypatch.setattr("covad.pipeline.yardsticks.draw_from", lambda *_: pytest.fail("drawn again"))
    assert bench_power(pooled, 45) == first


def test_signals_may_have_fewer_toys(pooled):
    found = bench_power(pooled, 45, signal_toys=12)
    assert {(line.signal, line.toys) for line in found.lines} == {(None, 45), ("bump", 12)}


def test_few_null_toys_claim_no_power(pooled):
    found = bench_power(pooled, 20)
    assert all(line.found is None for line in found.lines)
    assert "do not resolve Z = 2" in found.notes[-1]


def test_the_report_shows_yardsticks_of_its_own_toys_only(pooled):
    bench_power(pooled, 45)
    toys = collect(pooled)
    summary = current_summary(toys)
    table = yardstick_table(summary, read_evidence(pooled, summary, toys.values).yardsticks)
    assert [row.keys[0] for row in table.rows][-1] == "convex test"
    assert {column.group for column in table.columns} == {"false alarms", "bump, 20 %"}
    content = json.loads((pooled / YARDSTICKS).read_text())
    assert content["made_of"]
    others = [line for line in summary.ensembles if line.identity not in content["made_of"]]
    elsewhere = read_evidence(pooled, replace(summary, ensembles=tuple(others)), toys.values)
    assert elsewhere.yardsticks is None


def test_known_processes_are_left_out_in_turn(collided):
    found = tune_power(collided, GRID, n_bumps=2, shares=(0.01, 0.05))
    families = [family.family for family in found.settings[0].families]
    assert families[:2] == ["random bumps", "z left out"]
    assert found.settings[0].families[1].anomalies == 2
    assert any("came as 1, 5 % of the data" in note for note in found.notes)
    assert any("trained with their labels" in note for note in found.notes)
    assert {setting.space for setting in found.settings} == {"covariant, linear", "contrastive, linear"}


def test_changed_events_are_anomalies_where_they_are_asked_for(collided):
    """Every change at every share; a process left out counts for the frontier, changed events do not."""
    usual, found = (tune_power(collided, GRID, n_bumps=2, with_changed=with_) for with_ in (False, True))
    for before, setting in zip(usual.settings, found.settings, strict=True):
        *others, family = setting.families
        assert (family.family, family.anomalies) == ("changed events", 3 * len(CHANGES))
        assert tuple(others) == before.families
        assert setting.mean_of_processes == before.mean_of_processes
        assert 0.02 < family.formula < 1.0
    assert any(note.startswith("changed events (harder, overlaid,") for note in found.notes)
    assert found.settings[0].families[-1] != found.settings[-1].families[-1]  # other spaces see others


def test_events_are_changed_all_over_the_files(collided, monkeypatch):
    """Files may be sorted by process: the first rows need not be like the others."""
    study = RunDirectory(collided).study()
    data, asked = CollisionData.of_run(study, RunDirectory(collided)), []
    read = FileSet.read
    monkeypatch.setattr("covad.runs.changed._EVENTS", 50)
    monkeypatch.setattr(FileSet, "read", lambda files, rows: asked.append(rows) or read(files, rows))
    changed_events(data, ("contrastive", 1))
    (rows,), known = asked, data.rows["data"]
    assert len(np.unique(rows)) == 50
    assert set(rows) <= set(known)
    assert (np.diff(rows) > 0).all()
    # all in the first half of the split: a chance of 1e-15
    assert rows.max() > known[len(known) // 2] > rows.min()


def test_changed_events_that_an_observable_cannot_take_are_named(collided, monkeypatch):
    def spoilt(space, particles):
        raise BadEventError("source.spaces.mine: observable 'x' is nan in event", 7)

    monkeypatch.setattr("covad.runs.changed.encode", spoilt)
    with pytest.raises(CovadError, match=r"'x' is nan in event, to which the change 'harder' was made"):
        tune_power(collided, GRID, n_bumps=2, with_changed=True)


def test_changed_events_need_events_without_weights(pooled):
    found = tune_power(pooled, GRID, n_bumps=2, with_changed=True)
    assert any("no events were changed" in note for note in found.notes)


def test_the_frontier_has_reach_before_power_and_power_of_the_spaces_as_they_are(collided):
    directory, runner = RunDirectory(collided), CliRunner()
    (collided / TUNING).unlink(missing_ok=True)
    before = read_frontier(directory)
    assert [point.alpha for point in before.points] == [10.0, 0.0]
    assert not before.has_power
    tuned = tune_power(collided, GRID, n_bumps=2)
    found = current_summary(collect(collided)).frontier
    assert found == read_frontier(directory)
    assert found.has_power
    assert found.test in {setting.name for setting in tuned.settings}
    assert [choice.alpha for choice in found.choices] == [choice.alpha for choice in before.choices]
    run = covad.open_run(collided)
    assert (
        covad.plot.frontier(run, sigma=2, ax=Figure().subplots()).get_xlabel() == "power, processes left out"
    )
    with pytest.raises(UnknownNameError, match="no reach at 3 sigma"):
        covad.plot.frontier(run, sigma=3)
    told = runner.invoke(commands, ["status", str(collided)])
    assert "by the rule: alpha = " in told.output
    told = runner.invoke(commands, ["status", str(collided), "--json"])
    assert json.loads(told.stdout)["frontier"]["test"] == found.test
    write_sealed(collided / TUNING, plain(replace(tuned, made_of={"covariant, linear": "another"})))
    assert read_frontier(directory) == before


def test_wide_pools_give_the_same_toys(collided):
    directory = RunDirectory(collided)
    study = directory.study()
    source = open_sources(study, directory)["covariant", 1]
    pools = open_pools(source.directory, source.digest)
    narrow = WidePools.of_z(pools, [(0.0,), (1.0,)])
    wide = with_inputs(narrow, CollisionData.of_run(study, directory))
    ensemble = next(entry.ensemble for entry in collect(collided).entries if entry.draw.signal == "lq")
    seeds = ensemble.seeds(0)
    toy = wide.seen(draw_from(wide.pools, ensemble.draw, seeds))
    alone = source.draw(ensemble.draw, seeds)
    np.testing.assert_array_equal(toy.dataset.data, alone.data)
    np.testing.assert_array_equal(toy.dataset.reference, alone.reference)
    assert toy.data["inputs"].shape == (len(alone.data), 57)
    assert toy.data["observables"].shape[1] == 4 * 5


def test_a_study_without_a_process_can_be_written_once(collided, tmp_path):
    study_file = leave_out(collided, "z", tmp_path / "side")
    study = read_study(study_file)
    assert list(study.signals) == ["z"]
    assert [path.name for path in study.source.background.files] == ["background.h5"]
    assert study.source.splits.total < TINY["source"]["background"]["simulate"]
    with pytest.raises(StudyError, match="is not overwritten"):
        leave_out(collided, "z", tmp_path / "side")
    with pytest.raises(UnknownNameError, match="process 'photon'"):
        leave_out(collided, "photon", tmp_path / "other")
    assert not list((tmp_path / "other").glob("*"))


def test_the_commands_print_what_they_found(pooled, tmp_path):
    runner = CliRunner()
    small = ["--capacity", "3", "--bumps", "12", "--anomalies", "2", "--json", str(tmp_path / "power.json")]
    told = runner.invoke(commands, ["tune-power", str(pooled), *small])
    assert told.exit_code == 0, told.output
    assert "random bumps" in told.output
    assert json.loads((tmp_path / "power.json").read_text())[str(pooled)]["settings"]
    told = runner.invoke(commands, ["bench", "power", str(pooled), "--toys", "45"])
    assert told.exit_code == 0, told.output
    assert "profiled chi2 in cells of z" in told.output
    told = runner.invoke(commands, ["tune-power", str(pooled), "--leave-out", "z"])
    assert told.exit_code == 2


@pytest.mark.parametrize("shares", [(float("nan"),), (0.0,), (0.3,), (0.01, 0.01)])
def test_shares_that_make_no_sense_are_refused(collided, shares):
    with pytest.raises(PlanError, match="--share"):
        tune_power(collided, GRID, shares=shares)
