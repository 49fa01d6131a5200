"""One exception class per kind of failure. The command line prints the message and exits with code 2.

A message is one sentence that names the file, key or column and says what was expected there, or what to do.
"""

import errno

#: What helps if a file cannot be written.
_WRITE_REMEDIES = {
    errno.ENOENT: "make its folder first",
    errno.ENOTDIR: "choose another folder",
    errno.EISDIR: "choose another name",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EACCES: "choose a folder that you may write to",
    errno.EPERM: "choose a folder that you may write to",
    errno.EROFS: "choose a folder that you may write to",
    errno.ENOSPC: "free some space, or choose another disk",
    errno.EDQUOT: "free some space, or choose another disk",
}


def write_trouble(failure: OSError) -> str:
    """Return what the operating system says of a file that it does not write, and what helps.

    For instance '(Permission denied): choose a folder that you may write to'.
    """
    remedy = _WRITE_REMEDIES.get(failure.errno or 0)
    said = f"({failure.strerror or failure})"
    return f"{said}: {remedy}" if remedy else said


def install_advice(what: str) -> str:
    """Return the command that installs covad from its source tree, the only place that it comes from."""
    return f"`pip install {what} -c constraints.txt` in the source tree of covad"


def extra_advice(extra: str) -> str:
    """Return the command that installs an optional part of covad."""
    return install_advice(f"-e '.[{extra}]'")


class CovadError(Exception):
    """Anything that the user can mend: bad input, bad configuration, too few events."""


class FileFormatError(CovadError):
    """A file is not what it should be: missing dataset, wrong shape, truncated, unreadable."""


class DamagedFileError(FileFormatError):
    """A file that covad wrote is not what it wrote: a flipped bit, a cut end, a hand edit, another run's."""


class FileWriteError(CovadError):
    """A file could not be written: no such directory, no permission, disk full."""


class EventContentError(CovadError):
    """The numbers in an event file cannot be physics: NaN, infinity, negative momentum."""


class LayoutError(CovadError):
    """Collections, slots or features do not fit together, or two layouts differ."""


class UnknownNameError(CovadError):
    """A process, systematic, collection or feature that covad does not know."""


class TooFewEventsError(CovadError):
    """A pool or a sample was asked for more events than there are."""


class DuplicateEventsError(CovadError):
    """The same event stands in two places: one file twice, or rows that were copied."""


class DownloadError(CovadError):
    """A public file could not be fetched, or what came is not what the record announces."""


class MissingExtraError(CovadError):
    """An optional part of covad is not installed."""


class SettingsError(CovadError):
    """A setting is out of its limits, or there is no such setting."""


class MappingError(CovadError):
    """A mapping of branches to events that cannot be: a wrong key, expression or branch."""


class DatasetError(CovadError):
    """A latent dataset cannot be tested: NaN, empty, bad weights, mismatched columns, bad settings."""


class NegativeExpectationError(CovadError):
    """Signed weights whose sum is negative where no expectation can be, beyond what chance explains."""


class SimulationError(CovadError):
    """A setting of a simulation cannot be used, or the generator could not make the events."""


class TrainingError(CovadError):
    """A training cannot start or go on: a class without events, a loss that is not finite."""


class InferenceError(CovadError):
    """Test statistics cannot be turned into a statement: not finite, too few toys, a level out of range."""


class PlanError(CovadError):
    """An ensemble of toys that cannot be: bad sizes, signal, shard or number."""


class StudyError(CovadError):
    """A study file with a wrong key or value, or one that differs from the study of its run directory."""


class ToyStoreError(CovadError):
    """Stored toys contradict each other or do not belong where they are."""


class RunInUseError(CovadError):
    """Another process works in a run directory, and two would do the same or disturb each other."""


class UnfinishedRunError(CovadError):
    """A run directory has not got as far as a command needs."""


class ComparisonWarning(UserWarning):
    """A comparison whose p-value deserves caution, and why."""


class NotKeptWarning(UserWarning):
    """An answer that could not be stored in its run, and why."""


class WorkerError(CovadError):
    """Worker processes cannot be started or reached."""
