"""What a file of any format offers to a conversion: trees, their branches, and rows of them in steps."""

from __future__ import annotations

import difflib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from covad.errors import CovadError, FileFormatError, MappingError, MissingExtraError
from covad.events.conversion.columns import Column

#: Events that are read and converted at once, where the file is not stored in larger pieces.
STEP_EVENTS = 50_000
#: A stored piece (cluster, row group) of up to this many events is read at once: to cut it would mean to
#: decompress it several times.
_LARGEST_STEP = 200_000
#: A step makes no more than this, whatever an event is made of: every worker process has one in its memory.
_STEP_BYTES = 2**26

Kind = Literal["number", "list", "text", "other"]


@dataclass(frozen=True)
class Branch:
    """A column of a file: what it holds, and how the file's own format calls that."""

    name: str
    type_name: str
    kind: Kind


@contextmanager
def reading_foreign(path: Path) -> Iterator[None]:
    """Turn whatever the libraries raise about a damaged file into one sentence."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of uproot, about classes that nobody asked for
            yield
    except (CovadError, MemoryError):
        raise
    except ImportError as failure:
        raise MissingExtraError(f"{path}: needs a package that is not installed ({failure})") from failure
    except FileNotFoundError as failure:
        raise FileFormatError(f"{path}: cannot be read (no such file: is the name right?)") from failure
    except Exception as failure:  # the libraries have no base class for what a cut file makes them raise
        said = next((line.strip() for line in str(failure).splitlines() if line.strip()), "")
        why = f"{type(failure).__name__}: {said}" if said else type(failure).__name__
        raise FileFormatError(
            f"{path}: cannot be read, it is damaged or was not written to its end ({why[:200]})"
        ) from failure


class Table(ABC):
    """The rows of one tree."""

    path: Path
    name: str

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """Names of all branches."""

    @abstractmethod
    def branch(self, name: str) -> Branch: ...

    @abstractmethod
    def pieces(self, names: Sequence[str]) -> Sequence[int]:
        """Return where the stored pieces of these branches begin, and the end of the last."""

    @abstractmethod
    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, Column]:
        """Return rows start..stop-1 of branches that hold numbers or lists of numbers."""

    @abstractmethod
    def read_labels(self, name: str, start: int, stop: int) -> np.ndarray[Any, Any]:
        """Return rows of a branch that holds whole numbers or texts."""

    def unknown(self, name: str) -> str:
        """Return the sentence about a branch that is not there, with those that may be meant."""
        lowered = {n.lower(): n for n in self.names}
        close = difflib.get_close_matches(name.lower(), lowered, n=3, cutoff=0.7)
        meant = f"; is {' or '.join(repr(lowered[c]) for c in close)} meant?" if close else ""
        return f"{self.path}: tree '{self.name}' has no branch '{name}'{meant}"

    def steps(self, names: Sequence[str], event_bytes: int) -> list[tuple[int, int]]:
        """Return the ranges of rows that are read at once: stored pieces, joined or cut to a handy size.

        `event_bytes` is the size of what is made of one row.
        """
        largest = max(1, min(_LARGEST_STEP, _STEP_BYTES // event_bytes))
        step = min(STEP_EVENTS, largest)
        edges = [0]
        for end in self.pieces(names)[1:]:
            while end - edges[-1] > largest:
                edges.append(edges[-1] + step)
            if end - edges[-1] >= step:
                edges.append(end)
        if edges[-1] < len(self):
            edges.append(len(self))
        return list(pairwise(edges))


class Source(ABC):
    """A file with trees."""

    path: Path

    @property
    @abstractmethod
    def trees(self) -> Mapping[str, int]:
        """Names of the trees, and their rows."""

    @abstractmethod
    def open(self, name: str) -> Table: ...

    @abstractmethod
    def close(self) -> None: ...

    def find(self, candidates: Sequence[str] | None) -> Table:
        """Return the first of the trees that is there; without names the only one of the file."""
        there = ", ".join(self.trees) or "none"
        if candidates is None:
            if len(self.trees) != 1:
                raise MappingError(f"{self.path}: has several trees or none ({there}): name one in `tree`")
            candidates = tuple(self.trees)
        for name in candidates:
            if name in self.trees:
                return self.open(name)
        raise MappingError(
            f"{self.path}: has no tree '{' or '.join(candidates)}' (its trees: {there}); "
            "`covad convert --describe` shows what it has"
        )
