"""The studies of benchmarks/linearisation.py, and how it tells what they found."""

import re
from dataclasses import replace

import pytest
import report_world
from benchmark_module import load
from click.testing import CliRunner

from covad.inference.frontier import Repeated
from covad.inference.intervals import Interval
from covad.inference.reach import Reach
from covad.study import parse_study

benchmark = load("linearisation")


@pytest.fixture(scope="module")
def found():
    """Both spaces with both responses; every closure reach is there, nothing was trained."""
    names = [(space, "profiled", order) for space in ("contrastive", "covariant") for order in (1, 2)]
    return {"soft_30": report_world.evidence(tuple(names), injections=()).summary}


@pytest.mark.parametrize("name", benchmark.SYSTEMATICS)
def test_every_systematic_has_all_alphas_seeds_and_orders(name):
    study = parse_study(benchmark.study_of(name, benchmark.everything(3), 3), "here")
    assert len(study.source.learned) == 9
    assert len(study.spaces) == 18
    (entry,) = study.source.systematics
    assert entry.name == benchmark.SYSTEMATICS[name]["name"]
    assert study.points == ((0.0,), (2.0,), (-2.0,))
    assert set(benchmark.TITLES) == set(benchmark.SYSTEMATICS)


def test_studies_with_some_configurations_share_everything_that_was_learned():
    whole, part = (
        benchmark.study_of("soft_15", configurations, 3)
        for configurations in (benchmark.everything(3), benchmark.everything(3)[:1])
    )
    assert whole | {"configurations": []} == part | {"configurations": []}
    assert benchmark.slug_of(part["configurations"][0]) == "a0_s0-profiled"


def test_the_table_has_a_line_per_alpha_and_response(found):
    head, _, *lines = benchmark.table(found)
    assert len(lines) == 4
    assert {line.count("|") for line in lines} == {head.count("|")}
    told = [re.split(r" *\| *", line)[2:4] for line in lines]
    assert told == [["0", "linear"], ["0", "quadratic"], ["30", "linear"], ["30", "quadratic"]]
    assert len(benchmark.table_of_every(found)) == 2 + 4


def test_toys_have_a_line_per_ensemble(found):
    head, _, *lines = benchmark.table_of_toys(found)
    assert len(lines) == len(found["soft_30"].closure) > 0
    assert {line.count("|") for line in lines} == {head.count("|")}


def test_a_run_without_checks_has_no_lines(found):
    empty = {name: replace(each, frontier=None) for name, each in found.items()}
    assert len(benchmark.table(empty)) == len(benchmark.table_of_every(empty)) == 2


def test_reaches_without_upper_end_are_told_as_bounds():
    assert benchmark._reaches(Repeated(12345.0, 0.5, True)).startswith(">= 12")
    assert benchmark._reaches(Repeated(100.0, None)) == "100"
    assert benchmark._reach(Reach(None, Interval(50.0, None), 0.25, 9)) == "beyond [50, open]"


def test_the_figure_has_a_column_per_systematic(found):
    canvas = benchmark.draw(found)
    assert [axes.get_title() for axes in canvas.axes] == ["soft term, 30 %", ""]
    labels = {text.get_text() for text in canvas.axes[0].get_legend().get_texts()}
    assert {"linear response", "quadratic response"} <= labels


def test_an_unknown_configuration_is_named_before_anything_is_made(tmp_path):
    told = CliRunner().invoke(
        benchmark.main, [str(tmp_path / "x"), "--toys", "9", "--configuration", "a1_s0-profiled"]
    )
    assert told.exit_code == 2
    assert "a1_s0-profiled" in told.output
    assert not (tmp_path / "x").exists()
