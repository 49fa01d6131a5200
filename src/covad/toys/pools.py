"""Pools of embedded events on disk: plain .npy arrays that all workers of a machine map into memory once.

A directory holds `manifest.json` and the arrays it names with their digests: the reference, the data at every
nu, smaller pools of data at points of the prior, every signal at every nu, and events for the basis of the
convex test that no toy uses. Events of the reference may have weights; all others count alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

from covad.errors import DatasetError, FileFormatError, PlanError, TooFewEventsError
from covad.nplm.dataset import Float32, Float64, Response
from covad.settings import Nu
from covad.storage.atomic import replacing, write_json, writing
from covad.storage.digests import content_digest, digest_once, file_digest
from covad.storage.json_files import read_json
from covad.storage.records import Record, plain, restore

T = TypeVar("T")

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
class Cost(Record):
    """What accept-reject cost a pool that had weights."""

    events: int  # before
    accepted: int
    negative: FiniteFloat  # share of the events whose weight was negative before the smoothing
    effective: FiniteFloat  # events that those before are worth, by their smoothed weights
    effective_signed: FiniteFloat  # the same by their signed weights

    @property
    def share(self) -> float:
        return self.accepted / self.events

    @property
    def signed_variance(self) -> float:
        """Return what the signs add to the variance of a mean over the pool; see `Pool.signed_variance`."""
        return max(1.0 / self.effective_signed - 1.0 / self.effective, 0.0)


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


@dataclass(frozen=True)
class LatentEvents:
    """Latent events, their response, and their weights; None if all count alike."""

    z: Float32
    response: Response
    weights: Float64 | None = None

    def __len__(self) -> int:
        return len(self.z)

    def take(self, rows: NDArray[np.integer[Any]]) -> LatentEvents:
        """Return some of the events."""
        quadratic = None if self.response.quadratic is None else self.response.quadratic.take(rows, axis=0)
        response = Response(self.response.linear.take(rows, axis=0), quadratic)
        weights = None if self.weights is None else self.weights.take(rows)
        return LatentEvents(self.z.take(rows, axis=0), response, weights)

    def joined(self, other: LatentEvents) -> LatentEvents:
        """Return these events, then the others; none of them has a weight."""
        if self.weights is not None or other.weights is not None:
            raise DatasetError("data have no weights, so that events with weights cannot be joined to them")
        mine, theirs = self.response, other.response
        quadratic = None
        if mine.quadratic is not None and theirs.quadratic is not None:
            quadratic = np.concatenate([mine.quadratic, theirs.quadratic])
        response = Response(np.concatenate([mine.linear, theirs.linear]), quadratic)
        return LatentEvents(np.concatenate([self.z, other.z]), response)

    def weights_for(self, expected: float) -> Float64:
        """Return weights that sum to the `expected` yield, as a reference enters the likelihood."""
        if self.weights is None:
            return np.full(len(self), expected / len(self))
        return np.asarray(self.weights * (expected / self.weights.sum()))


def effective_number(weights: Float64) -> float:
    """Return (sum w)^2 / sum w^2: events of equal weight whose mean fluctuates as much."""
    return float(weights.sum() ** 2 / np.square(weights).sum())


@dataclass(frozen=True)
class Pool:
    """Events of one kind at one nu; `yield_ratio` is their expected number relative to nu = 0.

    `sample.weights` are positive, and the density of the pool. `signed` are the weights before they were
    smoothed, where some were negative. A pool of data has no weights: `cost` tells what that took.
    """

    sample: LatentEvents
    yield_ratio: float = 1.0
    signed: Float64 | None = None
    cost: Cost | None = None

    def __post_init__(self) -> None:
        weights = self.weights
        if weights is None:
            if self.signed is not None:
                raise DatasetError("a pool with signed weights needs smoothed ones beside them")
            return
        for each in (weights, self.signed):
            if each is not None and each.shape != (len(self),):
                raise DatasetError(f"a pool of {len(self)} events has weights of the shape {each.shape}")
        if not (np.isfinite(weights).all() and (weights > 0).all()):
            raise DatasetError(
                "weights of a pool must be positive and finite: smooth negative ones, and leave out events "
                "of weight zero"
            )
        if self.signed is not None and not np.isfinite(self.signed).all():
            raise DatasetError("signed weights of a pool must be finite")

    def __len__(self) -> int:
        return len(self.sample)

    @property
    def weights(self) -> Float64 | None:
        return self.sample.weights

    @cached_property
    def effective(self) -> float:
        """Return how many events of equal weight those of the pool are worth."""
        return float(len(self)) if self.weights is None else effective_number(self.weights)

    @property
    def effective_share(self) -> float:
        """Return what one event is worth: n events of the pool count as many times this."""
        return self.effective / len(self)

    def unevenness(self, n_events: int) -> float:
        """Return the relative spread of sum w^2 over random choices of so many events."""
        if self.weights is None:
            return 0.0
        squares = np.square(self.weights)
        return float(np.sqrt(np.square(squares).mean() / n_events) / squares.mean())

    @cached_property
    def signed_variance(self) -> float:
        """Return what signs add to the variance of a mean over the pool, for a column of unit variance.

        Smoothing keeps the sums of the signed weights, and with them their fluctuation: 1 / effective number.
        Toys drawn from the smoothed weights fluctuate as those do, which is less.
        """
        if self.cost is not None:
            return self.cost.signed_variance
        if self.signed is None:
            return 0.0
        return max(1.0 / effective_number(self.signed) - 1.0 / self.effective, 0.0)

    @property
    def worth(self) -> float:
        """Return of how many events of equal weight a mean fluctuates as over the pool, signs included."""
        if not self.signed_variance:
            return self.effective
        return 1.0 / (1.0 / self.effective + self.signed_variance)

    def unweighted(self, seed: int) -> Pool:
        """Return a pool of equal weights: events are accepted in proportion to their weight.

        The largest weight decides how many remain, sum w / max w. No other way to draw a toy without an event
        twice could use more: an event of weight w is expected w N / sum w times in a toy of N events.
        """
        weights = self.weights
        if weights is None:
            return self
        accepted = np.random.default_rng(seed).random(len(weights)) * weights.max() < weights
        events = LatentEvents(self.sample.z, self.sample.response).take(np.flatnonzero(accepted))
        signed = weights if self.signed is None else self.signed
        cost = Cost(
            events=len(self),
            accepted=len(events),
            negative=float((signed < 0).mean()),
            effective=self.effective,
            effective_signed=effective_number(signed),
        )
        return Pool(events, self.yield_ratio, cost=cost)

    def pick(self, n_events: int, rng: np.random.Generator) -> LatentEvents:
        """Draw random events, none twice, with their weights."""
        if n_events > len(self):
            raise TooFewEventsError(f"a toy needs {n_events} events, but a pool has only {len(self)}")
        return self.sample.take(rng.choice(len(self), size=n_events, replace=False, shuffle=False))

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
    prior: Mapping[Nu, Pool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for pools in (self.data, self.prior, *self.signals.values()):
            if any(pool.weights is not None for pool in pools.values()):
                raise DatasetError(
                    "only the reference may have weights: accept events of data and signals in proportion to "
                    "theirs (Pool.unweighted)"
                )

    def background(self, nu: Nu, prior: bool = False) -> Pool:
        return _at(self.prior, nu, "the prior") if prior else _at(self.data, nu, "data")

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
    background = manifest.prior if nu is None else [_at(_by_nu(manifest.data), nu, "data")]
    used: list[PoolEntry] = [manifest.reference, *background]
    if signal is not None and nu is not None:
        used.append(_at(_by_nu(_of_signal(manifest.signals, signal)), nu, signal))
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
