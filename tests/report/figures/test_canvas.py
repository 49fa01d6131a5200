"""Curves that share a panel can be told apart."""

import pytest

from covad.report.figures.canvas import COLD, WARM, line_style


@pytest.mark.parametrize("colours", [WARM, COLD, WARM[:3]], ids=["warm", "cold", "three"])
def test_lines_look_alike_only_after_all_combinations(colours):
    styles = {tuple(line_style(number, colours).values()) for number in range(4 * len(colours))}
    assert len(styles) == 4 * len(colours)


def test_up_to_four_lines_have_dash_patterns_of_their_own():
    assert len({line_style(number, WARM)["linestyle"] for number in range(4)}) == 4
