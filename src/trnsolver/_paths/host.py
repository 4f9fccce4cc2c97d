"""Routines of LAPACK that torch does not have, as operators of torch with derivatives.

A routine takes and returns tensors; its operator runs on every device by way of the host. The
operator has rules for autograd, torch.func, fake tensors, torch.compile, torch.export and vmap,
from the same parts of the core as an operation with a kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, cast

import torch
from torch.compiler import is_compiling

from trnsci.core.backend.derivatives import make_node
from trnsci.core.interop import constant_to_compile
from trnsci.core.numbers.values import inert, one_cotangent
from trnsolver._paths.batches import folded


class HostRoutine:
    """A function of batches of problems that is computed on the host.

    Args:
        name: Name of the operator in ``torch.ops.trnsolver``.
        compute: Function of numbers and of tensors on the host, with one leading batch dimension;
            it returns one tensor or several. Its annotations are the schema of the operator.
        shape: Function of the same arguments that returns tensors of the results' shapes and
            dtypes, without values.
        backward: ``backward(grads, needed, *args, result)``, as of an ``Operation``.
        jvp: ``jvp(tangents, *args, result)``, as of an ``Operation``.
    """

    def __init__(
        self,
        name: str,
        compute: Callable[..., Any],
        shape: Callable[..., Any],
        backward: Callable[..., Any],
        jvp: Callable[..., Any],
    ) -> None:
        self.name, self._compute, self._shape = name, compute, shape
        self._rules = backward, jvp
        self._lock = Lock()
        self._operator: Any = None
        self._node: Any = None
        self._home: Any = None

    def __call__(self, *args: Any) -> Any:
        """Return the results, with derivatives."""
        tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
        if not is_compiling():
            one_cotangent(f"trnsolver.{self.name}", *tensors)
        if inert(*tensors):
            return self._run(*args)
        self.register()
        return self._operator(*args) if is_compiling() else self._node(*args)

    def register(self) -> bool:
        """Create the operator, if it does not exist yet; return True, a constant to compilers."""
        with self._lock:
            if self._operator is None:
                self._operator = self._registered()
        return True

    def _registered(self) -> Any:
        # Registrations last as long as this object.
        home = self._home = cast(Any, torch.library.Library)("trnsolver", "FRAGMENT")
        schema = torch.library.infer_schema(self._compute, mutates_args=())
        home.define(f"{self.name}{schema}", tags=(torch.Tag.pt2_compliant_tag,))
        operator = getattr(torch.ops.trnsolver, self.name).default
        backward, jvp = self._rules
        self._node, dispatched = make_node(
            f"trnsolver_{self.name}", operator, self._compute, backward, jvp, self._folded, True
        )
        home.impl(self.name, self._run, "CompositeExplicitAutograd")
        home.impl(self.name, dispatched, "Autograd")
        qualified = f"trnsolver::{self.name}"
        torch.library.register_fake(qualified, self._shape, lib=home)
        torch.library.register_vmap(qualified, self._folded, lib=home)
        return operator

    def _run(self, *args: Any) -> Any:
        tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
        home = tensors[0].device
        found = self._compute(*(a.cpu() if isinstance(a, torch.Tensor) else a for a in args))
        if isinstance(found, tuple):
            return tuple(part.to(home) for part in found)
        return found.to(home)

    def _folded(self, info: Any, in_dims: Any, *args: Any) -> tuple[Any, Any]:
        return folded(self, info, in_dims, args)


constant_to_compile(HostRoutine.register)
