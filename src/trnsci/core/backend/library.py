"""Backend selection of a library.

There are four backends. ``"pytorch"`` is torch on the device of the operands. ``"nki"`` launches
NKI kernels on a NeuronCore, or on the simulator if the environment variable for it is on.
``"simulator"`` launches them on the simulator. ``"auto"`` is ``"nki"`` where AWS's toolchain and a
NeuronCore are present or kernels are required, ``"simulator"`` for tensors on nkisim's simulated
device, else ``"pytorch"``.

``set_backend`` applies to the process; ``with library.backend(...)`` applies to the current
context, so that threads and tasks do not affect each other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType, ModuleType
from typing import Any, Literal, cast, get_args

try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "the libraries of nkisim need torch: pip install 'nkisim[torch]'",
        name="torch",
    ) from error

from trnsci.core.arguments import also_spelled
from trnsci.core.backend.decision import NO_DEVICE, Choice, Path
from trnsci.core.backend.device import device_is_simulated, probe, probed
from trnsci.core.backend.environment import Level, library_requirement, library_switch
from trnsci.core.backend.explanation import RUNNING, Step, note, recording
from trnsci.core.backend.precision import (
    CHOSEN,
    LEVELS,
    PrecisionLevel,
    check_level,
    chosen_by,
    chosen_with,
)
from trnsci.core.backend.setting import Setting
from trnsci.core.counters import count_no_kernel
from trnsci.core.errors import BackendError, FlagError, NkiRefusalWarning
from trnsci.core.examples import Case, Example
from trnsci.core.interop import constant_to_compile
from trnsci.core.nki import has_aws_nki

Backend = Literal["auto", "pytorch", "nki", "simulator"]

_BACKENDS: tuple[str, ...] = get_args(Backend)


@constant_to_compile
def device_ready() -> bool:
    """Return whether this process can launch kernels on a NeuronCore."""
    return (probed or probe())[0] is not None and has_aws_nki()


@constant_to_compile
def _path_by_device() -> Path:
    """Return the path of backend "auto"; that of a simulated device is for its tensors alone."""
    if device_ready():
        return "nki"
    return "simulator" if device_is_simulated() else "pytorch"


_BY_DEVICE: Mapping[str, Choice] = {
    "nki": Choice("auto", "", "nki", "backend 'auto' finds a NeuronCore with AWS's NKI"),
    "simulator": Choice("auto", "", "simulator", "an operand is on the simulated device", True),
    "pytorch": Choice("auto", "", "pytorch", NO_DEVICE),
}


@constant_to_compile
def _count_no_kernel(function: str) -> bool:
    """Count a call; a compiled call counts it once, when it is compiled."""
    count_no_kernel(function)
    return True


class Library:
    """The backend and the precision of one library.

    Attributes:
        name: Import name, such as ``"trnblas"``.
        published: Names of precisions that this library alone accepts, and their levels.
        widens: Whether operations compute their reference in float64 at ``doublefloat``, for which
            they have no kernel; False if the library's functions choose the arithmetic by level.
        use_simulator: The environment variable that runs kernels on the simulator.
        require_nki: The environment variable that makes calls raise if no kernel computes them. It
            has no effect on backend ``"pytorch"``, which is an explicit choice.
        operations: The operations declared so far, by name.
    """

    def __init__(
        self,
        name: str,
        published: Mapping[str, PrecisionLevel] = MappingProxyType({}),
        widens: bool = True,
    ) -> None:
        self.name = name
        self.published = published
        self.widens = widens
        self.use_simulator = library_switch(name, "USE_SIMULATOR")
        self.require_nki = library_requirement(name)
        self.operations: dict[str, Any] = {}
        choice = self._choice_of("auto", self.require_nki.value)
        self._choice = Setting(f"{name}.backend", choice)

    def __repr__(self) -> str:
        return f"<{self.name}: backend {self.get_backend()!r}, path {self.path()!r}>"

    @property
    def has_nki(self) -> bool:
        """Whether AWS's NKI is installed; nkisim does not count."""
        return has_aws_nki()

    @also_spelled("name", "backend")
    def set_backend(self, name: str) -> None:
        """Set the backend for the process; inside a ``with backend`` block, for that block.

        Args:
            name: ``"auto"``, ``"pytorch"``, ``"nki"`` or ``"simulator"``.

        Raises:
            FlagError: The name is not one of these.
            BackendError: ``"nki"`` without AWS's NKI and without simulator mode.
        """
        self._check(name, "set_backend")
        self._choice.set(self._choice_of(name, self.required()))

    def get_backend(self) -> str:
        """Return the requested backend, by default ``"auto"``."""
        return self._choice.get().backend

    def backend(self, name: str) -> AbstractContextManager[None]:
        """Set the backend inside a ``with`` block, for the current thread or task only.

        A thread started inside the block uses the backend of the process. To use that of the
        block, run it in a copy of the block's context (``contextvars.copy_context().run``).

        Raises:
            FlagError: The name is not accepted.
            BackendError: ``"nki"`` without AWS's NKI and without simulator mode.
        """
        self._check(name, "backend")
        return self._choice.scope(self._choice_of(name, self.required()))

    def required(self) -> Level:
        """Return the level of ``REQUIRE_NKI``."""
        return self._choice.get().required

    def requiring(self, level: Level) -> AbstractContextManager[None]:
        """Set the level of ``REQUIRE_NKI`` inside a ``with`` block, as ``backend`` does."""
        return self._choice.scope(self._choice_of(self.get_backend(), level))

    def path(self) -> Path:
        """Return the path of a call that its kernel accepts, on no simulated device."""
        choice = self.choice()
        return "pytorch" if choice.by_operands else choice.path

    def choice(self) -> Choice:
        """Return the settings that decide the path.

        Raises:
            FlagError: A variable of the library had a wrong value when the library was imported.
        """
        choice = self._choice.get()
        return choice if choice.reason else self._by_device()

    def kernels_wanted(self) -> Choice | None:
        """Return the settings if calls must go through their ``Operation``, else None.

        They must where kernels run, at precision ``doublefloat``, and while ``explain`` records
        paths.
        """
        setting = self._choice  # every call of a library passes here: few calls of its own
        choice = setting.get() if setting.scoped else setting.default
        if not choice.reason:
            choice = self._by_device()
        widening = CHOSEN.used and self.widening()
        recorded = RUNNING.number > 0 and recording()
        if widening or recorded:
            return Choice(*choice[:5], widening, recorded)
        return None if choice.path == "pytorch" else choice

    def _by_device(self) -> Choice:
        error = self.require_nki.error or self.use_simulator.error
        if error is not None:
            raise error
        return _BY_DEVICE[_path_by_device()]

    def _choice_of(self, backend: str, required: Level) -> Choice:
        path: Path = "pytorch"
        reason = f"backend {backend!r} is set"
        if backend == "pytorch":
            pass
        elif self.require_nki.error or self.use_simulator.error:
            reason = ""
        elif backend == "simulator":
            path = "simulator"
        elif self.use_simulator.value:
            path, reason = "simulator", f"{self.use_simulator.name} or its umbrella is on"
        elif backend == "nki":
            path = "nki"
        elif required:
            path, reason = "nki", f"{self.require_nki.name} or its umbrella is on"
        else:
            reason = ""
        return Choice(backend, required, path, reason)

    def widening(self) -> bool:
        """Return whether operations compute their reference in float64, by the current level."""
        return self.widens and self.level() == "doublefloat"

    def set_precision(self, mode: str) -> None:
        """Set the precision for the process; inside a ``with precision`` block, for that block.

        Args:
            mode: ``"bfloat16"``, ``"float16x3"``, ``"float32"`` or ``"doublefloat"``, or a name
                that only this library accepts.

        Raises:
            FlagError: The mode is not accepted. It is a ``ValueError``.
        """
        self._check_precision("set_precision", mode)
        CHOSEN.set(chosen_with(self.name, mode))

    def get_precision(self) -> str:
        """Return the precision, under the name it was set by."""
        return chosen_by(self.name)

    def precision(self, mode: str) -> AbstractContextManager[None]:
        """Set the precision inside a ``with`` block, for the current thread or task only.

        Raises:
            FlagError: The mode is not accepted.
        """
        self._check_precision("precision", mode)
        return CHOSEN.scope(chosen_with(self.name, mode))

    def level(self) -> PrecisionLevel:
        """Return the level of the ladder that applies to calls without a precision of their own."""
        name = chosen_by(self.name)
        return self.published.get(name) or cast(PrecisionLevel, name)

    def _check_precision(self, function: str, name: str) -> None:
        check_level(f"{self.name}.{function}", name, (*LEVELS, *self.published))

    def examples(self) -> dict[str, Example]:
        """Return the examples of the operations declared so far, by name."""
        declared = (each.examples.items() for each in self.operations.values())
        return {name: make() for examples in declared for name, make in examples}

    def evidence(self) -> tuple[Case, ...]:
        """Return the validation cases of the operations declared so far."""
        return tuple(case for each in self.operations.values() for case in each.evidence)

    def no_kernel(self, function: str) -> None:
        """Report the call of a public function that has no kernel: torch computes it.

        On a kernel path the call is counted. ``explain`` shows it on every path.

        Args:
            function: Name of the function within the library.

        Raises:
            BackendError: ``REQUIRE_NKI`` is ``all``, on a kernel path.
        """
        choice = self.kernels_wanted()
        if choice is None or (choice.by_operands and not choice.recorded):
            return
        name = f"{self.name}.{function}"
        refused = choice.path != "pytorch" and choice.required == "all"
        if choice.recorded:
            end = "; the call raises" if refused else ""
            note(Step(name, "pytorch", f"the function has no kernel{end}"))
            return
        if refused:
            raise BackendError(
                f"{name}: the function has no kernel, and {self.require_nki.name} or its umbrella "
                f"is 'all' (1 accepts such functions)"
            )
        _count_no_kernel(name)

    def no_nki(self, function: str) -> BackendError:
        """Return the error for a missing NKI, with instructions to install it."""
        reason = "backend 'nki' needs"
        if self.get_backend() != "nki" and function in self.operations:
            reason = f"{self.require_nki.name} or its umbrella is on, and kernels need"
        return BackendError(
            f"{self.name}.{function}: {reason} AWS's NKI (nki>=0.3.0, Neuron SDK 2.29 "
            f"or later), which is not installed. On a Trainium or Inferentia host, install the "
            f"Neuron SDK; elsewhere, run the kernels on the simulator with "
            f"{self.use_simulator.name}=1 or backend 'simulator', or use 'pytorch'"
        )

    def _check(self, name: str, function: str) -> None:
        if name not in _BACKENDS:
            raise FlagError(
                f"{self.name}.{function}: got {name!r}, accepted: {', '.join(_BACKENDS)}"
            )
        if name == "nki" and not self.has_nki and not self.use_simulator.value:
            raise self.no_nki(function)


