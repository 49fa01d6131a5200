"""Two faults at a time, each in a copy of the world at a place that the copy knows.

A run has the folder of its study file by its full path, so copies stand where their master was completed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from faults.world import World, must

LANES = 2
T = TypeVar("T")


@dataclass(frozen=True)
class Lane:
    """A place where one copy of the world after the other is damaged."""

    path: Path

    @property
    def master(self) -> World:
        return World(self.path / "master")

    @classmethod
    def make(cls, world: World, path: Path) -> Lane:
        """Bring a copy of the world to its place: its run is continued and reported there."""
        lane = cls(path)
        if not lane.master.path.exists():
            shutil.rmtree(path, ignore_errors=True)
            moved = world.copy(path / "world")
            must("run", moved.study, "--out", moved.run, "--workers", 1)
            must("test", moved.run, moved.observed)
            must("report", moved.run)
            moved.path.rename(lane.master.path)
        return lane

    def fresh(self) -> World:
        """Return an undamaged copy at its place."""
        place = self.path / "world"
        shutil.rmtree(place, ignore_errors=True)
        return self.master.copy(place)


def in_lanes(lanes: Sequence[Lane], work: Callable[[World, int], T], numbers: Sequence[int]) -> Iterator[T]:
    """Yield what `work` returns for every number, as it comes; every call has a fresh world."""
    context = get_context("fork")
    results = context.SimpleQueue()

    def serve(lane: Lane, mine: Sequence[int]) -> None:
        try:
            for number in mine:
                results.put(work(lane.fresh(), number))
        finally:
            results.put(None)

    processes = [
        context.Process(target=serve, args=(lane, numbers[first :: len(lanes)]))
        for first, lane in enumerate(lanes)
    ]
    for process in processes:
        process.start()
    running = len(processes)
    while running:
        found = results.get()
        if found is None:
            running -= 1
        else:
            yield found
    for process in processes:
        process.join()
        if process.exitcode:
            raise RuntimeError(f"a lane ended with {process.exitcode}")
