"""The only uses of private torch names, and of ``ctypes``.

torch supports a device that is written in Python (``torch.utils.backend_registration``) under
names that it may still change. Each is bound here once, with the reason. ``require_names`` is the
self-test: where the installed torch lacks one, importing this module raises an error with its name.
"""

from __future__ import annotations

import ctypes  # private: see ``relabelled``
import operator
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

CPU, EXTENSION = 1, 12
"""Types of devices in DLPack; torch takes the second for PrivateUse1."""

NAMES = (
    "utils.backend_registration._setup_privateuseone_for_python_backend",
    "_C._acc.DeviceGuard",
    "_C._acc.PrivateUse1Hooks",
    "_C._autograd.DeviceType",
    "_C._dispatch_get_registrations_for_dispatch_key",
    "_C._ExcludeDispatchKeyGuard",
    "_C._from_dlpack",
    "_C._get_privateuse1_backend_name",
    "_C._len_torch_dispatch_stack",
    "_C._to_dlpack",
    "_C.DispatchKeySet",
    "_neg_view",
    "autograd._profiler_enabled",
    "utils._pytree.register_constant",
)
"""Names that this module uses, without those of torch's compiler: its import takes a second."""


def require_names(names: Sequence[str] = NAMES) -> None:
    """Raise an error that lists the names that this torch does not have; the self-test.

    Raises:
        ImportError: There are such names.
    """
    missing = []
    for name in names:
        try:
            operator.attrgetter(name)(torch)
        except AttributeError:
            missing.append(f"torch.{name}")
    if missing:
        raise ImportError(
            f"nkitorch needs torch 2.11, 2.13, 2.14 or 2.15; torch {torch.__version__} does not "
            f"have {', '.join(missing)}"
        )


require_names()


# -- the device ------------------------------------------------------------------------------------


def device_name() -> str:
    """Return the name of the device type that extensions of torch define."""
    # private: torch.utils.rename_privateuse1_backend has no public counterpart that reads. Without
    # it: ``require_names``.
    return torch._C._get_privateuse1_backend_name()


def register_device(name: str, module: Any) -> None:
    """Rename PrivateUse1, and register what torch expects of a device.

    Args:
        name: The name of the device type.
        module: Becomes ``torch.<name>``.
    """
    from torch.utils import backend_registration

    # private: the hooks of a device that C++ extensions register; torch has no public Python name.
    # Without them: ``require_names``.
    hooks_class: Any = torch._C._acc.PrivateUse1Hooks
    guard_class: Any = torch._C._acc.DeviceGuard  # private: as above

    class Hooks(hooks_class):  # type: ignore[misc]
        def is_available(self) -> bool:
            return True

        def has_primary_context(self, device: int) -> bool:
            return True

        def is_built(self) -> bool:
            return True

    class Guard(guard_class):  # type: ignore[misc]
        def type_(self) -> Any:
            return torch._C._autograd.DeviceType.PrivateUse1  # private: no public enumeration

    # private: "experimental" set-up of PrivateUse1 for a device in Python; the public
    # rename_privateuse1_backend alone lacks hooks and guard. Without it: ``require_names``.
    set_up: Any = backend_registration._setup_privateuseone_for_python_backend
    set_up(name, module, Hooks(), Guard())


_pointer = ctypes.pythonapi.PyCapsule_GetPointer  # private: see ``relabelled``
_pointer.restype = ctypes.c_void_p  # private: as above
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]  # private: as above


def relabelled(tensor: Tensor, kind: int) -> Tensor:
    """Return a tensor with the memory of ``tensor`` as one of another type of device.

    DLPack passes memory between devices of one address space; the type of the device is the first
    word after the pointer to the data (dlpack.h, struct DLTensor). No public function writes it.
    The shared memory lives as long as any tensor that uses it.
    """
    # private: torch.utils.dlpack exports a tensor under its own device only; NumPy knows no other
    # than the CPU. Without them: ``require_names``.
    capsule = torch._C._to_dlpack(tensor)
    # private: the layout of the struct is DLPack's public binary interface.
    ctypes.c_int32.from_address(_pointer(capsule, b"dltensor") + 8).value = kind
    found: Tensor = torch._C._from_dlpack(capsule)  # private: as ``_to_dlpack``
    return found


# private: a kernel of torch's own CPU device that only makes a view of any tensor; no public way to
# call one kernel of an operator. Without it: ``require_names``.
_CPU_KERNELS = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)