def surface(
    package: str, library: Library, lazy: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and the ``__dir__`` of a package of a library.

    The package gets ``HAS_NKI``, lazily imported names and a ``dir`` of the public names. Names in
    ``__all__`` of its module ``published``, if there is one, can be imported from the package too,
    but are neither in its ``__all__`` nor in its ``dir``: they serve code written for the published
    libraries. ``NkiRefusalWarning`` can be imported in the same way.

    Args:
        package: Its ``__name__``.
        library: The library that provides ``has_nki`` for the package's ``HAS_NKI``.
        lazy: Module paths by lazy name. A name equal to the last part of its module path is the
            module itself; any other is an attribute of the module.
    """
    homes = {} if lazy is None else dict(lazy)

    def __getattr__(name: str) -> Any:
        if name == "HAS_NKI":
            return library.has_nki
        if name == NkiRefusalWarning.__name__:
            return NkiRefusalWarning
        if name not in homes:
            return published_name(name)
        module = import_module(homes[name])
        return module if homes[name].rpartition(".")[2] == name else getattr(module, name)

    def published_name(name: str) -> Any:
        if not name.startswith("__") and find_spec(f"{package}.published") is not None:
            module = import_module(f"{package}.published")
            if name in module.__all__:
                return getattr(module, name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        known = vars(sys.modules[package])
        special = {name for name in known if name.startswith("__")}
        modules = {
            name
            for name, value in known.items()
            if isinstance(value, ModuleType)
            and value.__name__ == f"{package}.{name}"
            and not name.startswith("_")
        }
        return sorted({*special, *modules, *homes, *known["__all__"]})

    return __getattr__, __dir__


def backend_names(module: str, library: Library) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module that code for a published library imports them from.

    ``HAS_NKI``, ``get_backend`` and ``set_backend`` of the library can be imported from the module.
    They are not in its ``__all__``: their places are the library and its package ``nki``.

    Args:
        module: Its ``__name__``.
        library: The library.
    """

    def __getattr__(name: str) -> Any:
        if name == "HAS_NKI":
            return library.has_nki
        if name in ("get_backend", "set_backend"):
            return getattr(library, name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return __getattr__
