import hashlib
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from toy_world import weighted_pool, weighted_pools

from covad.errors import DatasetError, FileFormatError, PlanError
from covad.nplm.dataset import Response
from covad.toys.drawing import LatentEvents, PoolSource
from covad.toys.ensembles import Draw, Treatment
from covad.toys.pool_files import MANIFEST, open_pools, pools_digest, read_manifest, verify, write_pools
from covad.toys.pools import Pool, Pools


def sample(n, seed, quadratic=True):
    rng = np.random.default_rng(seed)
    z, g = rng.standard_normal((n, 4), dtype=np.float32), rng.standard_normal((n, 2), dtype=np.float32)
    d = rng.standard_normal((n, 2, 2), dtype=np.float32) if quadratic else None
    return LatentEvents(z, Response(g, d))


def pools(quadratic=True, prior=((0.3, -0.2), (1.1, 0.4))):
    return Pools(
        reference=Pool(sample(50, 1, quadratic)),
        basis=sample(20, 2).z,
        data={(0.0, 0.0): Pool(sample(40, 3, quadratic)), (1.0, -1.0): Pool(sample(30, 4, quadratic), 0.97)},
        signals={"a4l": {(0.0, 0.0): Pool(sample(10, 5, quadratic), 1.5)}},
        prior={nu: Pool(sample(15, 6 + i, quadratic), 1.0 + i / 8) for i, nu in enumerate(prior)},
    )


@pytest.fixture
def directory(tmp_path):
    write_pools(tmp_path / "pools", pools())
    return tmp_path / "pools"


@pytest.mark.parametrize("quadratic", [True, False])
def test_what_is_written_is_read(tmp_path, quadratic):
    write_pools(tmp_path, pools(quadratic))
    wanted, found = pools(quadratic), open_pools(tmp_path, pools_digest(tmp_path))
    pairs = [
        (wanted.reference, found.reference),
        (wanted.background((1.0, -1.0)), found.background((1.0, -1.0))),
        (wanted.signal("a4l", (0.0, 0.0)), found.signal("a4l", (0.0, 0.0))),
        (wanted.background((1.1, 0.4), prior=True), found.background((1.1, 0.4), prior=True)),
    ]
    assert list(found.prior) == list(wanted.prior)
    for a, b in pairs:
        np.testing.assert_array_equal(a.sample.z, b.sample.z)
        np.testing.assert_array_equal(a.sample.response.linear, b.sample.response.linear)
        assert a.yield_ratio == b.yield_ratio
        assert (b.sample.response.quadratic is None) is not quadratic
        if quadratic:
            np.testing.assert_array_equal(a.sample.response.quadratic, b.sample.response.quadratic)
    np.testing.assert_array_equal(wanted.basis, found.basis)


def test_pools_are_mapped_not_loaded(directory):
    z = open_pools(directory, pools_digest(directory)).reference.sample.z
    assert isinstance(z.base, np.memmap)
    assert not z.flags.writeable


def test_the_digest_follows_the_contents_not_the_place(directory, tmp_path):
    before = pools_digest(directory)
    shutil.copytree(directory, tmp_path / "copy")
    assert pools_digest(tmp_path / "copy") == before
    changed = pools()
    changed.reference.sample.z[0, 0] += 1
    write_pools(directory, changed)
    assert pools_digest(directory) != before


def test_only_toys_of_the_prior_depend_on_its_pools(tmp_path):
    """More points, or other events at one of them, leave the toys at nu and with signals."""
    usual = Draw("here", Treatment.PROFILED, 20, 30, (0.0, 0.0))
    draws = {
        "null": usual,
        "shifted": replace(usual, nu=(1.0, -1.0)),
        "signal": replace(usual, signal="a4l", injected=3),
        "yield": replace(usual, nu_norm=1.5),
        "prior": replace(usual, prior=True),
    }
    moved, altered, other_data = pools(prior=((0.3, -0.2), (1.1, 0.5))), pools(), pools()
    altered.prior[1.1, 0.4].sample.z[0, 0] += 1
    other_data.data[1.0, -1.0].sample.z[0, 0] += 1
    variants = {
        "usual": pools(),
        "fewer": pools(prior=((0.3, -0.2),)),
        "altered": altered,
        "data": other_data,
    }
    digests = {}
    for name, written in (variants | {"moved": moved}).items():
        write_pools(tmp_path / name, written)
        source = PoolSource.open(tmp_path / name)
        digests[name] = {kind: source.digest_of(draw) for kind, draw in draws.items()}
    assert digests["usual"]["null"] == digests["usual"]["yield"]
    assert len(set(digests["usual"].values())) == 4
    for name, changed in (
        ("fewer", {"prior"}),
        ("altered", {"prior"}),
        ("data", {"shifted"}),
        ("moved", {"prior"}),  # the same events, but auxiliary values are thrown around another point
    ):
        assert {kind for kind in draws if digests[name][kind] != digests["usual"][kind]} == changed, name


