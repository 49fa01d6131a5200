"""The study of benchmarks/space_table.py, and its table."""

from dataclasses import replace

import pytest
import report_world
from benchmark_module import load

from covad.inference.intervals import Interval
from covad.inference.reach import Reach
from covad.study import parse_study

benchmark = load("space_table")


@pytest.fixture(scope="module")
def summary():
    """A run with toys in two of the spaces, each of one training."""
    found = report_world.evidence(
        tuple((name, "profiled", 1) for name in ("contrastive", "covariant")),
        tests=("convex",),
        injections=tuple((signal, 100.0) for signal in benchmark.SIGNALS),
    ).summary
    named = {"contrastive": "contrastive_s0", "covariant": "alpha_30_s0"}

    def renamed(line):
        names = {
            key: next((value.replace(old, new) for old, new in named.items() if value.startswith(old)), value)
            for key, value in vars(line).items()
            if key in ("space", "configuration")
        }
        return replace(line, **names)

    sections = ("configurations", "significance", "spaces")
    return replace(found, **{name: tuple(map(renamed, getattr(found, name))) for name in sections})


def test_every_learned_space_is_trained_with_every_seed():
    study = parse_study(benchmark.study_of(tuple(benchmark.ROWS), 3, 40), "here")
    trained = [row for row in benchmark.ROWS.values() if row.learned and not row.joins]
    assert len(study.source.learned) == 3 * len(trained) == 33
    assert len(study.configurations) == len(study.spaces) == 37
    assert {study.source.learned[f"kept_6_s{seed}"].seed for seed in range(3)} == {0, 1, 2}
    assert study.points == ((0.0,),)


def test_a_study_of_some_spaces_shares_what_all_of_them_have():
    """All but the spaces: covad trains every space of a study."""
    whole, part = (benchmark.study_of(names, 3, 40) for names in (tuple(benchmark.ROWS), ("plain",)))
    assert part["configurations"] == [{"space": "plain", "treatment": "profiled"}]
    assert list(part["source"]["spaces"]) == ["plain"]
    for study in (whole, part):
        study["configurations"] = study["source"]["spaces"] = None
    assert whole == part


def test_joined_spaces_come_with_their_parts():
    content = benchmark.study_of(("both",), 2, 40)
    study = parse_study(content, "here")
    assert list(study.source.spaces) == ["chosen_s0", "chosen_s1", "plain", "both_s0", "both_s1"]
    assert study.source.spaces["both_s1"].of == ("chosen_s1", "plain")
    assert [c.space for c in study.configurations] == ["both_s0", "both_s1"]


def test_the_table_has_the_spaces_with_all_their_toys(summary):
    head, _, *lines = benchmark.table(summary, seeds=1)
    assert [line.split(" | ")[0].strip("| ") for line in lines] == [
        benchmark.ROWS[name].title for name in ("contrastive", "alpha_30")
    ]
    assert {line.count("|") for line in lines} == {head.count("|")}
    assert len(benchmark.table(summary, seeds=2)) == 2, "the second training has no toys"


def test_the_spread_of_trainings_stands_beside_the_error_of_toys(summary):
    line = next(line for line in summary.significance if line.null == "analytic")
    pair = [replace(line, z=z, interval=Interval(z - 0.3, z + 0.3)) for z in (2.0, 4.0)]
    assert benchmark._with_spread(pair) == "3.00 ± 0.21 (trainings ± 1.41)"
    assert benchmark._with_spread(pair[:1]) == "2.00 ± 0.30"
    assert "open" in benchmark._with_spread([replace(line, interval=Interval(1.0, None))])


def test_a_mean_with_a_z_beyond_the_law_is_a_bound(summary):
    line = next(line for line in summary.significance if line.null == "analytic")
    bound = replace(line, z=37.05, saturated=True, interval=Interval(36.0, None))
    assert benchmark._with_spread([bound, replace(bound, z=30.05, saturated=False)]) == "≥ 33.5"


def test_a_reach_without_upper_end_is_a_bound():
    known, beyond = Reach(200.0, Interval(100.0, 400.0), 0.25, 9), Reach(None, Interval(50.0, None), 0.25, 9)
    assert benchmark._geometric([known, known]) == "200 ×/ 1.00"
    assert benchmark._geometric([known, beyond]).startswith("≥ 100")
