"""Presets are valid studies with the ensembles that they promise, and never overwrite a file."""

import math
import re
import subprocess
import sys
from collections import Counter

import pytest

from covad.embedding.settings import EncoderSettings
from covad.errors import FileWriteError, StudyError, UnknownNameError
from covad.inference.statements import ALWAYS_JUDGED_Z, toys_that_can_tell
from covad.pipeline.trial import check_collisions
from covad.results.frontier import setting_of
from covad.runs.collisions import CollisionData
from covad.runs.directory import RunDirectory
from covad.study import read_study
from covad.study.plan import main_configuration, plan
from covad.study.presets import PRESETS, preset_text, write_preset


@pytest.fixture(params=PRESETS)
def study(request, tmp_path):
    path = tmp_path / "study.yaml"
    write_preset(request.param, path)
    return read_study(path)


def preset(name, tmp_path):
    write_preset(name, tmp_path / f"{name}.yaml")
    return read_study(tmp_path / f"{name}.yaml")


def test_every_preset_is_a_valid_study(study, tmp_path):
    check_collisions(CollisionData.of(study, RunDirectory(tmp_path / "run")))


def test_toys_never_need_more_events_than_the_pools_have(study):
    """With room for the largest yield of the prior, five standard deviations, and a growth with nu."""
    for configuration in study.configurations:
        sizes = configuration.sizes or study.sizes
        assert sizes.reference <= study.source.splits.reference
        largest = 1.1 * sizes.expected * math.exp(4 * (study.normalisation or 0.1))
        assert largest + 5 * largest**0.5 <= study.source.splits.data
    for signal, yields in study.signals.items():
        assert study.source.signals[signal].simulate > 2 * max(yields)


@pytest.mark.parametrize("name", ["quick", "observables", "joined", "laptop", "analysis"])
def test_pools_shift_the_null_by_less_than_a_tenth_of_its_width(name, tmp_path):
    """dof * N_D (1/P_R + 1/P_D) against sqrt(2 dof), for the sizes that most toys have."""
    study = preset(name, tmp_path)
    splits, dof = study.source.splits, 45  # of both tests
    shift = dof * study.sizes.expected * (1 / splits.reference + 1 / splits.data)
    assert shift / (2 * dof) ** 0.5 < 0.1


def test_the_joined_preset_has_the_spaces_of_laptop(tmp_path):
    """Its learned space and the observables are the same: the numbers of both studies go together."""
    joined, laptop = (preset(name, tmp_path) for name in ("joined", "laptop"))
    assert joined.source.spaces["both"].of == ("kept", "plain")
    for name in ("kept", "plain"):
        assert joined.source.spaces[name] == laptop.source.spaces[name]
    same = ("background", "signals", "systematics", "splits", "encoder", "training", "response")
    assert all(getattr(joined.source, key) == getattr(laptop.source, key) for key in same)
    assert (joined.seed, joined.sizes, joined.tests) == (laptop.seed, laptop.sizes, laptop.tests)


def test_the_preset_observables_trains_nothing(tmp_path):
    source = preset("observables", tmp_path).source
    assert list(source.spaces) == ["plain"]
    assert not source.learned
    assert source.splits.encoder == 0
    assert source.splits.total == source.background.simulate == 1_000_000


def test_laptop_has_its_own_spaces_beside_those_of_the_paper_and_one_test(tmp_path):
    study = preset("laptop", tmp_path)
    own = ["kept-profiled", "kept_1-profiled", "kept_2-profiled", "plain-profiled"]
    papers = ["contrastive-none", "contrastive-profiled", "covariant-none", "covariant-profiled"]
    assert [configuration.slug for configuration in study.configurations] == [*own, *papers]
    assert main_configuration(study).slug == own[0]
    entries = plan(study, {}, {})
    assert {e.test for e in entries} == {"adaptive"}
    assert {(e.draw.expected, e.draw.n_reference) for e in entries} == {(10_000, 52_000)}
    for configuration in study.configurations:
        mine = [e for e in entries if e.configuration == configuration]
        at_zero = {(e.draw.signal, e.draw.injected) for e in mine if e.draw.signal and not any(e.draw.nu)}
        assert len(at_zero) == 4 * 2, "every configuration has a median Z of every signal"


