"""The NKI releases that nkisim accepts, oldest first, and names that the first does not have."""

import pytest

import nkisim.language as nl

VERSIONS = ("0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0")


def newest(name):
    """Return a name of ``nki.language`` as the newest release has it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NKISIM_NKI", VERSIONS[-1])
        return getattr(nl, name)
