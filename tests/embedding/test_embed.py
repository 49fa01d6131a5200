from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from encoders import make_encoder
from samples import random_events

from covad.embedding.embed import EmbeddingCache, embed_family, encode
from covad.events.layout import Events
from covad.events.selection import Selection
from covad.events.systematics import (
    Alternative,
    JetEnergyResolution,
    JetEnergyScale,
    LeptonEnergyScale,
    Nuisance,
    ProcessNormalisation,
    Restricted,
    SeparateSamples,
    shift_events,
)
from covad.events.systematics.samples import sides
from covad.response.pairs import Pairs

SELECTION = Selection(trigger_minimum=40.0)
SCALES = (JetEnergyScale(), LeptonEnergyScale(sigma=0.05))


def test_a_stream_gives_the_same_as_the_whole(events: Events) -> None:
    encoder = make_encoder(events)
    nu = (1.0, -1.0)
    whole, pieces = (
        embed_family(encoder, stream, SCALES, [nu], SELECTION)[nu]
        for stream in ([events], [events[:900], events[900:]])
    )
    np.testing.assert_allclose(pieces.z, whole.z, atol=1e-6)
    assert np.array_equal(pieces.rows, whole.rows)
    assert pieces.yield_ratio == pytest.approx(whole.yield_ratio)
    shifted = shift_events(events, SCALES, nu, SELECTION)
    np.testing.assert_allclose(whole.z, encode(encoder, shifted.events.particles), atol=1e-6)
    assert whole.z.dtype == np.float32


def test_a_family_is_its_members(events: Events) -> None:
    """Also where events pass the selection at one point only."""
    encoder = make_encoder(events)
    points = [(0.0, 0.0), (1.0, 0.0), (0.0, -2.0), (0.0, 2.0)]
    family = embed_family(encoder, [events[:700], events[700:]], SCALES, points, SELECTION)
    assert list(family) == points
    for nu, member in family.items():
        alone = embed_family(encoder, [events], SCALES, [nu], SELECTION)[nu]
        np.testing.assert_allclose(member.z, alone.z, atol=1e-6)
        assert np.array_equal(member.rows, alone.rows)
        assert member.yield_ratio == pytest.approx(alone.yield_ratio)


def test_what_does_not_move_keeps_its_bits(events: Events) -> None:
    points = [(0.0,), (1.0,)]
    family = embed_family(make_encoder(events), [events], (JetEnergyScale(),), points, Selection())
    before, after = (shift_events(events, (JetEnergyScale(),), nu).events.particles for nu in points)
    still = (before == after).all(axis=(1, 2))
    assert 0 < still.sum() < len(events)
    assert np.array_equal(family[points[0]].z[still], family[points[1]].z[still])


def test_no_gradients_are_kept(events: Events) -> None:
    encoder = make_encoder(events)
    z = encode(encoder, events.particles[:0])
    assert z.shape == (0, 3)
    assert all(p.grad is None for p in encoder.parameters())
    assert torch.is_grad_enabled()


def test_cache_is_keyed_by_model_events_and_nu(events: Events, tmp_path: Path) -> None:
    encoder = make_encoder(events)
    cache = EmbeddingCache(tmp_path, encoder, SCALES, SELECTION, "recipe-1")
    nu = (1.0, 0.0)
    first = cache.family([events], [nu])[nu]
    again = cache.family([], [nu])[nu]
    assert np.array_equal(first.z, again.z)
    assert first.yield_ratio == again.yield_ratio
    assert len(list(tmp_path.iterdir())) == 1
    for other, nu in ((cache, (0.5, 0.0)), (replace(cache, recipe="recipe-2"), (1.0, 0.0))):
        before = len(list(tmp_path.iterdir()))
        other.family([events[:100]], [nu])
        assert len(list(tmp_path.iterdir())) == before + 1


