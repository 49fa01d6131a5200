"""Which nuisances of a space its figures show: all of a few, the leading ones of many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from covad.report.evidence import Evidence
from covad.report.figures.canvas import COLD, DASHES, WARM, LineStyle, line_style, shown_name
from covad.report.names import Label, nu_label
from covad.results.latent import Marginal, effect_sizes, shifted_alone
from covad.runs.checks import ValidationCounts

#: So many nuisances are told apart in one panel.
SHOWN_SHIFTS = 3
#: Of the leading nuisances; none is that of a signal.
_COLOURS = (WARM[0], COLD[2], WARM[2])


@dataclass(frozen=True)
class ShownNuisances:
    """What figures show of a space: `leading` nuisances by number, or all if there are none.

    `every` are the names of all of them.
    """

    every: tuple[str, ...]
    leading: Mapping[int, str] = field(default_factory=dict)
    caption: str = ""  # says which ones are shown, and why

    @property
    def names(self) -> str:
        return ", ".join(self.leading.values())

    @property
    def told_of_signs(self) -> str:
        """Return the caption of figures in which lines are `styled`."""
        return f"{self.caption} Positive shifts are solid, negative ones dashed." if self.leading else ""

    def of(self, marginal: Marginal) -> Marginal:
        """Return the marginal at shifts of one leading nuisance each, in their order, positive ones first."""
        if not self.leading:
            return marginal
        order = list(self.leading)
        lines = [line for line in marginal.shifted if shifted_alone(line.nu) in order]
        lines.sort(key=lambda line: (order.index(_place(line)), -line.nu[_place(line)]))
        return replace(marginal, shifted=tuple(lines))

    def label(self, line: ValidationCounts) -> Label:
        """Name a shift, of a leading nuisance by its name."""
        if not self.leading:
            return nu_label(line.nu, self.every)
        name, size = self.leading[_place(line)], f"{line.nu[_place(line)]:+g}"
        return Label(f"{name} = {size}σ".replace("-", "−"), rf"{shown_name(name)} ${size}\sigma$")

    def largest(self, marginal: Marginal) -> list[ValidationCounts]:
        """Return the largest shifts: among all nuisances if they are few, else those of every leading one."""
        if not self.leading:
            return [line for line in marginal.shifted if _size(line) == marginal.largest_shift]
        ends: dict[int, float] = {}
        for line in marginal.shifted:
            ends[_place(line)] = max(ends.get(_place(line), 0.0), _size(line))
        return [line for line in marginal.shifted if _size(line) == ends[_place(line)]]

    def styled(
        self, lines: Sequence[ValidationCounts], colours: Sequence[str]
    ) -> Iterator[tuple[ValidationCounts, LineStyle, str | None]]:
        """Yield every line with its style and what the legend calls it.

        Leading nuisances have a colour and one entry each; their negative shifts are dashed.
        """
        if not self.leading:
            for number, line in enumerate(lines):
                yield line, line_style(number, colours), nu_label(line.nu, self.every).tex
            return
        named = set()
        for line in lines:
            place = _place(line)
            colour = _COLOURS[list(self.leading).index(place)]
            dash = DASHES[0] if line.nu[place] > 0 else DASHES[1]
            label = None if place in named else shown_name(self.leading[place])
            named.add(place)
            yield line, {"color": colour, "linestyle": dash}, label


def shown_nuisances(evidence: Evidence, space: str) -> ShownNuisances:
    """Rank the nuisances of a space by the shift of t without them, else by what they do to its marginals."""
    marginals, names = evidence.marginals(space), tuple(evidence.summary.shape_names)
    sizes = effect_sizes(marginals)
    if len(sizes) <= SHOWN_SHIFTS:
        return ShownNuisances(names)
    why = "with the largest log(N_ν/N₀) at ±1σ"
    if (closure := evidence.closure_over_prior(space)) is not None:
        left_out = {entry.nuisance: entry.left_out.shift for entry in closure.nuisances}
        sizes = {number: left_out.get(number, 0.0) for number in sizes}
        why = "that would shift t most if they were left out of the test"
    leading = sorted(sizes, key=lambda number: -sizes[number])[:SHOWN_SHIFTS]
    told = ", ".join(names[number] for number in leading)
    caption = f"Of {len(sizes)} nuisances, those {why} are shown: {told}; the tables have all."
    return ShownNuisances(names, {number: names[number] for number in leading}, caption)


def sizes_text(lines: Sequence[ValidationCounts]) -> str:
    """Say how large the shifts are, in sigma: '2', or '1 or 2'."""
    return " or ".join(f"{size:g}" for size in sorted({_size(line) for line in lines}))


def _place(line: ValidationCounts) -> int:
    """Return which nuisance is shifted, of a line with one."""
    return int(np.argmax(np.abs(line.nu)))


def _size(line: ValidationCounts) -> float:
    return max(abs(x) for x in line.nu)
