"""Pools of embedded events on disk: plain .npy arrays that all workers of a machine map into memory once.

A directory holds `manifest.json` and the arrays it names with their digests: the reference, the data at every
nu, every signal at every nu, and events for the basis of the convex test that no toy uses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from covad.errors import FileFormatError, PlanError, TooFewEventsError
from covad.nplm.dataset import Float32, Response
from covad.settings import Nu
from covad.storage.atomic import replacing, write_json, writing
from covad.storage.digests import content_digest, file_digest
from covad.storage.json_files import read_json

T = TypeVar("T")

MANIFEST = "manifest.json"
POOL_SCHEMA = 1


@dataclass(frozen=True)
class LatentEvents:
    """Latent events and their response."""

    z: Float32
    response: Response

    def __len__(self) -> int:
        return len(self.z)

    def joined(self, other: LatentEvents) -> LatentEvents:
        """Return these events, then the others."""
        mine, theirs = self.response, other.response
        quadratic = None
        if mine.quadratic is not None and theirs.quadratic is not None:
            quadratic = np.concatenate([mine.quadratic, theirs.quadratic])
        response = Response(np.concatenate([mine.linear, theirs.linear]), quadratic)
        return LatentEvents(np.concatenate([self.z, other.z]), response)


@dataclass(frozen=True)
class Pool:
    """Events of one kind at one nu; `yield_ratio` is their expected number relative to nu = 0."""

    sample: LatentEvents
    yield_ratio: float = 1.0

    def __len__(self) -> int:
        return len(self.sample)

    def pick(self, n_events: int, rng: np.random.Generator) -> LatentEvents:
        """Draw random events, none twice."""
        if n_events > len(self):
            raise TooFewEventsError(f"a toy needs {n_events} events, but a pool has only {len(self)}")
        rows = rng.choice(len(self), size=n_events, replace=False, shuffle=False)
        response = self.sample.response
        quadratic = None if response.quadratic is None else response.quadratic.take(rows, axis=0)
        picked = Response(response.linear.take(rows, axis=0), quadratic)
        return LatentEvents(self.sample.z.take(rows, axis=0), picked)

    def pick_poisson(self, expected: float, rng: np.random.Generator) -> LatentEvents:
        """Draw a Poisson number of events, for a yield of `expected` at nu = 0."""
        return self.pick(int(rng.poisson(expected * self.yield_ratio)), rng)


@dataclass(frozen=True)
class Pools:
    """All pools of one embedding."""

    reference: Pool
    basis: Float32
    data: Mapping[Nu, Pool]
    signals: Mapping[str, Mapping[Nu, Pool]] = field(default_factory=dict)

    def background(self, nu: Nu) -> Pool:
        return _at(self.data, nu, "data")

    def signal(self, name: str, nu: Nu) -> Pool:
        return _at(_of_signal(self.signals, name), nu, name)


def _of_signal(signals: Mapping[str, T], name: str) -> T:
    if name not in signals:
        raise PlanError(f"there is no pool of the signal '{name}' (there are {', '.join(signals)})")
    return signals[name]


def _at(pools: Mapping[Nu, T], nu: Nu, what: str) -> T:
    if nu not in pools:
        there = "; ".join(str(list(n)) for n in pools)
        raise PlanError(f"there is no pool of {what} at nu = {list(nu)} (there are {there})")
    return pools[nu]


def write_pools(directory: Path, pools: Pools) -> list[Path]:
    """Write the arrays, then the manifest; return the files.

    A directory without a manifest is not finished.
    """
    with writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
    manifest = {
        "schema": POOL_SCHEMA,
        "basis": _write_array(directory, "basis", pools.basis),
        "reference": _write_pool(directory, "reference", pools.reference),
        "data": _write_all(directory, "data", pools.data),
        "signals": {name: _write_all(directory, name, at) for name, at in pools.signals.items()},
    }
    write_json(directory / MANIFEST, manifest)
    return [directory / MANIFEST, *(directory / array["file"] for array in _arrays(manifest))]


def _write_all(directory: Path, name: str, pools: Mapping[Nu, Pool]) -> list[dict[str, Any]]:
    return [
        {"nu": list(nu), **_write_pool(directory, f"{name}_{number}", pool)}
        for number, (nu, pool) in enumerate(pools.items())
    ]


def _write_pool(directory: Path, name: str, pool: Pool) -> dict[str, Any]:
    sample = pool.sample
    entry: dict[str, Any] = {"yield_ratio": pool.yield_ratio}
    entry["z"] = _write_array(directory, f"{name}_z", sample.z)
    entry["linear"] = _write_array(directory, f"{name}_linear", sample.response.linear)
    if sample.response.quadratic is not None:
        entry["quadratic"] = _write_array(directory, f"{name}_quadratic", sample.response.quadratic)
    return entry


def _write_array(directory: Path, name: str, array: NDArray[np.float32]) -> dict[str, str]:
    path = directory / f"{name}.npy"
    with replacing(path) as temporary, writing(path), temporary.open("wb") as file:
        np.save(file, np.ascontiguousarray(array, dtype=np.float32), allow_pickle=False)
    return {"file": path.name, "sha256": file_digest(path)}


def read_manifest(directory: Path) -> dict[str, Any]:
    """Read the manifest as plain data."""
    path = directory / MANIFEST
    try:
        manifest = read_json(path)
        version = manifest["schema"]
    except (KeyError, TypeError) as failure:
        raise FileFormatError(f"{path}: is no manifest of pools ({failure})") from failure
    if version != POOL_SCHEMA:
        raise FileFormatError(f"{path}: schema {version}, but {POOL_SCHEMA} was expected")
    return dict(manifest)


def pools_digest(directory: Path) -> str:
    """Return a digest of the manifest, and with it of all arrays."""
    return content_digest(read_manifest(directory))[:20]


@lru_cache(maxsize=256)
def digest_of(directory: Path, expected_digest: str, nu: Nu, signal: str | None) -> str:
    """Return a digest of the arrays that toys at nu use: more nu or signals leave that of the others."""
    manifest = read_unchanged(directory, expected_digest)
    try:
        data, signals = manifest["data"], manifest["signals"]
        used = [manifest["reference"], manifest["basis"], _at(dict(_by_nu(data)), nu, "data")]
        if signal is not None:
            used.append(_at(dict(_by_nu(_of_signal(signals, signal))), nu, signal))
    except (KeyError, TypeError, AttributeError) as failure:
        raise FileFormatError(f"{directory / MANIFEST}: incomplete ({failure})") from failure
    arrays = [[entry["sha256"] for entry in _arrays(part)] for part in used]
    yields = [part.get("yield_ratio") for part in used]
    return content_digest([arrays, yields])[:20]


def read_unchanged(directory: Path, expected_digest: str) -> dict[str, Any]:
    """Read the manifest; raise a FileFormatError if its digest is another."""
    if pools_digest(directory) != expected_digest:
        raise FileFormatError(f"{directory / MANIFEST}: has changed since the run began")
    return read_manifest(directory)


def verify(directory: Path) -> None:
    """Compare every array with its digest. Once per run, not per worker."""
    for entry in _arrays(read_manifest(directory)):
        path = directory / entry["file"]
        if not path.is_file() or file_digest(path) != entry["sha256"]:
            raise FileFormatError(f"{path}: missing, or not what {MANIFEST} says")


def _arrays(entry: Any) -> list[dict[str, str]]:
    """Return all array entries of a manifest."""
    if isinstance(entry, list):
        return [array for item in entry for array in _arrays(item)]
    if not isinstance(entry, dict):
        return []
    return [entry] if "sha256" in entry else [array for item in entry.values() for array in _arrays(item)]


@lru_cache(maxsize=8)
def open_pools(directory: Path, expected_digest: str) -> Pools:
    """Map the pools into memory, once per process."""
    manifest = read_unchanged(directory, expected_digest)
    try:
        return Pools(
            reference=_open_pool(directory, manifest["reference"]),
            basis=_map(directory, manifest["basis"]),
            data=_open_all(directory, manifest["data"]),
            signals={name: _open_all(directory, at) for name, at in manifest["signals"].items()},
        )
    except (KeyError, TypeError, AttributeError) as failure:
        raise FileFormatError(f"{directory / MANIFEST}: incomplete ({failure})") from failure


def _open_all(directory: Path, entries: list[dict[str, Any]]) -> dict[Nu, Pool]:
    return {nu: _open_pool(directory, entry) for nu, entry in _by_nu(entries)}


def _by_nu(entries: list[dict[str, Any]]) -> Iterator[tuple[Nu, dict[str, Any]]]:
    for entry in entries:
        yield tuple(float(x) for x in entry["nu"]), entry


def _open_pool(directory: Path, entry: dict[str, Any]) -> Pool:
    quadratic = _map(directory, entry["quadratic"]) if "quadratic" in entry else None
    response = Response(_map(directory, entry["linear"]), quadratic)
    return Pool(LatentEvents(_map(directory, entry["z"]), response), float(entry["yield_ratio"]))


def _map(directory: Path, entry: dict[str, str]) -> Float32:
    path = directory / entry["file"]
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as failure:
        raise FileFormatError(f"{path}: cannot be mapped ({failure})") from failure
    return np.asarray(array, dtype=np.float32)
