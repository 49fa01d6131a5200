"""Checks of a space return from their file as they were written."""

import json

import pytest
import report_world

from covad.errors import FileFormatError
from covad.runs.checks import read_checks
from covad.storage.ledger import Product
from covad.storage.records import plain, write_record

FILE = "checks/covariant_linear.json"


@pytest.fixture(scope="module")
def checks():
    evidence = report_world.evidence((("covariant", "profiled", 1),), injections=())
    return evidence.checks["covariant_linear"]


def test_checks_return_as_they_were(tmp_path, checks):
    product = Product(tmp_path, "checks", FILE, {})
    assert read_checks(product) is None
    write_record(product.path, checks)
    assert read_checks(product) is None  # nobody knows what it was made from
    product.note()
    assert read_checks(product) == checks


def test_a_summary_of_a_validation_leaves_the_counts_out(checks):
    first = checks.comparisons[0]
    assert plain(first.summary) == {
        key: value for key, value in plain(first).items() if key in plain(first.summary)
    }
    assert not hasattr(first.summary, "observed")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"probe": None}, "probe: a JSON object was expected"),
        ({"reach": {"points": [{"nu": [1.0]}]}}, "the key 'reach.average' is missing"),
        ({"author": "me"}, "it has an unknown key 'author'"),
    ],
)
def test_damaged_checks_are_named(tmp_path, checks, change, said):
    (tmp_path / "checks").mkdir()
    (tmp_path / FILE).write_text(json.dumps(plain(checks) | change))
    product = Product(tmp_path, "checks", FILE, {})
    product.note()
    with pytest.raises(FileFormatError) as refused:
        read_checks(product)
    assert str(refused.value) == f"{tmp_path / FILE}: cannot be read, {said}"
