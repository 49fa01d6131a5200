"""The univariate benchmark: toys as published, a run that goes on, a table beside the published powers."""

import numpy as np
import pytest
from benchmark_module import load
from click.testing import CliRunner

univariate = load("univariate")


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(univariate, "REFERENCE", 4000)
    monkeypatch.setattr(univariate, "POOL", 2000)
    univariate.named.cache_clear()
    yield
    univariate.named.cache_clear()


def test_toys_have_the_published_yields():
    """2090 +- 46 events each: the mean of 20 toys is within 5 standard deviations of it, 51."""
    sizes = [len(univariate.toy("5", index).data) for index in range(20)]
    assert np.mean(sizes) == pytest.approx(2090.0, abs=51.0)
    toy = univariate.toy("null", 0)
    assert toy.weights.sum() == pytest.approx(2000.0)
    assert toy.normalisation is None
    assert toy.n_nuisances == 0


def test_a_torn_run_goes_on_and_prints_the_published_powers(tmp_path):
    out = tmp_path / "toys.jsonl"
    out.write_text('{"test": "convex", "ensemb')
    arguments = ["--out", str(out), "--test", "convex", "--toys", "1", "--summary"]
    told = CliRunner().invoke(univariate.main, arguments)
    assert told.exit_code == 0, told.output
    assert "| convex | 90 events N(1.6, 0.16) | 1 |" in told.output
    assert "| 0.25 - 0.91 | 0.88 |" in told.output
    before = univariate.read_rows(out)
    assert len(before) == 5 + 2
    CliRunner().invoke(univariate.main, arguments)
    assert univariate.read_rows(out) == before


def test_an_unknown_test_is_refused(tmp_path):
    told = CliRunner().invoke(univariate.main, ["--out", str(tmp_path / "x"), "--test", "wishful"])
    assert told.exit_code == 2
    assert "no test 'wishful'" in told.output