@pytest.mark.parametrize("damage", ["nonsense", "flipped bit", "cut short", "of another nu"])
def test_a_damaged_cache_is_made_anew(
    events: Events, tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    cache = EmbeddingCache(tmp_path, make_encoder(events), SCALES, SELECTION, "recipe")
    nu, other = (1.0, 0.0), (2.0, 0.0)
    whole = cache.family([events], [nu])[nu]
    file = next(tmp_path.iterdir())
    content = bytearray(file.read_bytes())
    if damage == "flipped bit":
        content[-5] ^= 64
    elif damage == "of another nu":
        cache.family([events], [other])
        content = bytearray(next(path for path in tmp_path.iterdir() if path != file).read_bytes())
    file.write_bytes({"nonsense": b"nonsense", "cut short": content[:-1]}.get(damage, content))
    assert np.array_equal(cache.family([events], [nu])[nu].z, whole.z)
    assert np.array_equal(cache.family([], [nu])[nu].z, whole.z)
    assert ("it is made anew" in caplog.text) == (damage != "of another nu")


def test_only_what_is_missing_is_embedded(events: Events, tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path, make_encoder(events), SCALES, SELECTION, "recipe")
    whole = cache.family([events], [(0.0, 0.0), (1.0, 0.0)])
    next(tmp_path.iterdir()).unlink()
    again = cache.family([events], [(0.0, 0.0), (1.0, 0.0)])
    assert list(again) == list(whole)
    for nu in whole:
        np.testing.assert_allclose(again[nu].z, whole[nu].z, atol=1e-6)
        assert np.array_equal(again[nu].rows, whole[nu].rows)


def test_weights_stay_with_their_events(events: Events) -> None:
    """They are those of the events at every nu, and the yield ratio is that of their sums."""
    weights = np.random.default_rng(1).normal(1.0, 1.0, len(events))
    scales = (LeptonEnergyScale(sigma=0.05),)
    halves = [replace(events, weights=weights)[rows] for rows in (slice(0, 100), slice(100, None))]
    family = embed_family(make_encoder(events), halves, scales, [(0.0,), (1.0,)], SELECTION)
    for embedded in family.values():
        assert np.array_equal(embedded.weights, weights[embedded.rows])
    ratio = family[1.0,].weights.sum() / family[0.0,].weights.sum()
    assert family[1.0,].yield_ratio == pytest.approx(ratio)
    assert Pairs.align(family[0.0,], {(1.0,): family[1.0,]}).log_yield((1.0,)) == pytest.approx(np.log(ratio))


class Counting:
    """An encoder that counts what it encodes."""

    def __init__(self, events: Events) -> None:
        self.encoder, self.n_encoded = make_encoder(events), 0
        self.outputs = self.encoder.outputs

    def encode(self, particles: np.ndarray) -> np.ndarray:
        self.n_encoded += len(particles)
        return self.encoder.encode(particles)


def test_weights_alone_are_not_encoded_again(events: Events) -> None:
    """Also beside a shift that is not the identity at nu = 0."""
    nuisances = (
        Nuisance("rate", (Restricted(ProcessNormalisation("rate", 0.3), ("qcd",)),)),
        Nuisance("smearing", (JetEnergyResolution(),)),
        Nuisance("lumi", (ProcessNormalisation("lumi", 0.02),)),
    )
    points = [(0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (-2.0, 0.0, 1.0), (0.0, 0.0, -1.0)]
    encoder = Counting(events)
    family = embed_family(encoder, [events[:700], events[700:]], nuisances, points, SELECTION)
    nominal = family[points[0]]
    assert encoder.n_encoded == len(nominal.rows)
    for rate, _, lumi in points:
        found = family[rate, 0.0, lumi]
        assert np.array_equal(found.z, nominal.z)
        expected = 1.3 ** (rate * (events.process[nominal.rows] == 1)) * 1.02**lumi
        np.testing.assert_allclose(found.weights, expected, rtol=1e-13)
        assert found.yield_ratio == pytest.approx(expected.mean())


@pytest.mark.parametrize("one_sided", [False, True])
def test_separate_samples_take_the_place_of_their_process(events: Events, one_sided: bool) -> None:
    """They are shifted by the other nuisances, match no event, and are encoded once for both sides."""
    labels, weights = np.ones(500, dtype=np.int16), np.full(500, 2.0)
    others = replace(random_events(500, seed=8), process=labels, weights=weights)
    nuisances = (
        Nuisance("scale", (JetEnergyScale(),)),
        Nuisance("model", (SeparateSamples("model", "qcd", one_sided),)),
    )
    alternatives = [
        Alternative(1, factors, lambda: iter([others[:200], others[200:]]))
        for factors in sides(one_sided).values()
    ]
    points = [(0.0, 0.0), (0.0, 1.0), (0.0, -1.0), (1.0, 1.0)]
    encoder = Counting(events)
    family = embed_family(encoder, [events], nuisances, points, SELECTION, alternatives)
    plain = embed_family(encoder.encoder, [events], nuisances[:1], [(0.0,), (1.0,)], SELECTION)
    assert np.array_equal(family[0.0, 0.0].z, plain[0.0,].z)
    for nu in points[1:]:
        found, (scale, model) = family[nu], nu
        mine = found.rows < 0
        alone = shift_events(others, nuisances[:1], [scale], SELECTION)
        sign = -1.0 if one_sided and model < 0 else 1.0
        np.testing.assert_array_equal(found.weights[mine], sign * alone.weights)
        np.testing.assert_allclose(found.z[mine], encode(encoder.encoder, alone.events.particles), atol=1e-6)
        nominal = plain[scale,]
        np.testing.assert_array_equal(found.rows[~mine], nominal.rows)
        left = np.where(events.process[nominal.rows] == 1, 1.0 - sign, 1.0)
        np.testing.assert_array_equal(found.weights[~mine], left)
        assert found.yield_ratio == pytest.approx(found.weights.sum() / len(family[0.0, 0.0].rows))


def test_a_cache_keeps_separate_samples(tmp_path: Path, events: Events) -> None:
    model = (Nuisance("model", (SeparateSamples("model", "qcd"),)),)
    alternative = Alternative(0, {1.0: 1.0}, lambda: iter([events[:50]]))
    cache = EmbeddingCache(tmp_path, make_encoder(events), model, SELECTION, "recipe")
    made = cache.family([events], [(0.0,), (1.0,)], [alternative])
    stored = cache.family([], [(0.0,), (1.0,)])
    for nu, found in made.items():
        np.testing.assert_array_equal(stored[nu].rows, found.rows)
        np.testing.assert_array_equal(stored[nu].weights, found.weights)
    assert (made[1.0,].rows < 0).any()
