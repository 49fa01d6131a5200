"""Pools of embedded events on disk: plain .npy arrays that all workers of a machine map into memory once.

A directory holds `manifest.json` and the arrays it names with their digests: the reference, the data at every
nu, smaller pools of data at points of the prior, every signal at every nu, and events for the basis of the
convex test that no toy uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

from covad.errors import DatasetError, FileFormatError
from covad.nplm.dataset import Float32, Float64, Response
from covad.settings import Nu
from covad.storage.atomic import replacing, write_json, writing
from covad.storage.digests import content_digest, digest_once, file_digest
from covad.storage.json_files import read_json
from covad.storage.records import Record, plain, restore
from covad.toys.pools import Cost, LatentEvents, Pool, Pools, at_nu, of_signal

MANIFEST = "manifest.json"
POOL_SCHEMA = 2
#: Pools of this schema are read too: they have no points of the prior, and nothing else is different.
_WITHOUT_PRIOR = 1


@dataclass(frozen=True)
class ArrayEntry(Record):
    """An array in the manifest."""

    file: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class PoolEntry(Record):
    """A pool in the manifest."""

    yield_ratio: FiniteFloat
    z: ArrayEntry
    linear: ArrayEntry
    quadratic: ArrayEntry | None = None
    weights: ArrayEntry | None = None
    signed: ArrayEntry | None = None
    cost: Cost | None = None

    @property
    def arrays(self) -> list[ArrayEntry]:
        every = (self.z, self.linear, self.quadratic, self.weights, self.signed)
        return [array for array in every if array is not None]


@dataclass(frozen=True, kw_only=True)
class PoolAtNu(PoolEntry):
    """A pool at one nu in the manifest."""

    nu: tuple[FiniteFloat, ...]


@dataclass(frozen=True)
class Manifest(Record):
    """What `manifest.json` holds."""

    schema: int
    basis: ArrayEntry
    reference: PoolEntry
    data: tuple[PoolAtNu, ...]
    prior: tuple[PoolAtNu, ...]
    signals: dict[str, tuple[PoolAtNu, ...]]

    @property
    def costs(self) -> list[tuple[str, Nu, Cost]]:
        """Return what accept-reject cost, by name and nu; of the prior, where the fewest events are left."""
        prior = [(pool.cost.accepted, pool) for pool in self.prior if pool.cost]
        fewest = [min(prior, key=lambda pair: pair[0])[1]] if prior else []
        named = [("data", self.data), ("prior", fewest), *self.signals.items()]
        return [(name, pool.nu, pool.cost) for name, at in named for pool in at if pool.cost]

    @property
    def arrays(self) -> list[ArrayEntry]:
        at_nu = (*self.data, *self.prior, *(pool for pools in self.signals.values() for pool in pools))
        return [self.basis, *(array for pool in (self.reference, *at_nu) for array in pool.arrays)]


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
        "prior": _write_all(directory, "prior", pools.prior),
        "signals": {name: _write_all(directory, name, at) for name, at in pools.signals.items()},
    }
    write_json(directory / MANIFEST, manifest)
    return [directory / MANIFEST, *(directory / array.file for array in read_manifest(directory).arrays)]


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
    for kind, weights in (("weights", pool.weights), ("signed", pool.signed)):
        if weights is not None:
            entry[kind] = _write_array(directory, f"{name}_{kind}", weights, np.float64)
    if pool.cost is not None:
        entry["cost"] = plain(pool.cost)
    return entry


def _write_array(
    directory: Path, name: str, array: Float32 | Float64, precision: type[np.floating[Any]] = np.float32
) -> dict[str, str]:
    path = directory / f"{name}.npy"
    with replacing(path) as temporary, writing(path), temporary.open("wb") as file:
        np.save(file, np.ascontiguousarray(array, dtype=precision), allow_pickle=False)
    return {"file": path.name, "sha256": file_digest(path)}


def _content(directory: Path) -> dict[str, Any]:
    """Read the manifest as plain data of this schema, or of that without a prior."""
    path = directory / MANIFEST
    content = read_json(path)
    if not isinstance(content, dict) or "schema" not in content:
        raise FileFormatError(f"{path}: is no manifest of pools: write the pools again")
    if content["schema"] not in (POOL_SCHEMA, _WITHOUT_PRIOR):
        raise FileFormatError(
            f"{path}: schema {content['schema']}, but {POOL_SCHEMA} was expected: write the pools again"
        )
    return content


def read_manifest(directory: Path) -> Manifest:
    """Read the manifest; raise FileFormatError if something in it is missing or impossible."""
    return _manifest(directory, _content(directory))


def _manifest(directory: Path, content: dict[str, Any]) -> Manifest:
    if content["schema"] == _WITHOUT_PRIOR:
        content = {"prior": [], **content}
    return restore(Manifest, content, str(directory / MANIFEST))


def pools_digest(directory: Path) -> str:
    """Return a digest of the manifest, and with it of all arrays."""
    content = _content(directory)
    _manifest(directory, content)
    return content_digest(content)[:20]


@lru_cache(maxsize=256)
def digest_of(directory: Path, expected_digest: str, nu: Nu | None, signal: str | None) -> str:
    """Return a digest of the arrays that toys at nu use, or those of the prior where it is None.

    More nu or signals leave that of the others.
    """
    manifest = read_unchanged(directory, expected_digest)
    background = manifest.prior if nu is None else [at_nu(_by_nu(manifest.data), nu, "data")]
    used: list[PoolEntry] = [manifest.reference, *background]
    if signal is not None and nu is not None:
        used.append(at_nu(_by_nu(of_signal(manifest.signals, signal)), nu, signal))
    arrays = [[array.sha256 for array in entry.arrays] for entry in used]
    yields: list[float | None] = [entry.yield_ratio for entry in used]
    # the basis has no yield
    arrays.insert(1, [manifest.basis.sha256])
    yields.insert(1, None)
    points = [[entry.nu for entry in manifest.prior]] if nu is None else []  # else the draw has it
    return content_digest([arrays, yields, *points])[:20]


def read_unchanged(directory: Path, expected_digest: str) -> Manifest:
    """Read the manifest; raise a FileFormatError if its digest is another."""
    if pools_digest(directory) != expected_digest:
        raise FileFormatError(
            f"{directory / MANIFEST}: has changed since the run began: put it back, or use another run "
            "directory"
        )
    return read_manifest(directory)


def verify(directory: Path) -> None:
    """Compare every array with its digest; each is read once per process."""
    for array in read_manifest(directory).arrays:
        path = directory / array.file
        if not path.is_file() or digest_once(path) != array.sha256:
            raise FileFormatError(f"{path}: missing, or not what {MANIFEST} says: write the pools again")


@lru_cache(maxsize=8)
def open_verified(directory: Path, expected_digest: str) -> Pools:
    """Map the pools into memory and compare them with their digests, once per process.

    Whoever draws toys does so where it is: another machine may see other files under the same name.
    """
    verify(directory)
    return open_pools(directory, expected_digest)


@lru_cache(maxsize=8)
def open_pools(directory: Path, expected_digest: str) -> Pools:
    """Map the pools into memory, once per process."""
    manifest = read_unchanged(directory, expected_digest)
    try:
        return Pools(
            reference=_open_pool(directory, manifest.reference),
            basis=_map(directory, manifest.basis),
            data=_open_all(directory, manifest.data),
            prior=_open_all(directory, manifest.prior),
            signals={name: _open_all(directory, at) for name, at in manifest.signals.items()},
        )
    except DatasetError as failure:
        raise FileFormatError(f"{directory / MANIFEST}: {failure}") from failure


def _open_all(directory: Path, entries: tuple[PoolAtNu, ...]) -> dict[Nu, Pool]:
    return {nu: _open_pool(directory, entry) for nu, entry in _by_nu(entries).items()}


def _by_nu(entries: tuple[PoolAtNu, ...]) -> dict[Nu, PoolAtNu]:
    return {entry.nu: entry for entry in entries}


def _open_pool(directory: Path, entry: PoolEntry) -> Pool:
    quadratic = None if entry.quadratic is None else _map(directory, entry.quadratic)
    response = Response(_map(directory, entry.linear), quadratic)
    weights, signed = (
        None if array is None else _map(directory, array, np.float64)
        for array in (entry.weights, entry.signed)
    )
    sample = LatentEvents(_map(directory, entry.z), response, weights)
    return Pool(sample, entry.yield_ratio, signed, entry.cost)


def _map(directory: Path, entry: ArrayEntry, precision: type[np.floating[Any]] = np.float32) -> NDArray[Any]:
    path = directory / entry.file
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as failure:
        raise FileFormatError(f"{path}: cannot be mapped ({failure})") from failure
    return np.asarray(array, dtype=precision)
