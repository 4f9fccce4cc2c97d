"""Import hook for torch programs: loads ``nkitorch`` with torch, by name.

nkisim itself never imports torch. While ``nkisim.install`` is in effect, ``nkitorch`` is imported
as soon as torch has been, and answers the names of AWS's extensions of torch where those are
absent.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType

EXTENSIONS = ("torch_neuronx", "libtorch_neuronx_lite", "torch_xla")
"""Packages of AWS, or for its devices, that programs import."""


def install() -> None:
    """Load ``nkitorch`` with torch, from now on or at once; a second call changes nothing."""
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    _FINDER.serving = True
    after_import("torch", "nkitorch")
    if "nkitorch.front_end" in sys.modules:
        sys.modules["nkitorch.front_end"].enable()


def uninstall() -> None:
    """Undo ``install``, except what ``nkitorch`` has registered with torch."""
    _FINDER.serving = False
    _FINDER.followers.pop("torch", None)
    if "nkitorch.front_end" in sys.modules:
        sys.modules["nkitorch.front_end"].disable()
    named = [name for name in sys.modules if name.startswith(EXTENSIONS)]
    for name in named:
        if _is_stand_in(sys.modules[name]):
            del sys.modules[name]


def after_import(name: str, follower: str) -> None:
    """Import the module ``follower`` as soon as the module ``name`` has been imported."""
    if follower in sys.modules:
        return
    if name in sys.modules:
        _follow(name, follower)
        return
    _FINDER.followers[name] = follower
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)


def _follow(name: str, follower: str) -> None:
    if name == "torch" and _FINDER.foreign_spec(EXTENSIONS[0], None) is not None:
        return  # AWS's own device takes the place
    try:
        import_module(follower)
    except ImportError as error:
        # A program that only needs torch goes on; kernels still take its CPU tensors.
        warnings.warn(f'there is no device "neuron": {error}', RuntimeWarning, stacklevel=2)


def _is_stand_in(module: object) -> bool:
    return getattr(getattr(module, "__spec__", None), "loader", None) is _FINDER


class _Finder:
    """Finds modules that others follow, and the stand-ins for extensions of torch.

    Attributes:
        followers: Modules to import after others, by the name of the other.
        serving: Whether the stand-ins are served.
    """

    def __init__(self) -> None:
        self.followers: dict[str, str] = {}
        self.serving = False

    def foreign_spec(self, name: str, path: Sequence[str] | None) -> ModuleSpec | None:
        """Return the other finders' spec of ``name``, importing nothing."""
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, None) if find else None
            if spec is not None:
                return spec
        return None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in self.followers:
            return self._followed(fullname, path)
        root = fullname.partition(".")[0]
        if not self.serving or root not in EXTENSIONS:
            return None
        if root in sys.modules and not _is_stand_in(sys.modules[root]):
            return None
        if self.foreign_spec(root, None) is not None:
            return None
        try:
            modules = import_module("nkitorch.programs").MODULES
        except ModuleNotFoundError:  # without torch
            return None
        if fullname not in modules:
            return None
        # The base class that is missing is in importlib.abc, which loads a dozen modules.
        return spec_from_loader(fullname, self, is_package=True)  # type: ignore[arg-type]

    def _followed(self, name: str, path: Sequence[str] | None) -> ModuleSpec | None:
        """Return the spec of a module, whose follower is imported once it has run."""
        spec = self.foreign_spec(name, path)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            follower = self.followers.pop(name, None)
            if follower is not None:
                _follow(name, follower)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        names = import_module("nkitorch.programs").MODULES[module.__name__]
        vars(module).update(names, __doc__="Simulated by nkisim.")


_FINDER = _Finder()
