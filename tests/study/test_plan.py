from pathlib import Path

import pytest

from covad.errors import UnknownNameError
from covad.runs.directory import RunDirectory
from covad.runs.sources import open_sources
from covad.study import parse_study
from covad.study.plan import (
    background_first,
    bases_to_choose,
    clips_to_tune,
    default_test,
    fixed_clips,
    main_configuration,
    n_prior_points,
    plan,
    requests,
    tuned_on_bumps,
)
from covad.toys.ensembles import Treatment


def study(**changes):
    content = {
        "seed": 1,
        "source": {"kind": "latent", "nuisances": 1},
        "tests": {"network": {"clip": 1.9}, "convex": {}},
        "configurations": [{"treatment": "none"}, {"treatment": "profiled"}],
        "nu": [0, 1, -1],
        "nu_norm": [],
        "prior": False,
        "signals": {"signal": [50, 100]},
        "toys": 7,
    }
    return parse_study(content | changes, "here")


def entries(the_study, clips=None):
    clips = fixed_clips(the_study) if clips is None else clips
    return plan(the_study, open_sources(the_study, RunDirectory(Path())), clips)


def test_background_everywhere_and_signals_where_they_say_something():
    found = {(e.test, e.draw.treatment.value, e.draw.nu[0], e.draw.injected) for e in entries(study())}
    expected = {
        (test, treatment, nu, injected)
        for test in ("network", "convex")
        for treatment, nu, injected in [
            *(("none", nu, 0.0) for nu in (0.0, 1.0, -1.0)),
            *(("none", 0.0, injected) for injected in (50.0, 100.0)),
            *(("profiled", nu, injected) for nu in (0.0, 1.0, -1.0) for injected in (0.0, 50.0, 100.0)),
        ]
    }
    assert found == expected
    assert len(entries(study())) == len(expected)


EVERYWHERE = {"nu_norm": [-3, 1.5], "prior": True}


def test_background_is_drawn_at_other_yields_and_from_the_prior_where_the_test_profiles():
    known = {(e.test, e.draw) for e in entries(study())}
    added = [e for e in entries(study(**EVERYWHERE)) if (e.test, e.draw) not in known]
    assert [(e.test, e.draw.nu_norm, e.draw.prior) for e in added] == [
        (test, *truth)
        for truth in ((-3.0, False), (1.5, False), (0.0, True))
        for test in ("network", "convex")
    ]
    for entry in added:
        assert (entry.draw.treatment, entry.draw.nu, entry.draw.signal) == (Treatment.PROFILED, (0.0,), None)
    exact = entries(study(**EVERYWHERE, normalisation=None))
    assert {(e.draw.nu_norm, e.draw.prior) for e in exact} == {(0.0, False), (0.0, True)}


def test_signals_are_drawn_up_to_one_sigma_and_background_everywhere():
    far = study(nu=[0, 1, -2, 1.5], signals={"signal": [50]})
    found = {(e.draw.treatment.value, e.draw.signal is not None, e.draw.nu[0]) for e in entries(far)}
    assert found == {
        *(("profiled", False, nu) for nu in (0.0, 1.0, -2.0, 1.5)),
        *(("profiled", True, nu) for nu in (0.0, 1.0)),
        *(("none", False, nu) for nu in (0.0, 1.0, -2.0, 1.5)),
        ("none", True, 0.0),
    }
    source = {"kind": "latent", "nuisances": 2}
    two = study(source=source, nu=[[0, 0], [1, -1], [0, 1.1]], configurations=[{}])
    assert {e.draw.nu for e in entries(two) if e.draw.signal} == {(0.0, 0.0), (1.0, -1.0)}


@pytest.mark.parametrize(
    ("tests", "result", "quoted", "speaks"),
    [
        ({"network": {}, "convex": {}}, None, "convex", "convex"),
        ({"network": {}}, None, "network", "network"),
        ({"network": {}, "convex": {}}, "network", "network", "network"),
        ({"network": {}, "convex": {}}, "joint", "joint", "convex"),
        ({"network": {}, "convex": {}, "adaptive": {}}, None, "convex", "convex"),
        ({"network": {}, "convex": {}, "adaptive": {}}, "adaptive", "adaptive", "adaptive"),
        ({"network": {}, "adaptive": {}}, None, "adaptive", "adaptive"),
    ],
)
def test_the_result_is_what_the_study_names(tests, result, quoted, speaks):
    named = study(tests=tests, result=result)
    assert (named.rule, default_test(named)) == (quoted, speaks)


