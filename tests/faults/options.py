"""Commands with options and arguments that cannot be."""

from __future__ import annotations

from collections.abc import Iterator

from faults.fault import Fault
from faults.world import World


def options() -> Iterator[Fault]:
    """Yield commands with options and arguments that cannot be."""
    told: tuple[tuple[str, str, str], ...] = (
        ("no such command", "tset {run} {observed}", "no such command"),
        ("no such option", "test {run} {observed} --expect 5", "no such option"),
        ("an argument too many", "test {run} {observed} {observed}", "unexpected"),
        ("no observed file given", "test {run}", "missing argument"),
        ("no such run", "test {folder}/nowhere {observed}", "nowhere.*not a run directory"),
        ("a file as run", "test {observed} {observed}", "observed.h5"),
        ("an empty folder as run", "test {folder}/empty {observed}", "not a run directory"),
        ("no such observed file", "test {run} {folder}/none.h5", "none.h5"),
        ("a folder as observed file", "test {run} {run}", "is a directory"),
        ("a device as observed file", "test {run} /dev/zero", "not a regular file"),
        ("the study file as observed file", "test {run} {study}", "neither"),
        ("expected 0", "test {run} {observed} --expected 0", "positive"),
        ("expected negative", "test {run} {observed} --expected -5", "positive"),
        ("expected nan", "test {run} {observed} --expected nan", "positive"),
        ("expected inf", "test {run} {observed} --expected inf", "positive"),
        ("expected no number", "test {run} {observed} --expected many", "not a valid float"),
        ("auxiliary without a value", "test {run} {observed} --auxiliary stretch", "NAME=VALUE"),
        ("auxiliary without a name", "test {run} {observed} --auxiliary =1", "NAME=VALUE"),
        ("auxiliary no number", "test {run} {observed} --auxiliary stretch=one", "NAME=VALUE"),
        ("auxiliary nan", "test {run} {observed} --auxiliary stretch=nan", "NAME=VALUE"),
        ("auxiliary inf", "test {run} {observed} --auxiliary stretch=inf", "NAME=VALUE"),
        ("auxiliary of no nuisance", "test {run} {observed} --auxiliary pileup=1", "no nuisance 'pileup'"),
        ("auxiliary twice", "test {run} {observed} --auxiliary stretch=1 --auxiliary stretch=2", "twice"),
        ("auxiliary 1e9", "test {run} {observed} --auxiliary stretch=1e9", "stretch"),
        ("auxiliary -1e9", "test {run} {observed} --auxiliary stretch=-1e9", "stretch"),
        ("auxiliary of the yield 1e9",
         "test {run} {observed} --auxiliary normalisation=1e9", "normalisation"),
        ("auxiliary 1e300", "test {run} {observed} --auxiliary stretch=1e300", "stretch"),
        ("no such configuration", "test {run} {observed} --configuration best", "no configuration 'best'"),
        ("the answer into no folder",
         "test {run} {observed} --json {folder}/none/a.json", "cannot be written"),
        ("the answer onto a folder", "test {run} {observed} --json {run}", "cannot be written|directory"),
        ("an event file of the run", "test {run} {run}/events/background_0.h5", "of the run itself"),
        ("a signal file of the run", "test {run} {run}/events/a4l_0.h5", "of the run itself|a4l"),
        ("no such study file", "run {folder}/none.yaml --out {folder}/new", "none.yaml"),
        ("a folder as study file", "run {folder} --out {folder}/new", "is a directory"),
        ("a device as study file", "run /dev/zero --out {folder}/new", "/dev/zero"),
        ("an event file as study file", "run {observed} --out {folder}/new", "observed.h5"),
        ("a file as run directory", "run {study} --out {observed}", "observed.h5"),
        ("a run below a file", "run {study} --out {observed}/run", "observed.h5"),
        ("no such stage", "run {study} --out {folder}/new --until fits", "no stage 'fits'"),
        ("no workers", "run {study} --out {folder}/new --workers 0", "workers"),
        ("negative workers", "run {study} --out {folder}/new --workers -1", "workers"),
        ("workers no number", "run {study} --out {folder}/new --workers two", "workers"),
        ("shard 0/3", "run {study} --out {folder}/new --shard 0/3", "shard"),
        ("shard 3/2", "run {study} --out {folder}/new --shard 3/2", "shard"),
        ("shard 1/0", "run {study} --out {folder}/new --shard 1/0", "shard"),
        ("shard a/b", "run {study} --out {folder}/new --shard a/b", "shard"),
        ("a shard before the learning", "run {study} --out {folder}/new --shard 1/2", "--until tune"),
        ("report of no run", "report {folder}/empty", "not a run directory"),
        ("report of a file", "report {observed}", "observed.h5"),
        ("status of no run", "status {folder}/empty", "not a run directory"),
        ("status of nothing", "status {folder}/nowhere", "not a run directory"),
        ("export of no run", "export {folder}/empty", "not a run directory"),
        ("export onto a file", "export {run} --out {observed}", "cannot be written"),
        ("inspect nothing", "inspect {folder}/none.h5", "none.h5"),
        ("inspect a folder", "inspect {folder}/empty", "is a directory"),
        ("inspect a device", "inspect /dev/zero", "not a regular file"),
        ("inspect text", "inspect {study}", "neither"),
        ("inspect by no systematic", "inspect {observed} --systematic tilt", "unknown systematic 'tilt'"),
        ("inspect no collection", "inspect {observed} --collection tau", "no collection 'tau'"),
        ("inspect with labels", "inspect {observed} --labels {observed}", "labels"),
        ("inspect with study and systematic",
         "inspect {observed} --study {study} --systematic jet_energy_scale", "exclude"),
        ("inspect with no study", "inspect {observed} --study {folder}/none.yaml", "none.yaml"),
        ("inspect against nothing",
         "inspect {observed} --study {study} --against {folder}/none.h5", "none.h5|study"),
        ("a preset that is none", "init {folder}/new.yaml --preset huge", "huge"),
        ("init over a file", "init {study}", "study.yaml"),
        ("simulate no process", "simulate --process higgs --events 10 --out {folder}/x.h5", "higgs"),
        ("simulate no events", "simulate --process w --events 0 --out {folder}/x.h5", "events?"),
        ("simulate -1 events", "simulate --process w --events -1 --out {folder}/x.h5", "events?"),
        ("simulate by no engine",
         "simulate --process w --events 9 --engine herwig --out {folder}/x.h5", "herwig"),
        ("simulate below a file",
         "simulate --process w --events 9 --out {observed}/x.h5", "cannot be written"),
        ("simulate with a filter nan",
         "simulate --process w --events 9 --lepton-filter nan --out {folder}/x.h5", "filter"),
        ("simulate with a negative filter",
         "simulate --process w --events 9 --lepton-filter -3 --out {folder}/x.h5", "filter"),
        ("simulate with pile-up below 0",
         "simulate --process w --events 9 --pileup-jets -3 --out {folder}/x.h5", "pile"),
        ("fetch no sample", "fetch adc2021 --sample dijets --out {folder}/data", "dijets"),
    )  # fmt: skip
    for name, words, says in told:
        yield Fault(name, tuple(words.split()), says, prepare=_empty_folder)


def _empty_folder(world: World) -> None:
    (world.path / "empty").mkdir()
