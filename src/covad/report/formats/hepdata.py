"""The results as a HEPData submission: submission.yaml and one data file per table, validated.

Our numbers only: the paper's stand in the other formats.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from covad.errors import FileFormatError
from covad.inference.histograms import binning, histogram
from covad.inference.significance import MEANING
from covad.report.evidence import Evidence
from covad.report.names import (
    configuration_title,
    nu_label,
    null_label,
    share,
    signal_label,
    slug,
    test_label,
)
from covad.report.tables.table import MISSING, Cell, Table, ended
from covad.results.summary import SignalPower, Summary, select
from covad.storage.atomic import writing
from covad.toys.ensembles import Treatment

#: HEPData's limit for names of tables.
_NAME_LENGTH = 64
_KEYWORDS = [
    {"name": "phrases", "values": ["Anomaly detection", "Systematic uncertainties", "Contrastive learning"]}
]
#: The one in C, where PyYAML has it, is six times as fast.
_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
Plain = dict[str, Any]


@dataclass(frozen=True)
class DataTable:
    """One table of the submission."""

    name: str
    description: str
    independent: Sequence[Plain]
    dependent: Sequence[Plain]


def write_hepdata(folder: Path, evidence: Evidence, tables: Iterable[Table]) -> None:
    """Write all tables into an empty folder, then have the whole submission validated."""
    content = [*(_table(table) for table in tables), *_power(evidence.summary), *_distributions(evidence)]
    comment = f"Results of a covad {evidence.summary.covad} study."
    documents: list[Plain] = [{"comment": comment}]
    for data in content:
        file = f"{slug(data.name)}.yaml"
        variables = {"independent_variables": data.independent, "dependent_variables": data.dependent}
        _write(folder / file, [variables])
        documents.append(
            {
                "name": data.name[:_NAME_LENGTH],
                "description": data.description,
                "keywords": _KEYWORDS,
                "data_file": file,
            }
        )
    _write(folder / "submission.yaml", documents)
    check_submission(folder)


def _write(path: Path, documents: Sequence[Any]) -> None:
    text = yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    with writing(path):
        path.write_text(text, encoding="utf-8")


def check_submission(folder: Path) -> None:
    """Raise FileFormatError if HEPData's own validator, with the schemas that it ships, objects.

    It uses a deprecated part of jsonschema and does not close its files, which is no concern of the reader.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", ResourceWarning)
        from hepdata_validator.full_submission_validator import FullSubmissionValidator

        validator = FullSubmissionValidator()
        valid = validator.validate(directory=str(folder))
    if not valid:
        messages = [str(m.message) for found in validator.get_messages().values() for m in found]
        raise FileFormatError(f"{folder}: is not a valid HEPData submission ({'; '.join(messages[:3])})")


def _variable(name: str, values: Sequence[Plain], qualifiers: Mapping[str, str] | None = None) -> Plain:
    found: Plain = {"header": {"name": name}, "values": list(values)}
    if qualifiers:
        found["qualifiers"] = [{"name": key, "value": value} for key, value in qualifiers.items()]
    return found


def _table(table: Table) -> DataTable:
    keys = [
        _variable(key, [{"value": row.keys[number] or MISSING} for row in table.rows])
        for number, key in enumerate(table.keys)
    ]
    columns = [
        _variable(
            column.label,
            [_value(row.cells[number], column.level) for row in table.rows],
            {"quantity": table.quantity} | ({"group": column.group} if column.group else {}),
        )
        for number, column in enumerate(table.columns)
    ]
    description = f"{ended(table.title)} {table.caption}"
    if table.has_extrapolated:  # HEPData has no marks at numbers: the rule stands in their place
        rule = "where it exceeds what n toys of R₀ resolve, Z = Φ⁻¹(1 − 1/(n+1))."
        description += f" Z against a law is {MEANING} {rule}"
    return DataTable(table.name, description, keys, columns)


def _value(cell: Cell, level: str) -> Plain:
    """Return a number with its interval of that level; a bound or a missing number stays a text."""
    if cell.value is None or cell.text.startswith((">=", "<=")):
        return {"value": cell.text}
    value: Plain = {"value": float(f"{cell.value:.6g}")}
    if cell.low is not None and cell.high is not None and cell.low < cell.high:
        plus, minus = (float(f"{x:.3g}") for x in (cell.high - cell.value, cell.low - cell.value))
        value["errors"] = [{"label": f"{level} interval", "asymerror": {"plus": plus, "minus": minus}}]
    return value


def _power(summary: Summary) -> Iterator[DataTable]:
    """Return all power curves of a test in a configuration, against Z_alpha."""
    for test in summary.tests:
        for configuration in summary.configurations:
            name = configuration.configuration
            curves = select(summary.power, test=test, configuration=name)
            if curves:
                title = configuration_title(configuration)
                yield DataTable(
                    f"power_{test}_{slug(name)}",
                    f"Power of the {test_label(test)} to reach Z_alpha, {title}.",
                    [_variable("Z_alpha", [{"value": float(f"{z:.4g}")} for z in curves[0].z_alpha])],
                    [_curve(curve, configuration.expected, summary.shape_names) for curve in curves],
                )


def _curve(curve: SignalPower, expected: float, names: Sequence[str]) -> Plain:
    values: list[Plain] = []
    for power, low, high in zip(curve.power, curve.low, curve.high, strict=True):
        if power is None:
            values.append({"value": MISSING})
            continue
        band = {"plus": round(high - power, 5), "minus": round(low - power, 5)}
        values.append({"value": round(power, 5), "errors": [{"label": "68 % interval", "asymerror": band}]})
    qualifiers = {
        "signal": f"{signal_label(curve.signal).text}, {share(curve.injected, expected)}",
        "toys at": nu_label(curve.nu, names).text,
        "calibrated by": null_label(curve.null).text,
    }
    return _variable("power", values, qualifiers)


def _distributions(evidence: Evidence) -> Iterator[DataTable]:
    """Return histograms of t of the background-only toys."""
    names = evidence.summary.shape_names
    for test in evidence.summary.tests:
        for configuration in evidence.summary.configurations:
            ensembles = evidence.toys(test, configuration.configuration)
            if not ensembles:
                continue
            edges = binning(list(ensembles.values()))
            profiled = configuration.treatment is Treatment.PROFILED
            what = "t at the nominal yield" if profiled else "t"
            bins = [{"low": float(a), "high": float(b)} for a, b in pairwise(edges)]
            yield DataTable(
                f"t_{test}_{slug(configuration.configuration)}",
                f"Toys per bin of {what}, background only, {test_label(test)}, "
                f"{configuration_title(configuration)}. The last bin holds what lies beyond.",
                [_variable("t", bins)],
                [
                    _variable(
                        "toys", _counted(histogram(t, edges).counts), {"toys at": nu_label(nu, names).text}
                    )
                    for nu, t in ensembles.items()
                ],
            )


def _counted(values: Iterable[float]) -> list[Plain]:
    return [
        {"value": int(n), "errors": [{"label": "Poisson", "symerror": round(float(np.sqrt(n)), 4)}]}
        if n
        else {"value": 0}
        for n in values
    ]
