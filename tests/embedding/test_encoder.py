from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from encoders import UNTRAINED_KINDS, make_encoder
from samples import random_events
from torch.nn.functional import scaled_dot_product_attention

from covad.embedding.encoder import Encoder
from covad.embedding.encoders import load_encoder
from covad.embedding.scaling import InputScaling
from covad.embedding.settings import EncoderSettings
from covad.embedding.transformer import group_by_multiplicity
from covad.errors import CovadError, FileFormatError
from covad.events.layout import Collection, EventLayout, Events
from covad.events.processes import ADC2021_LAYOUT
from covad.storage.tensors import save_weights


def padded(encoder: Encoder, particles: np.ndarray) -> torch.Tensor:
    """The same encoder the slow way: all slots of all events, with a mask on empty ones."""
    objects = torch.from_numpy(particles)
    present = objects[..., 0] > 0
    kind = torch.from_numpy(encoder.layout.slot_collection).expand(len(particles), -1)
    filled = torch.where(present[..., None], objects, torch.ones(()))
    tokens = encoder.lift(encoder.scaling.inputs(filled, kind, encoder.layout)) + encoder.kinds(kind)
    x = torch.cat([encoder.cls.expand(len(tokens), 1, -1), tokens], dim=1)
    seen = torch.cat([torch.ones(len(tokens), 1, dtype=torch.bool), present], dim=1)
    for b in encoder.blocks:
        n, length, d = x.shape
        normed = b.norm1(x)
        q, k, v = (
            part.view(n, length, b.heads, -1).transpose(1, 2)
            for part in (b.query(normed), *b.key_value(normed).chunk(2, dim=2))
        )
        mixed = scaled_dot_product_attention(q, k, v, attn_mask=seen[:, None, None, :])
        x = x + b.merge(mixed.transpose(1, 2).reshape(n, length, d))
        x = x + b.narrow(torch.nn.functional.gelu(b.widen(b.norm2(x))))
    return encoder.out(encoder.norm(x[:, 0]))


@torch.no_grad()
def test_trimmed_batches_give_the_padded_result(events: Events) -> None:
    encoder = make_encoder(events)
    np.testing.assert_allclose(encoder(events.particles), padded(encoder, events.particles), atol=2e-6)


@pytest.mark.parametrize("kind", UNTRAINED_KINDS)
@torch.no_grad()
def test_an_event_does_not_depend_on_its_batch(events: Events, kind: str) -> None:
    encoder = make_encoder(events, settings=UNTRAINED_KINDS[kind])
    whole = encoder(events.particles)
    order = np.random.default_rng(0).permutation(len(events))
    np.testing.assert_allclose(encoder(events.particles[order]), whole[order], atol=1e-6)
    np.testing.assert_allclose(encoder(events.particles[:1]), whole[:1], atol=1e-6)
    assert encoder(events.particles[:0]).shape == (0, 3)


@pytest.mark.parametrize("kind", UNTRAINED_KINDS)
@torch.no_grad()
def test_an_event_without_any_object_is_encoded(kind: str) -> None:
    events = random_events(50, seed=2)
    particles = events.particles.copy()
    particles[7] = 0
    assert torch.isfinite(make_encoder(events, settings=UNTRAINED_KINDS[kind])(particles)).all()


def test_groups_hold_every_event_once(events: Events) -> None:
    groups = group_by_multiplicity(events.particles, events.layout)
    rows = np.concatenate([g[0] for g in groups])
    assert sorted(rows.tolist()) == list(range(len(events)))
    for _, objects, kind in groups:
        assert (objects[..., 0] > 0).all()
        assert objects.shape[:2] == kind.shape


@pytest.mark.parametrize("kind", UNTRAINED_KINDS)
@torch.no_grad()
def test_other_layouts_and_features(tmp_path: Path, kind: str) -> None:
    layout = EventLayout((Collection("track", 5, ("pt", "eta", "d0")), Collection("tau", 2, ("pt", "phi"))))
    events = random_events(100, seed=4, layout=layout)
    encoder = make_encoder(events, settings=UNTRAINED_KINDS[kind])
    z = encoder(events.particles)
    assert z.shape == (100, 3)
    encoder.save(tmp_path / "e.safetensors", {})
    assert torch.equal(load_encoder(tmp_path / "e.safetensors", layout)(events.particles), z)


