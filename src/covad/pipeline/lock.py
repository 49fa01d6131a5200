"""Who works in a run directory: one process at a time learns, and those that compute toys know of each other.

RUN/learning.lock is held while a run makes what all toys share, up to the end of `tune`. Everyone who
computes toys has a file RUN/toys.TOKEN.lock meanwhile. A process that was killed leaves its file behind:
the next one recognises it, and goes on.
"""

from __future__ import annotations

import fcntl
import getpass
import logging
import math
import os
import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from covad.errors import FileFormatError, RunInUseError
from covad.runs.directory import RunDirectory
from covad.storage.atomic import write_json, writing
from covad.storage.json_files import parse_json
from covad.storage.records import Record, plain, restore
from covad.toys.ensembles import Shard

log = logging.getLogger(__name__)

LEARNING = "learning.lock"
TOYS = "toys.*.lock"
#: A process gives a sign of life this often: it touches its file.
SIGN_OF_LIFE_SECONDS = 30.0
#: One that cannot be looked up, because it is on another machine, counts as dead after so long without one.
SILENT_SECONDS = 300.0


@dataclass(frozen=True)
class Owner(Record):
    """A process that works in a run directory."""

    user: str
    pid: int
    host: str
    machine: str  # boot and process namespace: within one of them a pid and its start mean one process
    started: int  # of the process, in clock ticks since the boot; 0 where the system does not tell
    since: str
    shard: tuple[int, int]
    token: str

    @classmethod
    def here(cls, shard: Shard) -> Self:
        """Describe this process."""
        try:
            user = getpass.getuser()
        except (KeyError, OSError):  # a container may have no name for its user
            user = str(os.getuid())
        return cls(
            user=user,
            pid=os.getpid(),
            host=socket.gethostname(),
            machine=_machine(),
            started=_process_start(os.getpid()) or 0,
            since=f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
            shard=(shard.number, shard.total),
            token=secrets.token_hex(6),
        )

    @property
    def is_local(self) -> bool:
        return self.machine == _machine()

    def lives(self, silent_seconds: float) -> bool:
        """Return whether the process is still at work; of one elsewhere only its silence is known."""
        if self.is_local:
            return _process_start(self.pid) == self.started
        return silent_seconds < SILENT_SECONDS

    def shares_toys(self, shard: Shard) -> bool:
        """Return whether some block belongs to both shards."""
        number, total = self.shard
        return (number - shard.number) % math.gcd(total, shard.total) == 0

    def __str__(self) -> str:
        return f"pid {self.pid} of {self.user} on {self.host}, since {self.since}"


@dataclass(frozen=True)
class _Found:
    """A file that some process left, `silent` seconds ago by the clock of the file system."""

    path: Path
    text: str
    owner: Owner | None  # None if it cannot be read
    silent: float

    @classmethod
    def read(cls, path: Path, now: float) -> Self | None:
        """Return None if there is none."""
        try:
            text, silent = path.read_text(errors="replace"), now - path.stat().st_mtime
        except FileNotFoundError:
            return None
        try:
            owner = restore(Owner, parse_json(text, str(path)), str(path))
        except FileFormatError:
            owner = None
        return cls(path, text, owner, silent)

    @property
    def lives(self) -> bool:
        return self.silent < SILENT_SECONDS if self.owner is None else self.owner.lives(self.silent)

    def clear(self) -> None:
        """Remove it; should another process have put its own there meanwhile, that one gets it back."""
        aside = self.path.with_name(f".{self.path.name}.{secrets.token_hex(6)}")
        with suppress(FileNotFoundError):
            self.path.rename(aside)
            if aside.read_text(errors="replace") != self.text:
                with suppress(FileExistsError):
                    os.link(aside, self.path)
            aside.unlink()


@contextmanager
def learning_lock(directory: RunDirectory) -> Iterator[None]:
    """Be the only one who makes models, pools, bases and clips of a run.

    Raise RunInUseError if another process does so.
    """
    path, mine = directory.path / LEARNING, Owner.here(Shard())
    with writing(directory.path):
        directory.path.mkdir(parents=True, exist_ok=True)
    _take(path, mine)
    with _signs_of_life(path, mine):
        yield


