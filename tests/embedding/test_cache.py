from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from encoders import make_encoder

from covad.embedding.embed import EmbeddingCache
from covad.errors import FileFormatError
from covad.events.layout import Events
from covad.events.selection import Selection
from covad.events.systematics import JetEnergyScale, LeptonEnergyScale

SELECTION = Selection(trigger_minimum=40.0)
SCALES = (JetEnergyScale(), LeptonEnergyScale(sigma=0.05))


def test_cache_is_keyed_by_model_events_and_nu(events: Events, tmp_path: Path) -> None:
    encoder = make_encoder(events)
    cache = EmbeddingCache(tmp_path, encoder, "digest-1", SCALES, SELECTION)
    nu = (1.0, 0.0)
    first = cache.family("events-1", [events], [nu])[nu]
    again = cache.family("events-1", [], [nu])[nu]
    assert np.array_equal(first.z, again.z)
    assert first.yield_ratio == again.yield_ratio
    assert len(list(tmp_path.iterdir())) == 1
    retrained = replace(cache, encoder_digest="digest-2")
    recut = replace(cache, selection=Selection())
    for other, digest, nu in (
        (cache, "events-2", (1.0, 0.0)),
        (cache, "events-1", (0.5, 0.0)),
        (retrained, "events-1", (1.0, 0.0)),
        (recut, "events-1", (1.0, 0.0)),
    ):
        before = len(list(tmp_path.iterdir()))
        other.family(digest, [events[:100]], [nu])
        assert len(list(tmp_path.iterdir())) == before + 1


def test_a_damaged_cache_is_named(events: Events, tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path, make_encoder(events), "digest", (), SELECTION)
    cache.family("events", [events], [()])
    next(tmp_path.iterdir()).write_bytes(b"nonsense")
    with pytest.raises(FileFormatError, match="damaged"):
        cache.family("events", [events], [()])


def test_only_what_is_missing_is_embedded(events: Events, tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path, make_encoder(events), "digest", SCALES, SELECTION)
    whole = cache.family("events", [events], [(0.0, 0.0), (1.0, 0.0)])
    next(tmp_path.iterdir()).unlink()
    again = cache.family("events", [events], [(0.0, 0.0), (1.0, 0.0)])
    for nu in whole:
        np.testing.assert_allclose(again[nu].z, whole[nu].z, atol=1e-6)
        assert np.array_equal(again[nu].rows, whole[nu].rows)