def test_a_configuration_may_run_some_of_the_tests():
    some = study(configurations=[{"treatment": "none"}, {"tests": ["convex"]}])
    mine = {(e.test, e.configuration.slug) for e in entries(some)}
    assert mine == {("network", "latent-none"), ("convex", "latent-none"), ("convex", "latent-profiled")}
    assert set(fixed_clips(some)) == {"latent-none"}
    tuned = study(
        tests={"network": {}, "convex": {}}, configurations=[{"treatment": "none", "tests": ["convex"]}, {}]
    )
    assert [c.slug for c in clips_to_tune(tuned, {})] == ["latent-profiled"]
    assert [(test, c.slug) for test, c in bases_to_choose(some, {("convex", "latent-none"): None})] == [
        ("convex", "latent-profiled")
    ]


def test_toys_are_the_same_whichever_tests_a_configuration_runs():
    every = {e.ensemble.identity for e in entries(study())}
    some = {
        e.ensemble.identity
        for e in entries(study(configurations=[{"treatment": "none"}, {"tests": ["convex"]}]))
    }
    assert some < every


def test_points_of_the_prior_are_embedded_only_if_toys_ask_for_them():
    assert n_prior_points(study(**EVERYWHERE)) == 64
    assert n_prior_points(study()) == 0
    assert n_prior_points(study(**EVERYWHERE, configurations=[{"treatment": "none"}])) == 0


def test_all_ensembles_are_different():
    identities = [request.ensemble.identity for request in requests(entries(study(**EVERYWHERE)))]
    assert len(set(identities)) == len(identities)


def test_background_toys_are_asked_for_apart():
    more = study(configurations=[{"treatment": "none", "toys": 5}, {"background_toys": 11}], **EVERYWHERE)
    assert {e.toys for e in entries(more) if e.draw.nu_norm or e.draw.prior} == {11}
    apart = study(configurations=[{"background_toys": 11, "yield_toys": 9}], **EVERYWHERE)
    assert {e.toys for e in entries(apart) if e.draw.nu_norm or e.draw.prior} == {9}
    assert {e.toys for e in entries(apart) if e.draw.signal is None} == {9, 11}
    at_nu = [e for e in entries(more) if not (e.draw.nu_norm or e.draw.prior)]
    found = {(e.draw.treatment, e.draw.signal is None, e.toys) for e in at_nu}
    none, profiled = Treatment.NONE, Treatment.PROFILED
    assert found == {(none, True, 5), (none, False, 5), (profiled, True, 11), (profiled, False, 7)}


def test_sizes_and_settings_reach_the_ensembles():
    some = study(
        sizes={"expected": 500, "reference": 900},
        normalisation=None,
        tests={
            "network": {"clip": 2.5, "starts": 3, "hops": 2, "hidden": [5]},
            "convex": {"bumps": 9, "seed": 4},
        },
    )
    network, convex = entries(some)[:2]
    assert (network.draw.expected, network.draw.n_reference) == (500, 900)
    assert network.draw.normalisation_sigma is None
    assert network.ensemble.test.describe() == {
        "kind": "network",
        "clip": 2.5,
        "widths": (4, 5, 1),
        "starts": 3,
        "hops": 2,
    }
    assert convex.ensemble.test.describe()["bumps"] == 9
    assert convex.ensemble.test.seed == 4
    assert {request.toys for request in requests(entries(some))} == {7}


def test_the_network_waits_for_its_clip_treatment_by_treatment():
    tuned = study(tests={"network": {"clip": "tune"}, "convex": {}})
    assert [c.slug for c in clips_to_tune(tuned, {})] == ["latent-none", "latent-profiled"]
    clips = {"latent-profiled": 1.7}
    assert [c.slug for c in clips_to_tune(tuned, clips)] == ["latent-none"]
    for entry in entries(tuned, clips):
        waiting = entry.test == "network" and entry.draw.treatment is Treatment.NONE
        assert (entry.ensemble is None) == waiting
    assert clips_to_tune(study(tests={"convex": {}}), {}) == []


def test_two_nuisances():
    two = study(source={"kind": "latent", "nuisances": 2}, nu=[[0, 0], [1, -1]], tests={"convex": {}})
    assert {entry.draw.nu for entry in entries(two)} == {(0.0, 0.0), (1.0, -1.0)}


@pytest.mark.parametrize("change", [{"seed": 2}, {"normalisation": 0.2}, {"source": {"kind": "latent"}}])
def test_only_what_matters_changes_the_ensembles(change):
    before, after = (
        {request.ensemble.identity for request in requests(entries(s))} for s in (study(), study(**change))
    )
    assert (before == after) == ("source" in change)