def test_pools_of_before_the_prior_are_read(tmp_path):
    """Users' own pools have schema 1, without the key `prior`; digests of their toys are those of before."""
    for name in ("today", "before"):
        write_pools(tmp_path / name, pools(prior=()))
    manifest = json.loads((tmp_path / "before" / MANIFEST).read_text())
    del manifest["prior"]
    (tmp_path / "before" / MANIFEST).write_text(json.dumps(manifest | {"schema": 1}))
    today, before = (PoolSource.open(tmp_path / name) for name in ("today", "before"))
    usual = Draw("here", Treatment.PROFILED, 20, 30, (0.0, 0.0))
    for draw in (usual, replace(usual, nu=(1.0, -1.0)), replace(usual, signal="a4l", injected=3)):
        assert before.digest_of(draw) == today.digest_of(draw)
    np.testing.assert_array_equal(before.basis_events(), today.basis_events())
    with pytest.raises(PlanError, match="no pools for toys of the prior; set prior to false"):
        before.check(replace(usual, prior=True))


def test_pools_of_this_schema_name_the_prior(directory):
    manifest = json.loads((directory / MANIFEST).read_text())
    del manifest["prior"]
    (directory / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(FileFormatError, match=r"'prior' is missing"):
        PoolSource.open(directory)


def test_a_point_of_the_prior_without_a_pool_is_named(directory):
    there = open_pools(directory, pools_digest(directory))
    with pytest.raises(PlanError, match="the prior"):
        there.background((0.0, 0.0), prior=True)


def test_pools_that_change_under_a_run_are_refused(directory):
    source = PoolSource.open(directory)
    changed = pools()
    changed.basis[0, 0] += 1
    write_pools(directory, changed)
    with pytest.raises(FileFormatError, match="changed"):
        source.basis_events()


def flip(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [flip, lambda path: path.unlink(), lambda path: path.write_bytes(path.read_bytes()[:-1])],
    ids=["bit flip", "missing", "truncated"],
)
def test_a_damaged_array_is_named(directory, damage):
    damage(directory / "data_1_linear.npy")
    with pytest.raises(FileFormatError, match="data_1_linear"):
        verify(directory)


def test_an_array_that_cannot_be_mapped_is_named(directory):
    (directory / "reference_z.npy").write_bytes(b"")
    with pytest.raises(FileFormatError, match="reference_z"):
        open_pools(directory, pools_digest(directory))


def test_objects_in_an_array_are_refused(directory):
    np.save(directory / "reference_z.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(FileFormatError, match="reference_z"):
        open_pools(directory, pools_digest(directory))


@pytest.mark.parametrize("content", [None, "{", "[]", "{}", '{"schema": 99}'])
def test_a_bad_manifest_is_named(directory, content):
    if content is None:
        (directory / MANIFEST).unlink()
    else:
        (directory / MANIFEST).write_text(content)
    with pytest.raises(FileFormatError, match="manifest"):
        PoolSource.open(directory)


def test_an_incomplete_manifest_is_named(directory):
    manifest = json.loads((directory / MANIFEST).read_text())
    del manifest["reference"]["linear"]
    (directory / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(FileFormatError, match=r"reference\.linear' is missing"):
        open_pools(directory, pools_digest(directory))


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest: manifest["basis"].pop("file"),
        lambda manifest: manifest["data"][0].update(nu=["x"]),
        lambda manifest: manifest["reference"].update(yield_ratio=float("nan")),
        lambda manifest: manifest.update(signals=[]),
    ],
    ids=["no file", "nu is text", "NaN", "signals are a list"],
)
def test_an_impossible_manifest_is_named(directory, change):
    manifest = json.loads((directory / MANIFEST).read_text())
    change(manifest)
    (directory / MANIFEST).write_text(json.dumps(manifest))
    for verified in (True, False):
        with pytest.raises(FileFormatError, match=r"manifest\.json: cannot be read"):
            PoolSource.open(directory, verified)


def test_whoever_draws_verifies_the_arrays(directory):
    source = PoolSource.open(directory)
    flip(directory / "basis.npy")
    with pytest.raises(FileFormatError, match=r"basis\.npy: missing, or not what"):
        source.basis_events()


def test_arrays_are_read_once_per_process(directory, monkeypatch):
    verify(directory)
    monkeypatch.setattr(hashlib, "file_digest", lambda file, _: pytest.fail(f"{file} is read again"))
    verify(directory)


def test_pools_without_weights_have_the_digests_that_they_always_had(directory):
    """Toys are known by them: another digest would compute all toys of all runs anew."""
    assert pools_digest(directory) == "9455a9a46d8620b7b8e0"
    assert set(json.loads((directory / MANIFEST).read_text())["reference"]) == {
        "yield_ratio",
        "z",
        "linear",
        "quadratic",
    }


def test_weights_are_kept_in_full_precision_with_what_accept_reject_cost(tmp_path):
    wanted = weighted_pools()
    signed = np.where(np.arange(2000) % 5, 1.0, -1.0) * wanted.reference.weights
    wanted = replace(wanted, reference=replace(wanted.reference, signed=signed))
    write_pools(tmp_path, wanted)
    verify(tmp_path)
    found = open_pools(tmp_path, pools_digest(tmp_path))
    np.testing.assert_array_equal(found.reference.weights, wanted.reference.weights)
    np.testing.assert_array_equal(found.reference.signed, signed)
    assert found.reference.weights.dtype == np.float64
    assert isinstance(found.reference.weights.base, np.memmap)
    data = found.background((0.0,))
    assert data.weights is None
    assert data.cost == wanted.data[0.0,].cost
    assert (data.cost.events, data.cost.accepted, data.cost.negative) == (20_000, len(data), 0.0)
    assert read_manifest(tmp_path).costs == [("data", (0.0,), data.cost)]


def test_weights_are_part_of_the_identity_of_toys(tmp_path):
    draw = Draw("here", Treatment.PROFILED, 20, 30, (0.0,))
    digests = set()
    for name, factor in (("a", 1.0), ("b", 1.0 + 1e-12)):
        there = weighted_pools()
        there.reference.weights[0] *= factor
        write_pools(tmp_path / name, there)
        digests.add(PoolSource.open(tmp_path / name).digest_of(draw))
    assert len(digests) == 2


def test_effective_numbers():
    pool = weighted_pool(40_000, np.random.default_rng(1))
    w = pool.weights
    assert pool.effective == pytest.approx(w.sum() ** 2 / (w**2).sum())
    assert pool.effective_share == pool.effective / 40_000
    assert pool.worth == pool.effective
    # half of the weights 3, half of them -1: (n)^2 / (5 n) by the signed ones
    signed = np.tile([3.0, -1.0], 20_000)
    flat = Pool(replace(pool.sample, weights=np.ones(40_000)), signed=signed)
    assert flat.effective == 40_000
    assert flat.worth == pytest.approx(8_000)
    assert flat.signed_variance == pytest.approx(1 / 8_000 - 1 / 40_000)
    # accepted events keep what the signs add
    accepted = flat.unweighted(1)
    assert len(accepted) == 40_000
    assert accepted.cost.negative == 0.5
    assert accepted.signed_variance == flat.signed_variance
    plain = Pool(sample(50, 1))
    assert (plain.effective, plain.effective_share, plain.worth, plain.unevenness(10)) == (50, 1, 50, 0)


def test_events_are_accepted_in_proportion_to_their_weight():
    """Counts in quarters of the weights are binomial: the sum of four squared pulls below 30 (5e-6)."""
    pool = weighted_pool(40_000, np.random.default_rng(2))
    accepted = pool.unweighted(3)
    kept = {row.tobytes() for row in accepted.sample.z}
    chosen = np.array([row.tobytes() in kept for row in pool.sample.z])
    assert chosen.sum() == len(accepted)
    np.testing.assert_array_equal(accepted.sample.z, pool.sample.z[chosen])
    np.testing.assert_array_equal(accepted.sample.response.linear, pool.sample.response.linear[chosen])
    chance, pulls = pool.weights / pool.weights.max(), []
    for rows in np.array_split(np.argsort(pool.weights), 4):
        p = chance[rows]
        pulls.append((chosen[rows].sum() - p.sum()) / np.sqrt((p * (1 - p)).sum()))
    assert np.square(pulls).sum() < 30
    assert accepted.cost.share == len(accepted) / 40_000
    same = pool.unweighted(3)
    np.testing.assert_array_equal(same.sample.z, accepted.sample.z)
    plain = Pool(sample(50, 1))
    assert plain.unweighted(1) is plain


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_weights_that_are_no_density_are_refused(bad):
    weights = np.ones(50)
    weights[7] = bad
    with pytest.raises(DatasetError, match="positive and finite: smooth negative ones, and leave out events"):
        Pool(replace(sample(50, 1), weights=weights))


def test_weights_that_do_not_fit_are_refused():
    with pytest.raises(DatasetError, match=r"pool of 50 events has weights of the shape \(49,\)"):
        Pool(replace(sample(50, 1), weights=np.ones(49)))
    with pytest.raises(DatasetError, match=r"shape \(2,\)"):
        Pool(replace(sample(50, 1), weights=np.ones(50)), signed=np.ones(2))
    with pytest.raises(DatasetError, match="signed weights of a pool must be finite"):
        Pool(replace(sample(50, 1), weights=np.ones(50)), signed=np.full(50, np.nan))
    with pytest.raises(DatasetError, match="needs smoothed ones"):
        Pool(sample(50, 1), signed=np.ones(50))


def test_data_with_weights_are_refused(tmp_path):
    weighted = Pool(replace(sample(40, 3), weights=np.ones(40)))
    with pytest.raises(DatasetError, match="only the reference may have weights"):
        replace(pools(), data={(0.0, 0.0): weighted})
    with pytest.raises(DatasetError, match="data have no weights"):
        sample(5, 1).joined(weighted.sample)
    # also where somebody wrote them into a manifest
    write_pools(tmp_path, replace(pools(), reference=weighted))
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    manifest["data"][0]["weights"] = manifest["reference"]["weights"]
    (tmp_path / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(FileFormatError, match=r"manifest\.json: only the reference may have weights"):
        open_pools(tmp_path, pools_digest(tmp_path))
