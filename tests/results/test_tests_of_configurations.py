"""A run in which one configuration has fewer tests than the study: toys, results, status, report."""

import shutil

from latent_run import SMALL, make_latent_run

from covad.results import read_summary, select
from covad.results.overview import closure_of_rule
from covad.results.run import open_run
from covad.runs.status import run_status


def test_all_that_is_asked_for_is_there(small_run):
    status = run_status(small_run)
    assert all(stage.finished for stage in status.stages)
    tuned = next(stage for stage in status.stages if stage.stage == "tune")
    assert tuned.parts == 2, "a basis for each configuration; the clip is given"
    assert set(status.clips) == {"latent-none"}
    mine = {(line.entry.test, line.entry.configuration.slug) for line in status.ensembles}
    assert mine == {("network", "latent-none"), ("convex", "latent-none"), ("convex", "latent-profiled")}


def test_results_are_those_of_the_tests_that_ran(small_run):
    summary = read_summary(small_run)
    assert summary.tests == ("network", "convex")
    assert summary.tests_of("latent-none") == ("network", "convex")
    assert summary.tests_of("latent-profiled") == ("convex",)
    for lines in (summary.nulls, summary.closure, summary.significance, summary.power):
        assert {line.test for line in select(lines, configuration="latent-profiled")} == {"convex"}
        assert {line.test for line in select(lines, configuration="latent-none")} == {"network", "convex"}
    assert [clip.configuration for clip in summary.clips] == ["latent-none"]


def test_closure_of_a_test_that_did_not_run_is_unknown(small_run):
    """An answer may keep the rule of a test that was taken out of the study since."""
    summary = read_summary(small_run)
    for rule in ("network", "joint", "adaptive"):
        assert closure_of_rule(summary, rule, "latent-profiled") is None


def test_the_report_tells_nothing_of_a_test_that_did_not_run(small_run):
    """The main configuration is the profiled one, without the network."""
    told = (small_run / "report.html").read_text(encoding="utf-8")
    for answer in ("How sensitive is it?", "Does it close?"):
        assert "network" not in told.split(answer)[1].split("</section>")[0].split("</article>")[0][:1500]
    assert "beside it: network" not in told


def test_more_tests_keep_the_toys(small_run, tmp_path):
    path = shutil.copytree(small_run, tmp_path / "run")
    before = {e.entry.ensemble.identity: e.counts.done for e in run_status(path).ensembles}
    t = open_run(path).toys("latent-profiled", test="convex").t
    make_latent_run(path, **SMALL | {"configurations": [{"treatment": "none"}, {"treatment": "profiled"}]})
    after = {e.entry.ensemble.identity: e.counts.done for e in run_status(path).ensembles}
    assert before.items() < after.items()
    assert (open_run(path).toys("latent-profiled", test="convex").t == t).all()
