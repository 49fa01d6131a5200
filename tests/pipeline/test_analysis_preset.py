"""The preset `analysis`, shrunken, through the command line: every kind of systematic, all stages."""

import re

import pytest
from click.testing import CliRunner

from covad.cli.main import commands
from covad.results.run import open_run
from covad.study.presets import preset_text

#: Keys of the preset with few events, steps and toys in their place; nuisances and points stay as they are.
SHRUNKEN = {
    r"background: \{simulate: \d+": "background: {simulate: 20000",
    r"(lq|a4l|h0|hpm): \{simulate: \d+": r"\1: {simulate: 600",
    r"(up|down): \{simulate: \d+": r"\1: {simulate: 5000",
    r"encoder: \d+": "encoder: 4500",
    r"response: \d+": "response: 2500",
    r"check: \d+": "check: 2000",
    r"basis: \d+": "basis: 400",
    r"reference: 1\d+": "reference: 5000",
    r"data: \d+": "data: 5000",
    r"training: \{.*\}": (
        "training: {steps: 20, batch: 64, validate_every: 10, ratio_hidden: [8], validation_share: 0.4}\n"
        "  encoder: {width: 8, layers: 1, heads: 2, feed_forward: 16, projector: 8}"
    ),
    r"response: \{.*\}": "response: {epochs: 1, hidden: [8]}",
    r"sizes: \{.*\}": "sizes: {expected: 150, reference: 800}",
    r"bumps: 100": "bumps: 5",
    r"toys: \d+": "toys: 6",
    r": \[40\]": ": [20]",
}


@pytest.mark.slow
def test_the_whole_study_runs_through_the_command_line(tmp_path):
    text = preset_text("analysis")
    for found, shrunken in SHRUNKEN.items():
        text, n = re.subn(found, shrunken, text)
        assert n, found
    study = tmp_path / "study.yaml"
    study.write_text(text, encoding="utf-8")
    out = tmp_path / "run"
    for command in (["run", "--dry-run"], ["run", "--workers", "1"]):
        result = CliRunner().invoke(commands, [*command, str(study), "--out", str(out)])
        assert result.exit_code == 0, result.output
    run = open_run(out)
    assert len(run.study.source.nuisances) == 26
    assert CliRunner().invoke(commands, ["report", str(out)]).exit_code == 0
