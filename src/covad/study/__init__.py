"""The study file: what a user asks for, in YAML, checked before any work starts."""

from covad.nplm.settings import Sizes
from covad.study.changes import Change, changes
from covad.study.model import Configuration, Study, find_slug
from covad.study.reading import expecting, json_schema, parse_study, read_study
from covad.study.samples import SampleEntry
from covad.study.sources import Collisions, LatentSection, PoolSection, ProcessEntry

__all__ = [
    "Change",
    "Collisions",
    "Configuration",
    "LatentSection",
    "PoolSection",
    "ProcessEntry",
    "SampleEntry",
    "Sizes",
    "Study",
    "changes",
    "expecting",
    "find_slug",
    "json_schema",
    "parse_study",
    "read_study",
]