def test_background_comes_before_signals_and_keeps_its_order():
    ordered = background_first(entries(study()))
    with_signal = [entry.draw.signal is not None for entry in ordered]
    assert with_signal == sorted(with_signal)
    assert {True, False} == set(with_signal)
    plain = [entry for entry in entries(study()) if entry.draw.signal is None]
    assert ordered[: len(plain)] == plain


def _of_collisions(*configurations):
    source = {
        "kind": "events",
        "background": {"simulate": 6_000_000},
        "spaces": {"plain": {"alpha": 0}, "linear": {"alpha": 30}},
    }
    return study(source=source, signals={}, configurations=configurations)


@pytest.mark.parametrize(
    ("configurations", "chosen"),
    [
        ([("plain", {}), ("linear", {"order": 2}), ("linear", {})], "linear, profiled"),
        ([("plain", {}), ("linear", {"sizes": {"expected": 500, "reference": 900}})], "plain, profiled"),
        ([("linear", {"treatment": "none"}), ("plain", {}), ("linear", {"order": 2})], "plain, profiled"),
        ([("linear", {"treatment": "none"}), ("plain", {"treatment": "none"})], "linear, no nuisances"),
    ],
    ids=["the paper's proposal", "of the study's sizes", "the first profiled", "the first"],
)
def test_the_main_configuration(configurations, chosen):
    the_study = _of_collisions(*({"space": name} | other for name, other in configurations))
    assert main_configuration(the_study).label == chosen


@pytest.mark.parametrize("name", ["plain-profiled", "plain, profiled"])
def test_a_study_may_name_its_main_configuration(name):
    proposal = _of_collisions({"space": "linear"}, {"space": "plain"})
    assert main_configuration(proposal).label == "linear, profiled"
    assert (
        main_configuration(parse_study(proposal.plain() | {"main": name}, "here")).label == "plain, profiled"
    )


NAMES = {
    "plain-none": "plain, no nuisances",
    "plain-profiled": "plain, profiled",
    "linear-profiled-quadratic": "linear, profiled, quadratic",
    "linear-profiled-500": "linear, profiled, 500 events",
    "linear-profiled-quadratic-1e06": "linear, profiled, quadratic, 1e+06 events",
}


def test_configurations_have_a_slug_for_files_and_a_label_for_people():
    some, many = ({"expected": n, "reference": 900_000} for n in (500, 1e6))
    the_study = _of_collisions(
        {"space": "plain", "treatment": "none"},
        {"space": "plain"},
        {"space": "linear", "order": 2},
        {"space": "linear", "sizes": some},
        {"space": "linear", "order": 2, "sizes": many},
    )
    assert {c.slug: c.label for c in the_study.configurations} == NAMES
    for slug, label in NAMES.items():
        assert the_study.configuration(slug) is the_study.configuration(label)
        assert the_study.configuration(slug).slug == slug
    assert the_study.configuration("plain, none").slug == "plain-none"


@pytest.mark.parametrize("name", ["plain-profiled events", "plain, profiled-500", "plain-no nuisances"])
def test_half_a_slug_and_half_a_label_is_no_name(name):
    sizes = {"expected": 500, "reference": 900_000}
    configurations = [{"treatment": "none"}, {}, {"sizes": sizes}]
    the_study = _of_collisions(*({"space": "plain"} | c for c in configurations))
    with pytest.raises(UnknownNameError, match=f"no configuration '{name}'"):
        the_study.configuration(name)


def test_a_configuration_that_does_not_exist_is_named_beside_those_that_do():
    with pytest.raises(UnknownNameError, match=r"no configuration 'x' \(it has: latent, no nuis"):
        study().configuration("x")


def test_the_main_configuration_of_the_latent_world_profiles():
    assert main_configuration(study()).slug == "latent-profiled"


def test_own_sizes_that_are_the_studys_are_no_other_sizes():
    same = {"sizes": {"expected": 10_000, "reference": 52_000}}
    the_study = _of_collisions({"space": "plain"}, {"space": "linear"} | same)
    assert main_configuration(the_study).space == "linear"


def test_toys_of_a_run_share_the_moments_of_the_adaptive_test():
    """With bumps that were chosen, every toy had summed over its own reference: slower, with its noise."""
    small = {"capacities": [4.0], "bumps": [10], "together": []}
    one = study(tests={"adaptive": small}, sizes={"expected": 500, "reference": 2500}, signals={})
    sources = open_sources(one, RunDirectory(Path()))
    (source,) = set(sources.values())
    bases = {
        (name, c.slug): tuned.chosen(source).test
        for c in one.configurations
        for name, tuned in tuned_on_bumps(one, c).items()
    }
    for entry in plan(one, sources, {}, bases):
        assert entry.ensemble.test.build(source).shared is not None
