"""The versions that decide the last bits of what is computed: with others, equal results are not promised."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Self

from covad.storage.records import Record


@dataclass(frozen=True)
class Versions(Record):
    """The packages that computed something."""

    covad: str
    numpy: str
    scipy: str
    numba: str
    torch: str

    @classmethod
    def here(cls) -> Self:
        """Return those of this process."""
        return cls(*(package_version(field.name) for field in fields(cls)))

    def __str__(self) -> str:
        return ", ".join(f"{name} {number}" for name, number in vars(self).items())

    def differing(self, other: Versions) -> str:
        """Name the packages that are not those of the other: 'numpy 2.1.0, torch 2.4.0'."""
        theirs = vars(other)
        return ", ".join(f"{name} {number}" for name, number in vars(self).items() if number != theirs[name])


@lru_cache
def package_version(name: str) -> str:
    """Return the version of an installed package, which need not be imported for it."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def told_differences(earlier: Iterable[Versions], now: Versions) -> str | None:
    """Say which packages were others before; None if none was."""
    others = dict.fromkeys(before for before in earlier if before != now)
    if not others:
        return None
    before = "; ".join(dict.fromkeys(versions.differing(now) for versions in others))
    after = ", ".join(dict.fromkeys(now.differing(versions) for versions in others))
    return f"{before}, and now it is {after}"
