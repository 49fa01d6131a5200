"""Points nu as people write them: by the names of their nuisances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from covad.study.sources import Collisions
from covad.study.systematics import nuisance_names


def nuisances_of(source: Any) -> tuple[str, ...] | None:
    """Return the names of the nuisances of a source that is not checked yet; None if it does not tell."""
    if isinstance(source, Collisions):
        return source.nuisances
    if not isinstance(source, Mapping) or source.get("kind") != "events":
        return None
    default = Collisions.model_fields["systematics"].default
    entries = source.get("systematics", default)
    if not isinstance(entries, list | tuple):
        return None
    if entries is default:
        return nuisance_names(default)
    named = [
        entry.get("name") if isinstance(entry, Mapping) else getattr(entry, "name", None) for entry in entries
    ]
    names = [str(name) for name in named]
    return tuple(dict.fromkeys(names)) if names == named else None


def numbered_points(points: Any, names: Sequence[str] | None, key: str) -> Any:
    """Return points with a number for every nuisance; what is no point stays as it is, and is refused later.

    A mapping gives the nuisances that are not 0, and a single 0 is 0 of all.
    """
    if not isinstance(points, list | tuple):
        return points
    found: list[Any] = []
    for number, point in enumerate(points):
        if isinstance(point, Mapping):
            if names is None:
                raise ValueError(
                    f"{key}.{number}: only nuisances of source.systematics can be named: give a list"
                )
            if strangers := [name for name in point if name not in names]:
                raise ValueError(
                    f"{key}.{number}: there is no nuisance '{strangers[0]}' (there are {', '.join(names)})"
                )
            found.append([point.get(name, 0.0) for name in names])
        elif names is not None and not isinstance(point, bool | str | list | tuple) and point == 0:
            found.append([0.0] * len(names))
        else:
            found.append(point)
    return found
