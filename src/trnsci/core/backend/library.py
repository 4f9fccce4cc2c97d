"""Which implementation the operations of a library run on.

A library is asked for one of four backends. ``"pytorch"`` is torch on the device where the
operands are. ``"nki"`` launches NKI kernels on a NeuronCore, or on the simulator when the
environment says so. ``"simulator"`` launches them on the simulator. ``"auto"`` is ``"nki"`` where
AWS's toolchain and a NeuronCore are present, else ``"pytorch"``.

The request made with ``set_backend`` holds for the process; the one made with ``with
library.backend(...)`` holds for the current context, so that threads and tasks do not meet.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Literal, get_args

try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "the libraries of trnsci need torch: in the checkout of trnsci, pip install '.[torch]'",
        name="torch",
    ) from error

from trnsci.core.backend.device import neuron_device
from trnsci.core.backend.environment import library_switch
from trnsci.core.backend.explanation import recording
from trnsci.core.backend.provider import has_aws_nki
from trnsci.core.backend.setting import Setting
from trnsci.core.errors import BackendError, FlagError
from trnsci.core.interop import constant_to_compile

__all__ = ["Backend", "Library", "Path", "device_ready"]

Backend = Literal["auto", "pytorch", "nki", "simulator"]
Path = Literal["pytorch", "nki", "simulator"]

_BACKENDS: tuple[str, ...] = get_args(Backend)


@constant_to_compile
def device_ready() -> bool:
    """Return whether this process can launch kernels on a NeuronCore."""
    return neuron_device() is not None and has_aws_nki()


class Library:
    """The backend of one library.

    Attributes:
        name: Import name, such as ``"trnblas"``.
        use_simulator: The variable that sends kernels to the simulator.
        require_nki: The variable that makes a call raise that no kernel computes.
        operations: The operations declared so far, by name.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.use_simulator = library_switch(name, "USE_SIMULATOR")
        self.require_nki = library_switch(name, "REQUIRE_NKI")
        self.operations: dict[str, Any] = {}
        self._requested = Setting(f"{name}.backend", "auto")

    def __repr__(self) -> str:
        return f"<{self.name}: backend {self.get_backend()!r}, path {self.path()!r}>"

    @property
    def has_nki(self) -> bool:
        """Whether AWS's NKI is installed; nkisim does not count."""
        return has_aws_nki()

    def set_backend(self, name: str) -> None:
        """Choose the backend for the process; inside a ``with backend`` block, for that block.

        Args:
            name: ``"auto"``, ``"pytorch"``, ``"nki"`` or ``"simulator"``.

        Raises:
            FlagError: The name is none of these.
            BackendError: ``"nki"`` without AWS's NKI and without simulator mode.
        """
        self._check(name, "set_backend")
        self._requested.set(name)

    def get_backend(self) -> str:
        """Return the backend that was asked for, ``"auto"`` if none was."""
        return self._requested.get()

    def backend(self, name: str) -> AbstractContextManager[None]:
        """Choose the backend inside a ``with`` block, for the current thread or task only.

        A thread started inside the block sees the choice of the process; one that is to see the
        choice of the block runs in a copy of its context (``contextvars.copy_context().run``).

        Raises:
            FlagError: The name is none of the accepted ones.
            BackendError: ``"nki"`` without AWS's NKI and without simulator mode.
        """
        self._check(name, "backend")
        return self._requested.scope(name)

    def path(self) -> Path:
        """Return what a call made now runs on, if its operands suit a kernel."""
        requested = self._requested.get()
        if requested == "pytorch":
            return "pytorch"
        if requested == "simulator" or self.use_simulator.is_on():
            return "simulator"
        if requested == "nki" or device_ready():
            return "nki"
        return "pytorch"

    def kernels_wanted(self) -> bool:
        """Return whether a call made now is to go to its ``Operation``.

        That is so where kernels run, and while ``explain`` asks what the operation would do.
        """
        return self.path() != "pytorch" or recording()

    def no_nki(self, function: str) -> BackendError:
        """Return the error that says how to get what ``"nki"`` needs."""
        return BackendError(
            f"{self.name}.{function}: backend 'nki' needs AWS's NKI (nki>=0.3.0, Neuron SDK 2.29 "
            f"or later), which is not installed. On a Trainium or Inferentia host, install the "
            f"Neuron SDK; elsewhere, run the kernels on the simulator with "
            f"{self.use_simulator.name}=1 or backend 'simulator', or use 'pytorch'"
        )

    def _check(self, name: str, function: str) -> None:
        if name not in _BACKENDS:
            raise FlagError(
                f"{self.name}.{function}: got {name!r}, accepted: {', '.join(_BACKENDS)}"
            )
        if name == "nki" and not self.has_nki and not self.use_simulator.is_on():
            raise self.no_nki(function)
