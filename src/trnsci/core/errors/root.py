"""The base class of the exceptions in ``trnsci.core.errors``, which shows the whole tree."""


class TrnsciError(Exception):
    """Base class of all exceptions of the suite."""


TrnsciError.__module__ = "trnsci.core.errors"
