"""Import hook that makes ``import nki`` resolve to nkisim once installed.

One finder at the head of ``sys.meta_path`` handles ``nki`` and its submodules. Nothing else
changes: no module is patched, and ``uninstall`` removes everything that the finder created.

Installing does not import the simulator. That, and the check for AWS's own ``nki``, happen at the
first ``import nki``: installation may run while Python starts, before every directory is on
``sys.path``, and in processes that never import ``nki``.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from typing import Any

from nkisim import frameworks

_FIRST_REAL_VERSION = (0, 3)  # the 0.0.1 of the public index is an empty placeholder
_PACKAGE = "nki"


def install(force: bool = False) -> None:
    """Make ``import nki`` resolve to nkisim in this process; a second call changes nothing.

    Where torch is imported, before or afterwards, it also gets the device "neuron", unless AWS's
    extension of torch is installed.

    Args:
        force: Also replace AWS's own ``nki``, which otherwise takes precedence.
    """
    if os.environ.get("NKISIM_REPORT"):
        from nkisim.runs.process_ledger import open_if_asked

        open_if_asked()
    frameworks.install()
    _FINDER.force = _FINDER.force or force
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    if not _FINDER.serving and not _FINDER.yields():
        _FINDER.displaced.update(_take_loaded())


def uninstall() -> None:
    """Undo ``install``: ``import nki`` resolves as before; a device of torch stays."""
    frameworks.uninstall()
    if _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)
    if _FINDER.serving:
        _take_loaded()
    sys.modules.update(_FINDER.displaced)
    _FINDER.displaced.clear()
    _FINDER.force = _FINDER.serving = False


def installed() -> bool:
    """Return whether the import hook is installed."""
    return _FINDER in sys.meta_path


def real_nki_found() -> bool:
    """Return whether AWS's ``nki`` can be imported: it has ``nki.isa`` and is 0.3.0 or later."""
    loaded = _FINDER.displaced if _FINDER.serving else sys.modules
    module = loaded.get(_PACKAGE)
    if module is not None:
        has_isa = hasattr(module, "isa") or f"{_PACKAGE}.isa" in loaded
        path = getattr(module, "__path__", None)
        if not has_isa and path is not None:
            has_isa = _foreign_spec(f"{_PACKAGE}.isa", path) is not None
        return has_isa and _is_recent(getattr(module, "__version__", None) or _recorded_version())
    spec = _foreign_spec(_PACKAGE, None)
    if spec is None or spec.submodule_search_locations is None:
        return False
    if _foreign_spec(f"{_PACKAGE}.isa", spec.submodule_search_locations) is None:
        return False
    return _is_recent(_written_version(spec) or _recorded_version())


class _NkiFinder:
    """Finds and loads ``nki`` and its submodules.

    Attributes:
        force: Whether a real ``nki`` is replaced too.
        serving: Whether ``nki`` was loaded from here since installation.
        displaced: Modules of another ``nki`` that were loaded before.
    """

    def __init__(self) -> None:
        self.force = False
        self.serving = False
        self.displaced: dict[str, ModuleType] = {}

    def yields(self) -> bool:
        """Return whether ``nki`` is left to the following finders."""
        return not self.force and real_nki_found()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != _PACKAGE:
            return None
        if not self.serving and self.yields():
            return None
        if fullname not in _served():
            # Falling through would load nkisim's own files a second time under another name.
            raise ModuleNotFoundError(
                f"No module named {fullname!r}: nkisim stands in for NKI {_version()}, which has "
                + ", ".join(_served()),
                name=fullname,
            )
        self.serving = True
        # The base class that is missing is in importlib.abc, which loads a dozen modules.
        return spec_from_loader(fullname, self, is_package=fullname == _PACKAGE)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        # Putting the module itself into sys.modules, rather than returning it from create_module,
        # leaves its __spec__ unchanged; the import system returns the entry of sys.modules.
        sys.modules[module.__name__] = _MODULES[module.__name__](module)


def _served() -> list[str]:
    """Return the modules of the NKI version in force."""
    from nkisim.versions import since

    return [name for name in _MODULES if name not in _FIRST or since(_FIRST[name])]


def _version() -> str:
    """Return the NKI version in force."""
    from nkisim.versions import in_force

    return in_force()


def _alias(name: str) -> Callable[[ModuleType], ModuleType]:
    """Return a loader of the nkisim module called ``name``, unchanged."""
    return lambda _: import_module(name)