@contextmanager
def announced_toys(directory: RunDirectory, shard: Shard) -> Iterator[None]:
    """Let others know that this process computes toys; say so if one of them computes the same."""
    mine = Owner.here(shard)
    path = directory.path / TOYS.replace("*", mine.token)
    write_json(path, plain(mine))
    for other in toy_computers(directory, path):
        if other.shares_toys(shard):
            log.warning("another process (%s) computes toys here: work may be done twice", other)
    with _signs_of_life(path, mine):
        yield


def refuse_toy_computers(directory: RunDirectory) -> None:
    """Raise RunInUseError if another process computes toys; to be called by who holds the lock."""
    for other in toy_computers(directory, directory.path / LEARNING):
        raise RunInUseError(
            f"{directory.path}: another process ({other}) computes toys of the study as it was: "
            "stop it, or let it end, before the study changes"
        )


def toy_computers(directory: RunDirectory, mine: Path) -> list[Owner]:
    """Return the other processes that compute toys; files of dead ones are removed. `mine` is of now."""
    now, others = mine.stat().st_mtime, []
    for path in sorted(directory.path.glob(TOYS)):
        found = None if path == mine else _Found.read(path, now)
        if found is not None and found.lives:
            others += [found.owner] if found.owner is not None else []
        elif found is not None:
            found.clear()
    return others


def _take(path: Path, mine: Owner) -> None:
    """Put our lock there, in place of one that a dead process left."""
    fresh = path.with_name(f".{path.name}.{mine.token}")
    with writing(path), _alone(path.parent):
        try:
            write_json(fresh, plain(mine))
            while not _create(path, fresh):
                found = _Found.read(path, fresh.stat().st_mtime)
                if found is not None and found.lives:
                    raise RunInUseError(_refusal(found))
                if found is not None:
                    found.clear()
        finally:
            fresh.unlink(missing_ok=True)


def _create(path: Path, fresh: Path) -> bool:
    """Give a written file its name; False if somebody has it. Of two who try at once one succeeds."""
    try:
        os.link(fresh, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        try:
            with path.open("x") as file:
                file.write(fresh.read_text())
        except FileExistsError:
            return False
    return True


def _refusal(found: _Found) -> str:
    owner, silent = found.owner, max(found.silent, 0.0)
    who = "which one cannot be read" if owner is None else str(owner)
    sentence = f"{found.path.parent}: another process is in the learning stages here ({who}): let it end"
    if owner is not None and owner.is_local:
        return sentence
    return (
        f"{sentence}, or delete {found.path} if that job is dead (it counts as dead "
        f"{SILENT_SECONDS / 60:.0f} minutes after its last sign of life, {silent:.0f} s ago)"
    )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other starters waiting, where the file system can: two may find the same dead lock."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _signs_of_life(path: Path, mine: Owner) -> Iterator[None]:
    """Touch our file now and then, and remove it at the end; if it is no longer ours, leave it alone."""
    done = threading.Event()

    def is_mine() -> bool:
        found = _Found.read(path, 0.0)
        return found is not None and found.owner == mine

    def touch() -> None:
        while not done.wait(SIGN_OF_LIFE_SECONDS):
            with suppress(OSError):
                if is_mine():
                    os.utime(path)

    thread = threading.Thread(target=touch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        with suppress(OSError):
            if is_mine():
                path.unlink()


def _machine() -> str:
    """Name the place in which a pid means one process: this boot of this machine, or of this container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:  # no Linux
        return socket.gethostname()


def _process_start(pid: int) -> int | None:
    """Return when a process began, in clock ticks since the boot; None if it is dead.

    A process whose parent has not asked after it yet is dead. Without /proc: 0 for any that is alive.
    """
    if not Path("/proc/self/stat").exists():
        try:
            os.kill(pid, 0)
        except (ProcessLookupError, OverflowError):
            return None
        except PermissionError:
            pass
        return 0
    try:
        # the name, in parentheses, may hold anything
        state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state[0] in "ZX" else int(state[19])