def test_laptop_decides_closure_of_its_main_configuration(tmp_path):
    study = preset("laptop", tmp_path)
    main = main_configuration(study)
    mine = [e for e in plan(study, {}, {}) if e.configuration == main and e.test == study.rule]
    background = [e for e in mine if e.draw.signal is None]
    at_nu = [e for e in background if not (e.draw.nu_norm or e.draw.prior)]
    assert [(e.draw.nu[0], e.toys) for e in at_nu] == [(nu, 1200) for nu in (0, 1, -1, 2, -2)]
    elsewhere = [(e.draw.nu_norm, e.draw.prior) for e in background if e not in at_nu]
    assert elsewhere == [(-3, False), (3, False), (0, True)]
    assert min(e.toys for e in background) >= toys_that_can_tell(None, ALWAYS_JUDGED_Z)
    assert {e.draw.nu[0] for e in mine if e.draw.signal} == {0, 1, -1}


def test_laptop_trains_its_main_space_with_three_seeds(tmp_path):
    learned = preset("laptop", tmp_path).source.learned
    kept = [learned[name] for name in ("kept", "kept_1", "kept_2")]
    assert [space.seed for space in kept] == [0, 1, 2]
    assert len({space.model_copy(update={"seed": 0}) for space in kept}) == 1
    assert (kept[0].encoder.kind, kept[0].encoder.frame) == ("transformer", "event")


def test_paper_has_the_sizes_of_the_paper(tmp_path):
    source = preset("paper", tmp_path).source
    trained = (
        source.splits.encoder * (source.folds - 1) / source.folds * (1 - source.training.validation_share)
    )
    assert trained == pytest.approx(2.1e6, rel=0.01)
    assert source.training.steps * source.training.batch / trained == pytest.approx(60, rel=0.01)
    assert source.encoder == EncoderSettings.paper()
    assert source.response.hidden == source.training.ratio_hidden == (512, 256, 128, 64, 32)


def test_analysis_has_nuisances_of_every_kind_that_simulated_events_can_have(tmp_path):
    study = preset("analysis", tmp_path)
    entries = study.source.systematics
    kinds = Counter(entry.kind for entry in {entry.name: entry for entry in entries}.values())
    assert kinds == {"shift": 9, "weights": 10, "samples": 2, "normalisation": 5}
    regions = [entry for entry in entries if getattr(entry, "built_in", None) == "jet_energy_scale"]
    assert len(regions) == 5
    assert study.source.n_nuisances == 26
    assert len(entries) == 27  # one name stands twice
    assert any(entry.processes for entry in entries if entry.kind == "weights")
    assert [entry.down is None for entry in entries if entry.kind == "samples"] == [False, True]
    assert study.source.correlations
    ensembles = [e for e in plan(study, {}, {}) if e.draw.signal is None]
    profiled = [e for e in ensembles if e.configuration.treatment == "profiled"]
    assert {e.toys for e in profiled} == {2400}
    assert any(e.draw.prior for e in profiled)


def test_frontier_repeats_every_alpha_with_three_seeds_and_differs_in_nothing_else(tmp_path):
    study = preset("frontier", tmp_path)
    learned = study.source.learned
    assert Counter(entry.alpha for entry in learned.values()) == dict.fromkeys((0, 0.3, 1, 3, 10, 30), 3)
    assert {entry.seed for entry in learned.values()} == {0, 1, 2}
    assert {setting_of(entry, 1)[0] for entry in learned.values()} == {"beta = 1, keep = observables"}
    assert [name for name, _ in study.spaces] == list(learned)
    assert study.source.splits.total == study.source.background.simulate


def test_an_existing_file_is_left_as_it_is(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text("mine")
    with pytest.raises(StudyError, match=r"study\.yaml: is there already"):
        write_preset("quick", path)
    assert path.read_text() == "mine"


def test_a_full_disk_leaves_no_half_preset(tmp_path, full_disk):
    with pytest.raises(FileWriteError, match="No space left on device"):
        write_preset("quick", tmp_path / "study.yaml")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileWriteError, match=r"nowhere/study\.yaml: cannot be written"):
        write_preset("quick", tmp_path / "nowhere" / "study.yaml")


def test_an_unknown_preset_is_named():
    with pytest.raises(
        UnknownNameError, match=r"no preset 'fast' .*quick, observables, joined, laptop, paper"
    ):
        preset_text("fast")


def test_every_section_has_a_comment():
    for name in PRESETS:
        text = preset_text(name)
        assert text.startswith("# ")
        for key in (
            "splits",
            "spaces",
            "sizes",
            "normalisation",
            "configurations",
            "nu",
            "signals",
            "toys",
        ):
            assert re.search(rf"^ *{key}:.*#", text, re.MULTILINE), (name, key)


def test_presets_are_found_without_the_source_tree(tmp_path):
    """As package data, from any working directory."""
    code = "from covad.study.presets import preset_text; print(len(preset_text('paper')))"
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert int(result.stdout) == len(preset_text("paper"))