def _nki(module: ModuleType) -> ModuleType:
    """Fill ``module`` with the top level of ``nki``."""
    from nkisim.removed import by_version

    api = import_module("nkisim")

    def simulate(kernel: Any) -> Any:
        """Return ``kernel`` as a function of NumPy arrays that runs on this CPU."""
        return api.simulate(kernel)

    simulate.__module__ = _PACKAGE
    simulate.__annotations__.clear()  # NKI's signature is exactly ``(kernel)``
    module.__doc__ = "NKI, simulated by nkisim; ``__version__`` is the version in force."
    inner = [name for name in _served() if name.rpartition(".")[0] == _PACKAGE]
    names = [*(name.rpartition(".")[2] for name in inner), "jit", "simulate"]
    vars(module).update(jit=api.jit, simulate=simulate, __all__=sorted(names))
    served = by_version(_PACKAGE, vars(module))
    vars(module)["__getattr__"] = lambda name: _version() if name == "__version__" else served(name)
    for name in inner:
        import_module(name)  # which also makes it an attribute of ``module``
    return module


def _simulator(module: ModuleType) -> ModuleType:
    """Fill ``module`` with the undocumented functions of ``nki.simulator``."""
    api = import_module("nkisim")

    def simulate_kernel(
        kernel: Any, args: Any = (), kwargs: Any = None, lnc: int | None = None
    ) -> Any:
        """Return the results of a kernel for NumPy arrays, on ``lnc`` cores."""
        launched = kernel if lnc is None else api.jit(kernel)[lnc]
        return api.simulate(launched)(*args, **(kwargs or {}))

    module.__doc__ = "Simulation of a kernel; NKI does not document this module."
    # Projects call both with the same arguments; what differs is not known.
    vars(module).update(simulate_kernel=simulate_kernel, simulate_py=simulate_kernel)
    return module


def _dtype(module: ModuleType) -> ModuleType:
    """Fill ``module`` with every dtype under its name."""
    from nkisim.dtypes import DTYPES

    module.__doc__ = "The dtypes of NKI, by name."
    vars(module).update(DTYPES, bool_=DTYPES["bool"])
    return module


_MODULES: dict[str, Callable[[ModuleType], ModuleType]] = {
    "nki": _nki,
    "nki.language": _alias("nkisim.language"),
    "nki.isa": _alias("nkisim.isa"),
    "nki.isa.constants": _alias("nkisim.isa.constants"),
    "nki.typing": _alias("nkisim.typing"),
    "nki.collectives": _alias("nkisim.collectives"),
    "nki.dtype": _dtype,
    "nki.compiler": _alias("nkisim.compiler"),
    "nki.simulator": _simulator,
}

_FIRST = {"nki.compiler": "0.7.0", "nki.simulator": "0.5.0"}
"""Modules that the first versions do not have, with the first that has them."""

_FINDER = _NkiFinder()


def _take_loaded() -> dict[str, ModuleType]:
    """Remove ``nki`` and its submodules from ``sys.modules`` and return them."""
    inside = f"{_PACKAGE}."
    names = [name for name in sys.modules if name == _PACKAGE or name.startswith(inside)]
    return {name: sys.modules.pop(name) for name in names}


def _foreign_spec(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """Return the other finders' spec of ``name``, importing nothing."""
    for finder in sys.meta_path:
        find_spec = getattr(finder, "find_spec", None)
        if finder is _FINDER or find_spec is None:
            continue
        spec: ModuleSpec | None = find_spec(name, path, None)
        if spec is not None:
            return spec
    return None


def _written_version(spec: ModuleSpec) -> str | None:
    """Return the ``__version__`` written in a package's ``__init__.py``."""
    if spec.origin is None or not spec.origin.endswith(".py"):
        return None
    with open(spec.origin, encoding="utf-8", errors="replace") as file:
        found = re.search(r"""^__version__\s*=\s*["']([^"']+)""", file.read(), re.MULTILINE)
    return found and found[1]


def _recorded_version() -> str | None:
    """Return the version of the installed distribution ``nki``."""
    from importlib import metadata

    try:
        return metadata.version(_PACKAGE)
    except metadata.PackageNotFoundError:
        return None


def _is_recent(version: str | None) -> bool:
    """Return whether ``version`` is 0.3.0 or later, or unknown."""
    numbers = re.match(r"(\d+)\.(\d+)", version or "")
    return numbers is None or (int(numbers[1]), int(numbers[2])) >= _FIRST_REAL_VERSION
