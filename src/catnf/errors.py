"""Errors a user can fix.

Every message is one sentence that names the offending value and the way out. The command line prints
it without a traceback and exits with code 2.
"""


class CatnfError(Exception):
    """Base of all errors that catnf raises on purpose."""


class InputError(CatnfError, ValueError):
    """Data, an option or a name that cannot be used as given."""


class StorageError(CatnfError, OSError):
    """A file that cannot be read or written: missing, truncated, foreign, too new, disk full."""


class TrainingError(CatnfError, RuntimeError):
    """Training cannot go on, for instance after a non-finite loss."""


class MissingDependencyError(CatnfError, ImportError):
    """An optional package is needed; the message names the extra to install."""
