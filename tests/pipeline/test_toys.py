"""Warnings before toys are computed."""

from weighted_files import weighted_study

from covad.pipeline.toys import warn_of_references


def test_a_small_reference_is_warned_of_by_what_its_events_are_worth(caplog):
    """1500 events for 200 data are enough; worth a fifth of their number they are not."""
    study = weighted_study(["w.h5"])
    (where,) = study.spaces
    warn_of_references(study, {where: 1.0})
    warn_of_references(study, {})
    assert not caplog.records
    warn_of_references(study, {where: 0.2})
    (record,) = caplog.records
    assert record.getMessage().startswith("sizes.reference, for '")
    assert "the reference is worth 300 events, fewer than twice the 200 data" in record.getMessage()
