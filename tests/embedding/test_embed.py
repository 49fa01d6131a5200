from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from encoders import make_encoder

from covad.embedding.embed import EmbeddingCache, embed, encode
from covad.errors import FileFormatError
from covad.events.layout import Events
from covad.events.selection import Selection
from covad.events.systematics import JetEnergyScale, LeptonEnergyScale, shift_events

SELECTION = Selection(trigger_minimum=40.0)
SCALES = (JetEnergyScale(), LeptonEnergyScale(sigma=0.05))


def test_a_stream_gives_the_same_as_the_whole(events: Events) -> None:
    encoder = make_encoder(events)
    whole = embed(encoder, [events], SCALES, [1.0, -1.0], SELECTION)
    pieces = embed(encoder, [events[:900], events[900:]], SCALES, [1.0, -1.0], SELECTION)
    np.testing.assert_allclose(pieces.z, whole.z, atol=1e-6)
    assert np.array_equal(pieces.rows, whole.rows)
    assert pieces.yield_ratio == pytest.approx(whole.yield_ratio)
    shifted = shift_events(events, SCALES, [1.0, -1.0], SELECTION)
    np.testing.assert_allclose(whole.z, encode(encoder, shifted.events.particles), atol=1e-6)
    assert whole.z.dtype == np.float32


def test_cache_is_keyed_by_model_events_and_nu(events: Events, tmp_path: Path) -> None:
    encoder = make_encoder(events)
    cache = EmbeddingCache(tmp_path, encoder, "digest-1", SCALES, SELECTION)
    first = cache.get("events-1", [events], [1.0, 0.0])
    again = cache.get("events-1", [], [1.0, 0.0])
    assert np.array_equal(first.z, again.z)
    assert first.yield_ratio == again.yield_ratio
    assert len(list(tmp_path.iterdir())) == 1
    retrained = replace(cache, encoder_digest="digest-2")
    recut = replace(cache, selection=Selection())
    for other, digest, nu in (
        (cache, "events-2", [1.0, 0.0]),
        (cache, "events-1", [0.5, 0.0]),
        (retrained, "events-1", [1.0, 0.0]),
        (recut, "events-1", [1.0, 0.0]),
    ):
        before = len(list(tmp_path.iterdir()))
        other.get(digest, [events[:100]], nu)
        assert len(list(tmp_path.iterdir())) == before + 1


def test_a_damaged_cache_is_named(events: Events, tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path, make_encoder(events), "digest", (), SELECTION)
    cache.get("events", [events], [])
    next(tmp_path.iterdir()).write_bytes(b"nonsense")
    with pytest.raises(FileFormatError, match="damaged"):
        cache.get("events", [events], [])


def test_no_gradients_are_kept(events: Events) -> None:
    encoder = make_encoder(events)
    z = encode(encoder, events.particles[:0])
    assert z.shape == (0, 3)
    assert all(p.grad is None for p in encoder.parameters())
    assert torch.is_grad_enabled()
