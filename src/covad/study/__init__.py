"""The study file: what a user asks for, in YAML, checked before any work starts."""

from covad.nplm.settings import Sizes
from covad.study.changes import Change, changes
from covad.study.model import TESTS, Configuration, Rule, Study, find_slug, tests_of_rule
from covad.study.reading import expecting, json_schema, parse_study, read_study
from covad.study.samples import SampleEntry
from covad.study.sources import Collisions, LatentSection, PoolSection, ProcessEntry

__all__ = [
    "TESTS",
    "Change",
    "Collisions",
    "Configuration",
    "LatentSection",
    "PoolSection",
    "ProcessEntry",
    "Rule",
    "SampleEntry",
    "Sizes",
    "Study",
    "changes",
    "expecting",
    "find_slug",
    "json_schema",
    "parse_study",
    "read_study",
    "tests_of_rule",
]
