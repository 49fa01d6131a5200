import json
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from toy_world import latent_pools, weighted_pools

from covad.cli.status import print_status
from covad.errors import UnknownNameError
from covad.pipeline import run_study
from covad.pipeline.claim import claim
from covad.pipeline.report import report_run
from covad.results.run import open_run
from covad.runs.directory import RunDirectory
from covad.runs.sources import open_sources
from covad.runs.status import run_status
from covad.study import parse_study
from covad.study.plan import plan, requests
from covad.toys.blocks import encode
from covad.toys.ensembles import BLOCK, Block, Shard
from covad.toys.pool_files import write_pools
from covad.toys.toy import run_block
from covad.toys.truths import point_text

COVAD = str(Path(sys.executable).with_name("covad"))


def study(**changes):
    content = {
        "seed": 1,
        "source": {"kind": "latent", "nuisances": 1},
        "sizes": {"expected": 200, "reference": 1000},
        "tests": {"convex": {"bumps": 5}},
        "nu": [0, 1],
        "nu_norm": [],
        "prior": False,
        "signals": {"signal": [20]},
        "toys": 20,
    }
    return parse_study(content | changes, "here")


def here(blocks):
    for block in blocks:
        yield block, run_block(block)


def run_half(path):
    run_study(study(), path, here, until="tune")
    run_study(study(), path, here, Shard(1, 2))


def test_every_line_adds_up(tmp_path):
    run_half(tmp_path)
    status = run_status(tmp_path)
    assert len(status.ensembles) == 4
    for ensemble in status.ensembles:
        counts = ensemble.counts
        assert counts.requested == counts.done + counts.failed + counts.missing == 20
    assert status.total("done") == status.total("missing") == 40
    assert status.core_seconds_left > 0


def test_a_finished_run_has_no_time_left(tmp_path):
    run_study(study(), tmp_path, here)
    status = run_status(tmp_path)
    assert status.core_seconds_left == 0
    assert status.plain()["stages"]["toys"]["done"]


@pytest.mark.parametrize(("nuisances", "shown"), [(1, "+1"), (3, "nu_3 = +1"), (26, "nu_26 = +1")])
def test_toys_are_told_by_the_nuisances_that_are_shifted(tmp_path, capsys, nuisances, shown):
    """The key of that point in the results is told in the same way."""
    centre = [0.0] * nuisances
    source = {"kind": "latent", "nuisances": nuisances}
    run_study(study(source=source, nu=[centre, [*centre[1:], 1.0]], toys=10), tmp_path, here)
    print_status(run_status(tmp_path))
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    drawn = [line.partition("  ")[0] for line in lines if line.startswith(("0 ", "0,", shown))]
    assert drawn[0::2] == ["0", "0, signal 20"]
    assert drawn[1::2] == [shown, f"{shown}, signal 20"]
    summary = open_run(tmp_path).summary
    key = f"R_{shown.replace(' ', '')}"
    assert {line.point for line in summary.closure} == {"R_0", key}
    assert {line.null for line in summary.significance} == {"R_0", key, "analytic"}
    with pytest.raises(UnknownNameError, match=rf"it has: nu = 0; {re.escape(point_text(key))};"):
        open_run(tmp_path).toys(nu=[*centre[1:], 5.0])


def test_failures_are_shown_with_their_reason(tmp_path, capsys):
    run_study(study(sizes={"expected": 1, "reference": 10}, signals={}), tmp_path, here)
    status = run_status(tmp_path)
    failed = status.total("failed")
    assert 0 < failed < 40
    assert status.total("done") + failed == 40
    print_status(status)
    assert "failed (convex): DatasetError: the data is empty" in capsys.readouterr().out


def test_brackets_are_shown_as_they_are(tmp_path, capsys):
    run = tmp_path / "[/run]"
    run_study(study(), run, here, until="checks")
    found = run_status(run)
    failing = replace(found.ensembles[0].counts, reasons={"[/tmp/x] is lost": 1})
    print_status(replace(found, ensembles=[replace(found.ensembles[0], counts=failing)]))
    shown = capsys.readouterr().out
    assert "1 failed (convex): [/tmp/x] is lost" in shown
    assert "[/run]" in shown


def test_a_network_that_waits_for_its_clip_is_missing(tmp_path, capsys):
    run_study(study(tests={"convex": {"bumps": 5}}), tmp_path / "a", here)
    tuned = study(tests={"network": {"clip": "tune"}})
    claim(RunDirectory(tmp_path), tuned, None)
    status = run_status(tmp_path)
    assert all(ensemble.waiting for ensemble in status.ensembles)
    assert status.total("missing") == status.total("requested") == 80
    assert status.core_seconds_left is None
    print_status(status)
    assert "not chosen yet" in capsys.readouterr().out


def test_the_stage_tune_waits_for_the_basis_of_the_convex_test(tmp_path, capsys):
    run_study(study(), tmp_path, here, until="checks")
    status = run_status(tmp_path)
    assert not status.plain()["stages"]["tune"]["done"]
    print_status(status)
    assert "basis of the convex test, latent, profiled: not chosen yet" in capsys.readouterr().out
    run_study(study(), tmp_path, here, until="tune")
    status = run_status(tmp_path)
    assert status.plain()["stages"]["tune"]["done"]
    assert status.total("missing") == 80