def test_numbers_of_objects_are_scaled_where_they_are_told(events: Events) -> None:
    assert InputScaling.fit(events).numbers is None
    scaling = InputScaling.fit(events, counted=True)
    number = events.present("jet").sum(axis=1)
    assert scaling.numbers[:, 3] == pytest.approx([number.mean(), number.std()], rel=1e-5)
    told = scaling.multiplicities(torch.from_numpy(events.particles[..., 0] > 0), events.layout)
    assert told[:, 3].numpy() == pytest.approx((number - number.mean()) / number.std(), abs=1e-5)


def test_projector_gives_unit_vectors(events: Events) -> None:
    encoder = make_encoder(events)
    assert encoder.project(torch.randn(5, 3)).norm(dim=1).tolist() == pytest.approx([1.0] * 5)


def test_scaling_is_fitted_on_present_objects(events: Events) -> None:
    scaling = InputScaling.fit(events)
    jets = events.objects("jet")[events.present("jet")].astype(np.float64)
    assert scaling.centre[3, 0] == pytest.approx(np.log(jets[:, 0]).mean(), rel=1e-5)
    assert scaling.width[3, 1] == pytest.approx(jets[:, 1].std(), rel=1e-5)


@torch.no_grad()
def test_stored_encoders_come_back_the_same(events: Events, tmp_path: Path) -> None:
    encoder = make_encoder(events)
    path = tmp_path / "encoder.safetensors"
    encoder.save(path, {"events": "abc"})
    again = load_encoder(path, ADC2021_LAYOUT)
    assert torch.equal(again(events.particles), encoder(events.particles))


def test_files_that_are_no_encoders_are_refused(events: Events, tmp_path: Path) -> None:
    path = tmp_path / "encoder.safetensors"
    make_encoder(events).save(path, {})
    content = path.read_bytes()
    with pytest.raises(FileFormatError, match="another event layout"):
        load_encoder(path, EventLayout((Collection("jet", 2),)))
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(FileFormatError, match="damaged"):
        load_encoder(path)
    torch.save({"a": torch.ones(1)}, path)
    with pytest.raises(FileFormatError, match="not a covad model file"):
        load_encoder(path)
    save_weights(path, "response", {"a": torch.ones(1)}, {})
    with pytest.raises(FileFormatError, match="kind 'response'"):
        load_encoder(path)
    for settings in ({}, {"layout": "jets"}, {"layout": ADC2021_LAYOUT.describe(), "encoder": {"width": 0}}):
        save_weights(path, "encoder", {"a": torch.ones(1)}, settings)
        with pytest.raises(FileFormatError, match="incomplete"):
            load_encoder(path)
    with pytest.raises(FileFormatError, match="no such model file"):
        load_encoder(tmp_path / "nothing.safetensors")


@pytest.mark.parametrize("wrong", [{"heads": 5}, {"layers": 0}])
def test_impossible_sizes_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(CovadError):
        EncoderSettings(**wrong)


def test_inputs_are_scaled_by_the_size_of_weights(events: Events) -> None:
    """Ones are as none, and a weight of -3 is three events."""
    plain = InputScaling.fit(events)
    ones = InputScaling.fit(replace(events, weights=np.ones(len(events))))
    number = np.random.default_rng(1).integers(0, 4, len(events))
    signs = np.where(np.arange(len(events)) % 3 == 0, -1.0, 1.0)
    weighted = InputScaling.fit(replace(events, weights=signs * number))
    repeated = InputScaling.fit(events[np.repeat(np.arange(len(events)), number)])
    for one, other in ((ones, plain), (weighted, repeated)):
        np.testing.assert_allclose(one.centre, other.centre, atol=1e-5)
        np.testing.assert_allclose(one.width, other.width, rtol=1e-5)
    assert not np.allclose(weighted.centre, plain.centre, atol=1e-5)
    without = replace(events, weights=np.where(events.present("jet").any(axis=1), 0.0, 1.0))
    (jet,) = (i for i, c in enumerate(events.layout.collections) if c.name == "jet")
    assert InputScaling.fit(without).width[jet].tolist() == [1.0] * len(events.layout.features)
