"""Options of the form NAME=NUMBER: what is written wrongly is refused by the name of the option."""

import pytest

from covad.cli.pairs import parse_counts, parse_values
from covad.errors import CovadError


@pytest.mark.parametrize("texts", [["a"], ["a="], ["=1"], ["a=x"], ["a=nan"], ["a=1", "a=2"]])
def test_bad_values_are_refused(texts):
    with pytest.raises(CovadError, match="--auxiliary"):
        parse_values("--auxiliary", texts)


def test_values_are_parsed():
    assert parse_values("--auxiliary", ["jet_energy_scale=-1.5", "normalisation=2"]) == {
        "jet_energy_scale": -1.5,
        "normalisation": 2.0,
    }


def test_counts_are_whole():
    assert parse_counts("--inject", ["a4l=60"]) == {"a4l": 60}
    with pytest.raises(CovadError, match="number of events of 'a4l' must be whole"):
        parse_counts("--inject", ["a4l=0.5"])
