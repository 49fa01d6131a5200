"""The univariate benchmark: toys as published, a run that goes on, a table beside the published powers."""

import json

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


@pytest.mark.parametrize("name", ["convex", "adaptive"])
def test_a_reference_that_is_summed_up_gives_the_same_t(name):
    toy = univariate.toy("3", 0)
    small = univariate.summed_up(toy)
    assert len(small.weights) < 0.7 * len(toy.weights)  # of 200 000 events: 0.03
    z, node = toy.reference[:, 0].astype(float), small.reference[:, 0].astype(float)
    for power in range(4):
        assert small.weights @ node**power == pytest.approx(toy.weights @ z**power, rel=1e-6)
    whole, summed = (univariate.likelihood_ratio(d, univariate.named(name), 0) for d in (toy, small))
    assert summed.t == pytest.approx(whole.t, abs=2e-3)


def test_the_adaptive_test_is_judged_by_its_own_law(tmp_path):
    """t = 7.6 has p = 0.0224 for a single test, so that two members or three are below Z = 2 there."""
    out = tmp_path / "toys.jsonl"
    rows = [{"test": "adaptive", "ensemble": "5", "index": i, "t": t} for i, t in enumerate((7.6, 12.0))]
    out.write_text("\n".join(json.dumps(row | {"status": "converged", "seconds": 0.1}) for row in rows))
    told = CliRunner().invoke(univariate.main, ["--out", str(out), "--summary"])
    assert "| adaptive | 90 events N(1.6, 0.16) | 2 | 0.500 [" in told.output, told.output


def test_an_unknown_test_is_refused(tmp_path):
    told = CliRunner().invoke(univariate.main, ["--out", str(tmp_path / "x"), "--test", "wishful"])
    assert told.exit_code == 2
    assert "no test 'wishful'" in told.output
