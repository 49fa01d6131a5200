"""Spaces: what they make of events, and that their files bring them back."""

from pathlib import Path

import numpy as np
import pytest
from encoders import make_encoder
from samples import random_events

from covad.embedding import spaces
from covad.embedding.embed import encode
from covad.embedding.encoders import load_encoder
from covad.embedding.spaces import JoinedSpace, ObservableSpace
from covad.errors import CovadError, FileFormatError, UnknownNameError
from covad.events.layout import Events
from covad.events.observables import Observables
from covad.events.systematics import BadEventError

NAMES = ("log_met", "ht", "n_jets")


@pytest.fixture
def events() -> Events:
    return random_events(300, 1)


@pytest.fixture
def plain(events: Events) -> ObservableSpace:
    return ObservableSpace(events.layout, Observables(NAMES))


def test_a_joined_space_is_its_parts_side_by_side(events: Events, plain: ObservableSpace) -> None:
    encoder = make_encoder(events)
    joined = JoinedSpace({"learned": encoder, "plain": plain})
    z = encode(joined, events.particles)
    assert z.dtype == np.float32
    assert z.shape == (300, joined.outputs) == (300, encoder.outputs + 3)
    np.testing.assert_array_equal(z[:, : encoder.outputs], encode(encoder, events.particles))
    np.testing.assert_array_equal(z[:, encoder.outputs :], encode(plain, events.particles))
    assert joined.columns[0] == "learned.z0"
    assert joined.columns[-3:] == ("plain.log_met", "plain.ht", "plain.n_jets")


def test_files_bring_spaces_back(events: Events, plain: ObservableSpace, tmp_path: Path) -> None:
    file, joined_file, encoder_file = (tmp_path / name for name in ("plain", "joined", "encoder"))
    encoder = make_encoder(events)
    encoder.save(encoder_file, {})
    plain.save(file, None, events.particles)
    JoinedSpace({"a": encoder, "b": plain}).save(joined_file)
    again = ObservableSpace.load(file, None, "here")
    parts = {"a": load_encoder(encoder_file), "b": again}
    joined = JoinedSpace.load(joined_file, parts)
    np.testing.assert_array_equal(again.encode(events.particles), plain.encode(events.particles))
    assert joined.columns[-1] == "b.n_jets"
    with pytest.raises(FileFormatError, match="joins other spaces than b, a"):
        JoinedSpace.load(joined_file, {"b": again, "a": encoder})


def test_a_file_of_another_version_or_kind_is_refused(
    events: Events, plain: ObservableSpace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain.save(tmp_path / "plain", None, events.particles)
    with pytest.raises(FileFormatError, match="of kind 'observables', not 'encoder'"):
        load_encoder(tmp_path / "plain")
    monkeypatch.setattr(spaces, "OBSERVABLES_VERSION", 2)
    with pytest.raises(FileFormatError, match="has version 1 of the observables, this covad has 2"):
        ObservableSpace.load(tmp_path / "plain", None, "here")


def test_unknown_observables_in_a_file_are_named(events: Events, tmp_path: Path) -> None:
    gone = ObservableSpace(events.layout, Observables(("ht", "gone")))
    gone.save(tmp_path / "plain", None, events.particles)
    with pytest.raises(UnknownNameError, match="here: there is no observable 'gone'"):
        ObservableSpace.load(tmp_path / "plain", None, "here")


def test_a_bad_event_has_its_number_among_all(events: Events, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covad.embedding.embed.BATCH", 100)

    def at_marked(given: Events) -> np.ndarray:
        return np.where(given.particles[:, :1, 0] == 7.5, np.inf, 1.0)

    particles = events.particles.copy()
    particles[230, 0, 0] = 7.5
    space = ObservableSpace(events.layout, Observables(("a",), at_marked, "mine"))
    with pytest.raises(BadEventError, match="observable 'a' is inf in event 230"):
        encode(space, particles)


MODULE = """
from pathlib import Path

def scaled(events):
    return events.particles[:, :1, 0] * float(Path(__file__).with_name("factor.txt").read_text())
"""


def test_a_function_that_reads_another_file_than_before_is_refused(events: Events, tmp_path: Path) -> None:
    """Its code is the same, so that nothing else would tell: z would no longer be that of the pools."""
    (tmp_path / "reads_a_file.py").write_text(MODULE)
    factor = tmp_path / "factor.txt"
    factor.write_text("1")
    observables = Observables.make(("a",), "reads_a_file:scaled", tmp_path, "source.spaces.mine")
    ObservableSpace(events.layout, observables).save(
        tmp_path / "space", "reads_a_file:scaled", events.particles
    )
    ObservableSpace.load(tmp_path / "space", tmp_path, "source.spaces.mine")
    factor.write_text("1.3")
    with pytest.raises(
        CovadError, match=r"^source.spaces.mine: observable 'a' was .* and is .* now: something"
    ):
        ObservableSpace.load(tmp_path / "space", tmp_path, "source.spaces.mine")
