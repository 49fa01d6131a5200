import json
import os
from pathlib import Path

import pytest

from covad.errors import DamagedFileError, UnfinishedRunError
from covad.storage.ledger import Product

RECIPE = {"seed": 1, "sizes": (2, 3)}


@pytest.fixture
def product(tmp_path: Path) -> Product:
    made = Product(tmp_path, "pools", "pools/space", RECIPE)
    made.path.mkdir(parents=True)
    for name in ("a.npy", "b.npy"):
        (made.path / name).write_bytes(b"0123456789")
    made.note(sorted(made.path.iterdir()))
    return made


def test_a_product_is_whole_as_long_as_recipe_and_files_are_the_same(product: Product) -> None:
    assert product.made
    assert product.whole()
    assert product.verified() == product.path
    changed = Product(product.run, product.stage, product.name, {**RECIPE, "seed": 2})
    assert not changed.made
    assert changed.digest is None
    with pytest.raises(UnfinishedRunError, match="the stage 'pools' has not run yet"):
        changed.verified()
    assert not Product(product.run, product.stage, product.name, None).made


@pytest.mark.parametrize("content", [b"0123456788", b"01234", b"", b"01234567890"])
def test_a_changed_file_is_refused_even_at_the_same_time_of_modification(
    product: Product, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    file = product.path / "b.npy"
    state = file.stat()
    file.write_bytes(content)
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    with pytest.raises(DamagedFileError, match=r"b\.npy: is not what the stage 'pools' made; `covad"):
        product.verified()
    assert product.verified(f"{product.name}/a.npy")
    assert not product.whole()
    assert caplog.messages[-1].endswith(
        "b.npy: is not what the stage 'pools' made; `covad run` makes it anew"
    )


def test_a_file_that_is_gone_is_not_made(product: Product) -> None:
    (product.path / "a.npy").unlink()
    assert not product.made
    assert not product.whole()


def test_the_digest_follows_the_content(product: Product) -> None:
    before = product.digest
    (product.path / "a.npy").write_bytes(b"other")
    product.note(sorted(product.path.iterdir()))
    assert product.digest not in (None, before)


def test_every_flip_in_a_note_is_noticed(product: Product) -> None:
    note = product.run / "made/pools/space.json"
    content = note.read_bytes()
    for position in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 7
        note.write_bytes(damaged)
        try:
            assert product.verified() == product.path
            assert json.loads(damaged) == json.loads(content)  # white space
        except (DamagedFileError, UnfinishedRunError):
            assert not product.whole()


def with_seed(product: Product, seed: int) -> Product:
    return Product(product.run, product.stage, product.name, {**RECIPE, "seed": seed})


def make(product: Product, content: bytes) -> None:
    for name in ("a.npy", "b.npy"):
        (product.path / name).write_bytes(content)
    product.note(sorted(product.path.iterdir()))


def test_files_of_another_recipe_are_set_aside_and_come_back(product: Product) -> None:
    other = with_seed(product, 2)
    assert not product.make_room()
    assert other.make_room()
    assert list(product.path.iterdir()) == []
    assert not product.made
    make(other, b"the other")
    assert not other.make_room()
    assert not product.make_room()  # it has come back, and the other was set aside
    assert (product.path / "a.npy").read_bytes() == b"0123456789"
    assert [file.name for file in (product.run / "aside").rglob("a.npy")] == ["a.npy"]
    assert not other.make_room()
    assert (product.path / "a.npy").read_bytes() == b"the other"


@pytest.mark.parametrize("way", ["aside", "back"])
def test_a_move_that_was_interrupted_goes_on(
    product: Product, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = with_seed(product, 2)
    if way == "back":
        assert other.make_room()
        make(other, b"the other")
    wanted = product if way == "back" else other
    replace, moved = Path.replace, []

    def killed(path: Path, target: Path) -> Path:
        moved.append(path)
        if len(moved) == (5 if way == "back" else 2):  # three files of the other go first
            raise KeyboardInterrupt
        return replace(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            wanted.make_room()
    assert wanted.make_room() == (way == "aside")
    if way == "aside":
        make(other, b"the other")
    assert not product.make_room()
    assert not other.make_room()
    assert not product.make_room()
    assert {file.read_bytes() for file in product.path.iterdir()} == {b"0123456789"}


def test_a_damaged_file_is_no_reason_to_set_aside(product: Product) -> None:
    (product.path / "a.npy").write_bytes(b"x")
    assert product.make_room()
    assert not (product.run / "aside").exists()


@pytest.mark.parametrize("content", ["[]", "1", "{"])
def test_a_note_that_is_no_object_makes_its_product_anew(
    product: Product, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    (product.run / "made/pools/space.json").write_text(content)
    assert product.make_room()
    assert "delete it and run again: what it tells of is made anew" in caplog.text


def test_the_note_of_another_product_moves_nothing(
    product: Product, caplog: pytest.LogCaptureFixture
) -> None:
    other = Product(product.run, "checks", "checks/space.json", {"seed": 3})
    other.path.parent.mkdir()
    other.path.write_bytes(b"{}")
    other.note()
    notes = [product.run / "made" / f"{found.name}.json" for found in (product, other)]
    first, second = (note.read_bytes() for note in notes)
    notes[0].write_bytes(second)
    notes[1].write_bytes(first)
    for damaged in (product, other):
        with pytest.raises(DamagedFileError, match="is the note of another product"):
            damaged.verified()
        assert damaged.make_room()
    assert other.path.exists()
    assert len(list(product.path.iterdir())) == 2
    assert not (product.run / "aside").exists()
    assert caplog.text.count("is made anew") == caplog.text.count("is the note of another product") == 4
