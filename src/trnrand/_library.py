"""The backend setting of trnrand, shared by all its modules."""

from __future__ import annotations

from trnrand.errors import ParameterError
from trnsci.core.backend.library import Library
from trnsci.core.errors import BackendError, FlagError

__all__ = ["LIBRARY", "no_kernel"]


class _RandomLibrary(Library):
    """The shared backend setting, with the exception types of trnrand."""

    def set_backend(self, name: str) -> None:
        """Choose the backend for the process; inside a ``with backend`` block, for that block.

        Args:
            name: ``"auto"``, ``"pytorch"``, ``"nki"`` or ``"simulator"``.

        Raises:
            ParameterError: The name is none of these.
            BackendError: ``"nki"`` without AWS's NKI and without simulator mode.
        """
        try:
            super().set_backend(name)
        except FlagError as error:
            raise ParameterError(str(error)) from None

    def no_nki(self, function: str) -> BackendError:
        """Return the error for a missing NKI, with the packages that provide it."""
        return BackendError(f"{super().no_nki(function)} ('nki' requires neuronxcc or nki)")


LIBRARY = _RandomLibrary("trnrand")
no_kernel = LIBRARY.no_kernel
