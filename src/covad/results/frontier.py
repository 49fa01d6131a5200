"""The frontier of a run: the reach of its learned spaces, and their power as `covad tune-power` found it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from covad.inference.frontier import Frontier, FrontierPoint, frontier
from covad.results.power import PowerTuning, SettingPower, read_tuning
from covad.runs.checks import SpaceReach, read_checks
from covad.runs.directory import RunDirectory
from covad.runs.products import Products
from covad.runs.sources import open_sources
from covad.storage.digests import content_digest
from covad.study import Collisions, Configuration, Study
from covad.study.plan import (
    Space,
    default_test,
    null_draw,
    one_per_space,
    parts_of,
    sizes_of,
    space_label,
    tuned_adaptive,
)
from covad.study.spaces import LearnedSpace
from covad.toys.ensembles import Source, draw_recipe
from covad.toys.tests import TunedAdaptive


def read_frontier(directory: RunDirectory) -> Frontier | None:
    """Return the frontier of a run; None for a study that does not list several alphas."""
    study = directory.study()
    if not isinstance(study.source, Collisions) or not _lists_alphas(study):
        return None
    products = Products(study, directory)
    checks = {where: read_checks(products.checks(where, study.source.fold)) for where in study.spaces}
    reaches = {where: found.reach for where, found in checks.items() if found is not None}
    sources, tried = open_sources(study, directory, verify=False), one_per_space(study)
    digests = {
        space_label(where): power_digest(study, tried[where], source) for where, source in sources.items()
    }
    return make_frontier(study, reaches, _current(read_tuning(directory), digests))


def compared_adaptive(study: Study, configuration: Configuration) -> TunedAdaptive:
    """Return the adaptive test that spaces are compared by: the study's, or that of the defaults."""
    sizes, name = sizes_of(study, configuration), configuration.space or ""
    usual = TunedAdaptive(**dict(sizes), parts=parts_of(study, name))
    return tuned_adaptive(study, sizes, name) or usual


def power_digest(study: Study, configuration: Configuration, source: Source) -> str:
    """Return what the power in a space depends on, beside the settings of convex tests, as a digest."""
    draw = draw_recipe(null_draw(study, configuration))
    return content_digest([source.digest, draw, compared_adaptive(study, configuration).describe()])


def make_frontier(
    study: Study, reaches: Mapping[Space, SpaceReach], powers: Sequence[SettingPower] = ()
) -> Frontier | None:
    """Return the frontier from reaches, as far as they are known, and powers of tests in these spaces."""
    learned = _learned(study)
    if not _lists_alphas(study):
        return None
    known = [where for where in learned if where in reaches]
    test = _compared_test(study, [space_label(where) for where in known], powers)
    by_space = {line.space: line for line in powers if line.name == test}
    points = []
    for where in known:
        setting, seed = setting_of(learned[where], where[1])
        line, reach = by_space.get(space_label(where)), reaches[where]
        points.append(
            FrontierPoint(
                space=space_label(where),
                setting=setting,
                alpha=learned[where].alpha,
                seed=seed,
                reach=reach.average,
                reach_at=tuple(reach.smallest.items()),
                power=None if line is None else line.mean_of_processes,
                bump_power=None if line is None else line.mean_of_bumps,
            )
        )
    waiting = [space_label(where) for where in learned if where not in reaches]
    return frontier(points, study.sizes.expected, test, waiting)


def setting_of(entry: LearnedSpace, order: int) -> tuple[str, int]:
    """Return what a learned space differs in from others, beside alpha and its seed, and the seed.

    Whatever a learned space has beside alpha, and that is not its default, makes another setting.
    """
    apart = {"kind", "alpha", "seed", "encoder"}
    others = entry.model_dump(mode="json", exclude=apart, exclude_defaults=True)
    if entry.encoder is not None:
        others |= entry.encoder.model_dump(mode="json", exclude_defaults=True) or {"encoder": "default"}
    told = [f"{key} = {_worded(value)}" for key, value in others.items()]
    return ", ".join([*told, *(["quadratic response"] if order == 2 else [])]), entry.seed


def _worded(value: Any) -> str:
    """Return a setting as people write it: names without brackets."""
    if isinstance(value, float):
        return f"{value:g}"
    names = isinstance(value, list) and all(isinstance(each, str) for each in value)
    return " and ".join(value) if names else str(value)


def _learned(study: Study) -> dict[Space, LearnedSpace]:
    """Return the learned spaces that toys are drawn in."""
    learned = study.source.learned if isinstance(study.source, Collisions) else {}
    return {where: learned[where[0]] for where in study.spaces if where[0] in learned}


def _lists_alphas(study: Study) -> bool:
    """Return whether two learned spaces differ in alpha alone, seeds apart."""
    alphas: dict[str, set[float]] = {}
    for where, entry in _learned(study).items():
        alphas.setdefault(setting_of(entry, where[1])[0], set()).add(entry.alpha)
    return any(len(found) > 1 for found in alphas.values())


def _current(tuning: PowerTuning | None, digests: Mapping[str, str]) -> tuple[SettingPower, ...]:
    """Return the powers of spaces and datasets as they are now: a study may get others."""
    if tuning is None:
        return ()
    known = {name for name, digest in digests.items() if tuning.made_of.get(name) == digest}
    return tuple(line for line in tuning.settings if line.space in known)


def _compared_test(study: Study, spaces: Sequence[str], powers: Sequence[SettingPower]) -> str | None:
    """Return the test, the same in all spaces, by whose power they are compared.

    Of the test that the study quotes, if it was asked, the setting of the largest power on average over the
    spaces; else of all tests. None if no setting was asked in every space.
    """
    found: dict[str, dict[str, SettingPower]] = {}
    for line in powers:
        if line.space in spaces and line.mean is not None:
            found.setdefault(line.name, {})[line.space] = line
    everywhere = {name: lines for name, lines in found.items() if len(lines) == len(spaces)}
    quoted = {
        name: lines
        for name, lines in everywhere.items()
        if {line.test for line in lines.values()} == {default_test(study)}
    }
    candidates = quoted or everywhere
    return max(candidates, key=lambda name: _told(candidates[name]), default=None)


def _told(lines: Mapping[str, SettingPower]) -> float:
    """Return the power of a setting summed over spaces, against processes if there are any."""
    known = ((line.mean_of_processes, line.mean) for line in lines.values())
    return sum((mean or 0.0) if of_processes is None else of_processes for of_processes, mean in known)