def test_all_stages_are_listed_and_the_report(tmp_path, capsys):
    run_half(tmp_path)
    print_status(run_status(tmp_path))
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["stage tune: done", "stage toys: 40 of 80 done", "report: not written yet"]
    report_run(tmp_path)
    assert run_status(tmp_path).plain()["stages"]["report"]["done"]
    run_study(study(), tmp_path, here)
    print_status(run_status(tmp_path))
    shown = capsys.readouterr().out
    assert "stage toys: done" in shown
    assert "report: older than the toys (`covad report` draws it anew)" in shown
    report_run(tmp_path)
    print_status(run_status(tmp_path))
    assert "report: written" in capsys.readouterr().out
    (tmp_path / "summary.json").write_text("[]")
    assert not run_status(tmp_path).plain()["stages"]["report"]["done"]


def test_the_offset_of_small_pools_is_shown(tmp_path, capsys):
    write_pools(tmp_path / "pools", latent_pools())
    small = study(source={"kind": "pools", "path": str(tmp_path / "pools"), "space": "e"}, signals={})
    run_study(small, tmp_path / "run", here)
    status = run_status(tmp_path / "run")
    assert status.ensembles[0].offset.share > 0.1
    print_status(status)
    assert "finite pools" in capsys.readouterr().out


def test_what_accept_reject_cost_is_shown_for_weighted_pools_only(tmp_path, capsys):
    for name, pools in (("weighted", weighted_pools()), ("plain", latent_pools())):
        write_pools(tmp_path / name, pools)
        source = {"kind": "pools", "path": str(tmp_path / name), "space": "e"}
        run_study(study(source=source, signals={}, nu=[0], toys=1), tmp_path / f"run {name}", here)
    status = run_status(tmp_path / "run weighted")
    (line,) = status.costs
    cost = line.cost
    assert (line.pool, line.nu, cost.events) == ("data", (0.0,), 20_000)
    (told,) = status.plain()["accept_reject"]
    assert (told["accepted"], told["share"]) == (cost.accepted, cost.accepted / 20_000)
    print_status(status)
    shown = capsys.readouterr().out
    assert "events of equal weight, accepted from weighted ones: e, linear" in shown
    assert f"20000 {cost.accepted} {cost.share:.1%} 0.0%" in " ".join(shown.split())
    plain = run_status(tmp_path / "run plain")
    print_status(plain)
    assert "weighted" not in capsys.readouterr().out.replace("run weighted", "")
    assert "accept_reject" not in plain.plain()


def test_json_holds_all_of_it(tmp_path):
    run_half(tmp_path)
    answer = subprocess.run([COVAD, "status", str(tmp_path), "--json"], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert found == json.loads(json.dumps(run_status(tmp_path).plain()))
    assert found["requested"] == found["done"] + found["failed"] + found["missing"] == 80
    assert found["ensembles"][0]["draw"]["nu"] == [0.0]


def test_corrupt_blocks_are_mentioned(tmp_path, capsys):
    run_study(study(), tmp_path, here)
    next((tmp_path / "toys").glob("*.parquet")).write_bytes(b"PAR1")
    assert run_status(tmp_path).total("missing") == BLOCK
    run_study(study(), tmp_path, here)
    status = run_status(tmp_path)
    assert status.total("missing") == 0
    print_status(status)
    assert "1 corrupt blocks were set aside" in capsys.readouterr().out


def test_what_is_no_run_is_one_sentence(tmp_path):
    answer = subprocess.run([COVAD, "status", str(tmp_path)], capture_output=True, text=True)
    assert answer.returncode == 2
    assert answer.stderr == (
        f"covad: {tmp_path}: is not a run directory, it has no study.json; "
        f"`covad run STUDY.yaml --out {tmp_path}` makes one\n"
    )


@pytest.fixture
def ten_thousand_toys(tmp_path):
    """A store of 10 000 toys, made from ten real ones."""
    big = study(toys=10_000, nu=[0], signals={})
    directory = RunDirectory(tmp_path)
    claim(directory, big, None)
    (request,) = requests(plan(big, open_sources(big, directory), {}))
    identity = request.ensemble.identity
    made = run_block(Block(request.ensemble, 0, BLOCK))
    directory.toys.directory.mkdir()
    for start in range(0, request.toys, BLOCK):
        moved = tuple(
            replace(toy, index=toy.index + start, seed=toy.seed ^ start, events=toy.events ^ start)
            for toy in made.toys
        )
        path = directory.toys.directory / f"{identity}-{start:08d}-{start + BLOCK:08d}.parquet"
        path.write_bytes(encode(identity, replace(made, toys=moved)))
    return tmp_path


def test_ten_thousand_toys_answer_within_a_second(ten_thousand_toys):
    """CPU time of the answer itself, 0.3 s here; the best of three, since a busy machine is slower."""
    seconds = []
    for _ in range(3):
        clock = time.process_time()
        status = run_status(ten_thousand_toys)
        seconds.append(time.process_time() - clock)
    assert min(seconds) < 0.5
    assert status.total("done") == 10_000


def test_inspect_of_a_run_is_its_status(tmp_path):
    run_study(study(), tmp_path, here)
    shown = [
        subprocess.run([COVAD, command, str(tmp_path)], capture_output=True, text=True, check=True).stdout
        for command in ("inspect", "status")
    ]
    assert shown[0] == shown[1] != ""
