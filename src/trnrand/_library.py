"""The backend setting of trnrand, shared by all its modules."""

from __future__ import annotations

from trnsci.core.backend.library import Library  # first: it reports how to install torch

# isort: split
from trnrand.errors import FlagError
from trnsci.core import errors
from trnsci.core.arguments import also_spelled
from trnsci.core.errors import BackendError


class _RandomLibrary(Library):
    """The shared backend setting, with the exception types of trnrand."""

    @also_spelled("name", "backend")
    def set_backend(self, name: str) -> None:
        """Choose the backend for the process; inside a ``with backend`` block, for that block.

        Args:
            name: ``"auto"``, ``"pytorch"``, ``"nki"`` or ``"simulator"``.

        Raises:
            FlagError: The name is none of these.
            BackendError: ``"nki"`` without AWS's NKI and without simulator mode.
        """
        try:
            super().set_backend(name)
        except errors.FlagError as error:
            raise FlagError(str(error)) from None

    def no_nki(self, function: str) -> BackendError:
        """Return the error for a missing NKI, with the packages that provide it."""
        return BackendError(f"{super().no_nki(function)} ('nki' requires neuronxcc or nki)")


LIBRARY = _RandomLibrary("trnrand", widens=False)  # draws are the same at every level
no_kernel = LIBRARY.no_kernel
