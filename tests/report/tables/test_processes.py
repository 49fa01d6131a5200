"""The table of the background processes."""

from dataclasses import replace

import report_world

from covad.report.page import toys
from covad.report.tables.processes import process_table
from covad.runs.yields import ProcessYield, YieldTable

W = ProcessYield("w", "w", 6000, 5000, 3000.0, 0.1, 9000.0, 36000.0, 0.01, 90.0, 1.5)
W_HT = ProcessYield("w_ht", "w", 600, 500, 500.0, 0.0, 1000.0, None, 0.01, 10.0, 2.0)


def test_there_is_a_table_where_the_study_or_its_files_say_what_counts():
    evidence = report_world.evidence()
    assert process_table(evidence.summary) is None
    assert [table.name for table in toys(evidence).tables] == ["toys"]
    weighted = replace(evidence, summary=replace(evidence.summary, yields=YieldTable((W, W_HT), True)))
    assert [table.name for table in toys(weighted).tables] == ["toys", "processes"]


def test_every_process_has_a_line_and_all_of_them_a_sum():
    summary = replace(report_world.evidence().summary, yields=YieldTable((W, W_HT), True))
    table = process_table(summary)
    rows = {row.keys[0]: [cell.text for cell in row.cells] for row in table.rows}
    assert rows["w_ht (trained as W)"] == ["600", "500", "500", "0.0", "–", "10 ± 2", "10.00"]
    assert rows["W"] == ["6000", "5000", "3000", "10.0", "0.25", "90 ± 1.5", "90.00"]
    assert rows["total"] == ["6600", "5500", "1600", "9.1", "–", "100 ± 2.5", "100"]
    assert "Toys expect" in table.caption


def test_a_mix_of_weights_says_so():
    summary = replace(report_world.evidence().summary, yields=YieldTable((W, W_HT), False))
    assert "The mix is that of the weights in the files" in process_table(summary).caption
