from dataclasses import replace

import numpy as np
import pytest
from toy_world import Mishap, small_ensemble

from covad.errors import FileFormatError, ToyStoreError
from covad.storage.versions import Versions
from covad.toys.blocks import STORE_SCHEMA, decode, encode, read_footer
from covad.toys.ensembles import Block
from covad.toys.toy import BlockToys, run_block

NAME = "0123456789abcdef0123"
VERSIONS = Versions("0.1.0", "2.0.1", "1.13.0", "0.60.0", "not installed")


@pytest.fixture(scope="module")
def toys():
    """Done, failed and unconverged toys."""
    failing = run_block(Block(small_ensemble(Mishap("raise")), 0, 8)).toys
    return tuple(
        replace(toy, status="unconverged") if toy.index == 5 and not toy.failed else toy for toy in failing
    )


def block_of(toys):
    return BlockToys(tuple(toys), VERSIONS)


@pytest.fixture(scope="module")
def content(toys):
    return encode(NAME, block_of(toys))


def test_what_is_encoded_is_decoded_to_the_bit(toys, content):
    footer, found = decode(content, "block")
    assert found == block_of(toys)
    assert footer.versions == VERSIONS
    assert (footer.schema, footer.ensemble, footer.start, footer.stop) == (STORE_SCHEMA, NAME, 0, 8)
    assert footer.failed == {str(toy.index): toy.reason for toy in toys if toy.failed}
    assert footer.failed
    assert read_footer(content, "block") == footer


def test_equal_toys_give_equal_files(toys, content):
    assert encode(NAME, block_of(toys)) == content


@pytest.mark.parametrize("seed", range(4))
def test_no_flipped_bit_changes_a_toy_unnoticed(toys, content, seed):
    """500 random bits of the file: each is noticed, or does not touch the toys (a name, an empty field)."""
    messages = []
    for bit in np.random.default_rng(seed).choice(8 * len(content), 500, replace=False):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << (bit % 8)
        try:
            _, found = decode(bytes(damaged), "block")
            assert found == block_of(toys)
        except (FileFormatError, ToyStoreError) as failure:  # the number of the schema can be hit too
            messages.append(str(failure))
    assert len(messages) > 350
    assert all(message.startswith("block: ") and "\n" not in message for message in messages)


def test_every_truncation_is_noticed(content):
    for size in range(0, len(content), 61):
        with pytest.raises(FileFormatError):
            decode(content[:size], "block")
        with pytest.raises(FileFormatError):
            read_footer(content[:size], "block")


def test_another_schema_is_named(toys, content, monkeypatch):
    monkeypatch.setattr("covad.toys.blocks.STORE_SCHEMA", STORE_SCHEMA + 1)
    said = f"^block: has schema {STORE_SCHEMA} .*, but {STORE_SCHEMA + 1} was expected: .* new run directory$"
    for read in (decode, read_footer):
        with pytest.raises(ToyStoreError, match=said):
            read(content, "block")


@pytest.mark.parametrize("name", ["seed", "events"])
def test_colliding_seeds_are_refused(toys, name):
    """Negative control: two toys made from one seed, as when seeds come from a clock."""
    good = [toy for toy in toys if not toy.failed]
    twin = replace(good[1], **{name: getattr(good[0], name)})
    with pytest.raises(ToyStoreError, match=f"same {name}"):
        encode(NAME, block_of(twin if toy is good[1] else toy for toy in toys))


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_nothing_that_is_not_finite_is_stored(toys, number):
    with pytest.raises(ValueError):
        encode(NAME, block_of((replace(toys[0], t=number), *toys[1:])))