def with_cpu_kernel(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the CPU kernel of an operator that reads no memory, such as a view, with any tensors."""
    return op.redispatch(_CPU_KERNELS, *args, **kwargs)


def negative_view(tensor: Tensor) -> Tensor:
    """Return the negative of a tensor as a view."""
    return torch._neg_view(tensor)  # private: no public name; ``x.conj().imag`` is such a view


def schema_of(op: Any) -> Any:
    """Return the schema of an operator: arguments, results, what it writes and what aliases."""
    return op._schema  # private: torch documents schemas, but no accessor of an overload's


def without_autocast() -> AbstractContextManager[Any]:
    """Return a context in which operators on the device are not cast again."""
    # private: the public ``torch.autocast(enabled=False)`` costs microseconds for each operator.
    keys: Any = torch._C.DispatchKey  # private: as above
    only = torch._C.DispatchKeySet(keys.AutocastPrivateUse1)  # private: as above
    return torch._C._ExcludeDispatchKeyGuard(only)  # private: as above


def library(name: str, kind: str) -> Any:
    """Return a library of operators; torch's class has no annotations."""
    make: Any = torch.library.Library
    return make(name, kind)


# -- graphs ----------------------------------------------------------------------------------------


def traced_through(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function as one node for ``torch.compile``, whose operators the compiler sees."""
    # private: torch documents it under this name only. Without it: AttributeError, when the
    # compiler is imported.
    import torch._dynamo

    # private: as above
    wrapped: Callable[..., Any] = torch._dynamo.nonstrict_trace(function)
    return wrapped


def register_constant(kind: type) -> None:
    """Make objects of a class constants of compiled graphs."""
    # private: torch documents it under this name only. Without it: ImportError, as above.
    from torch.utils._pytree import register_constant as register

    register(kind)


def register_backend(name: str, run: Callable[[Any], Callable[..., Any]]) -> None:
    """Register a backend of ``torch.compile`` for graphs of functional operators.

    Args:
        name: Its name.
        run: Returns a function of a list of inputs that computes a graph.
    """
    # private: torch.compile documents custom backends with this import path. Without it:
    # ImportError, when the compiler is imported.
    from torch._dynamo import register_backend as register

    def backend(graph: Any, inputs: Any, **options: Any) -> Any:
        # private: as above; imported here because the compiler's modules import each other
        from torch._dynamo.backends.common import aot_autograd

        return aot_autograd(fw_compiler=lambda inner, _: run(inner))(graph, inputs, **options)

    register(backend, name=name)


def boxed(graph: Any) -> Callable[..., Any]:
    """Return a graph as a function that takes ownership of a list of inputs."""
    # private: the form that graphs traced ahead of time have; documented with ``aot_autograd``.
    compile: Any = import_module("functorch.compile")
    function: Callable[..., Any] = compile.make_boxed_func(graph.forward)
    return function


def register_decomposition(operator: Any, body: Callable[..., Any]) -> None:
    """Make a custom operator appear in functional graphs as what its body calls."""
    # private: the mode in which the compiler removes writes; torch.library documents rules for
    # modes, but not this one. Without it: ImportError, as above.
    from torch._subclasses.functional_tensor import FunctionalTensorMode

    def decomposed(mode: Any, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with mode:
            return body(*args, **(kwargs or {}))

    operator.register_torch_dispatch(FunctionalTensorMode, decomposed)


def calling_code() -> list[str]:
    """Return the beginnings of paths of torch's code that calls operators."""
    root = os.path.dirname(torch.__file__)
    # private: files between a user's call and an operator's kernel. Without them: a warning names
    # a line of torch.
    return [os.path.join(root, name) for name in ("_ops.py", "_library", "_dynamo")]


def is_traced() -> bool:
    """Return whether a mode is active in which tensors are fake or operations are recorded."""
    return torch._C._len_torch_dispatch_stack() > 0  # private: no public predicate


def profiler_is_on() -> bool:
    """Return whether ``torch.profiler`` records."""
    module: Any = torch.autograd
    return bool(module._profiler_enabled())  # private: no public predicate


def composed_operators() -> list[str]:
    """Return the operators that torch composes of others where a device has no kernel of them.

    Some take several calls in Python then, and layer and group norms a formula that rounds
    otherwise than the CPU's.
    """
    # private: no public list of kernels. Without it: an operator takes three times as long.
    names = torch._C._dispatch_get_registrations_for_dispatch_key
    found = {
        *names("CompositeExplicitAutogradNonFunctional"),
        *set(names("CompositeExplicitAutograd")).intersection(names("CPU")),
    }
    return [name.removeprefix("aten::") for name in found if name.startswith("aten::")]


def collectives() -> list[str]:
    """Return the operators of ``torch.distributed`` that a device in C++ has kernels for."""
    # private: no public list of kernels. Without it: collectives have no backend for the device.
    names = torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1")
    return sorted(name for name in names if name.startswith("c10d::"))
