"""An operation that torch and an NKI kernel can both compute.

The choice is made once, here, for every operation of every library. On the torch path the
reference is called and nothing else happens. On a kernel path the call goes through a torch custom
operator ``torch.ops.<library>.<name>``, so that autograd, FakeTensor, torch.compile and vmap know
what it does without running it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from trnsci.core._tracing import constant_to_compile
from trnsci.core.backend import Library, Path
from trnsci.core.errors import KernelError
from trnsci.core.explanation import Step, note, recording
from trnsci.core.fallback import report_fallback
from trnsci.core.launch import Launcher

__all__ = ["Operation"]


class Operation:
    """An operation with a torch reference and a kernel.

    Args:
        library: Whose backend decides.
        name: Name of the operation within the library.
        reference: Torch function of the operation's arguments, differentiable and out of place; its
            annotations (``Tensor``, ``Tensor | None``, ``float``, ``int``, ``bool``, ``str``) give
            the custom operator its schema, unless ``fake`` does.
        launch: A function, or ``"module:function"`` to be imported at the first kernel call. It
            gets a ``Launcher`` and the operation's arguments, calls ``launcher(kernel, *args)`` at
            least once, and returns a tensor of the reference's shape and dtype.
        fake: Function of the arguments that returns a tensor of the result's shape and dtype
            without computing; None runs the reference on tensors without values.
        backward: ``backward(grad, needed, *args)`` returns one gradient for each argument, None
            where ``needed`` (one bool for each argument) is False; None differentiates the
            reference.
        dtypes: Names of the dtypes that the kernel takes; a call with a tensor of any other runs
            on torch.
        flops: Function of the arguments that returns how much work a call is.
        min_flops: Work below which backend ``"auto"`` runs on torch even where a NeuronCore is
            present, since a launch would take longer.
        unsuited: Function of the arguments that returns why the kernel does not take them, or the
            empty string.
    """

    def __init__(
        self,
        library: Library,
        name: str,
        *,
        reference: Callable[..., Tensor],
        launch: str | Callable[..., Tensor],
        fake: Callable[..., Tensor] | None = None,
        backward: Callable[..., tuple[Tensor | None, ...]] | None = None,
        dtypes: tuple[str, ...] = ("float32", "bfloat16"),
        flops: Callable[..., float] | None = None,
        min_flops: float = 2e9,
        unsuited: Callable[..., str] | None = None,
    ) -> None:
        self.library = library
        self.name = name
        self.qualified_name = f"{library.name}.{name}"
        self.reference = reference
        self.dtypes = frozenset(getattr(torch, dtype) for dtype in dtypes)
        self.min_flops = min_flops
        self._launch = launch
        self._fake = fake or reference
        self._backward = backward or self._reference_backward
        self._flops = flops
        self._unsuited = unsuited
        # torch.compile cannot format a number that may be dynamic to it.
        self._too_small = f"a launch is worth at least {min_flops:.3g} flops"
        self._operator: Any = None
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"<operation {self.qualified_name}>"

    def __call__(self, *args: Any) -> Tensor:
        """Return the result, by the path that the backend and the arguments ask for."""
        if not self.library.kernels_wanted():
            return self.reference(*args)
        path, reason = self.choose(*args)
        if recording():
            note(Step(self.qualified_name, path, reason))
            return self.shape_of_result(*args)
        if path == "pytorch":
            return self.reference(*args)
        self.register()
        result: Tensor = self._operator(*args)
        return result

    def choose(self, *args: Any) -> tuple[Path, str]:
        """Return the path that a call takes now, and why."""
        path = self.library.path()
        requested = self.library.get_backend()
        if path == "pytorch":
            return path, (
                "backend 'pytorch' is set"
                if requested == "pytorch"
                else "backend 'auto' finds no NeuronCore with AWS's NKI"
            )
        for arg in args:
            if isinstance(arg, Tensor):
                if arg.dtype not in self.dtypes:
                    return "pytorch", f"the kernel does not take {arg.dtype}"
                if arg.numel() == 0:
                    return "pytorch", "an operand is empty"
        unsuited = self._unsuited(*args) if self._unsuited is not None else ""
        if unsuited:
            return "pytorch", unsuited
        if requested == "auto" and path == "nki":
            if self._flops is not None and self._flops(*args) < self.min_flops:
                return "pytorch", self._too_small
            return path, "backend 'auto' finds a NeuronCore with AWS's NKI"
        if requested != path:
            return path, f"{self.library.use_simulator.name} or its umbrella is on"
        return path, f"backend {requested!r} is set"

    def shape_of_result(self, *args: Any) -> Tensor:
        """Return a dense tensor like the result; on tensors without values it computes nothing."""
        return torch.empty_like(self._fake(*args), memory_format=torch.contiguous_format)

    def register(self) -> bool:
        """Make the torch custom operator, if there is none yet; return True.

        torch.compile takes the answer for a constant, and so runs this while it traces.
        """
        with self._lock:
            if self._operator is None:
                operator = torch.library.custom_op(
                    f"{self.library.name}::{self.name}",
                    self._run,
                    mutates_args=(),
                    schema=torch.library.infer_schema(self._fake, mutates_args=()),
                )
                operator.register_fake(self.shape_of_result)
                operator.register_autograd(self._differentiate, setup_context=_save_arguments)
                operator.register_vmap(self._each)
                namespace = getattr(torch.ops, self.library.name)
                self._operator = getattr(namespace, self.name).default
        return True

    def _run(self, *args: Any) -> Tensor:
        """Compute the result with the kernel; if that fails, with torch."""
        path = self.library.path()
        if path == "pytorch":  # chosen after the call was compiled
            return _own(self.reference(*args), args)
        try:
            return self._run_kernel(Launcher(path), *args).contiguous()
        except Exception as error:
            if self.library.require_nki.is_on():
                raise
            report_fallback(self.qualified_name, error, self.library.require_nki.name)
            return _own(self.reference(*args), args)

    def _run_kernel(self, launcher: Launcher, *args: Any) -> Tensor:
        if launcher.path == "nki" and not self.library.has_nki:
            raise self.library.no_nki(self.name)
        launch = self._launch
        if isinstance(launch, str):
            module, _, function = launch.partition(":")
            launch = getattr(import_module(module), function)
        result: object = launch(launcher, *args)
        if not launcher.launches:
            raise KernelError(f"{self.qualified_name}: {self._launch!r} launched no kernel")
        if not isinstance(result, Tensor):
            raise KernelError(
                f"{self.qualified_name}: {self._launch!r} returned a {type(result).__name__}, "
                f"not a tensor"
            )
        return result

    def _differentiate(self, ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        args = list(ctx.arguments)
        for place, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            args[place] = tensor
        return self._backward(grad, ctx.needs_input_grad, *args)

    def _reference_backward(
        self, grad: Tensor, needed: tuple[bool, ...], *args: Any
    ) -> tuple[Tensor | None, ...]:
        """Return the gradients of the reference, which is computed again for them."""
        places = [place for place, wanted in enumerate(needed) if wanted]

        def of_needed(*tensors: Tensor) -> Tensor:
            full = list(args)
            for place, tensor in zip(places, tensors, strict=True):
                full[place] = tensor
            return self.reference(*full)

        pull = torch.func.vjp(of_needed, *(args[place] for place in places))[1]
        grads: list[Tensor | None] = [None] * len(args)
        for place, found in zip(places, pull(grad), strict=True):
            grads[place] = found
        return tuple(grads)

    def _each(self, info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Tensor, int]:
        """Compute a batch made by vmap, one launch for each entry."""
        results = []
        for index in range(info.batch_size):
            entry = [
                arg if dim is None else arg.select(dim, index)
                for arg, dim in zip(args, in_dims, strict=True)
            ]
            results.append(self(*entry))
        return torch.stack(results), 0


constant_to_compile(Operation.register)


def _save_arguments(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.places = [place for place, arg in enumerate(inputs) if isinstance(arg, Tensor)]
    ctx.arguments = [None if isinstance(arg, Tensor) else arg for arg in inputs]
    ctx.save_for_backward(*(inputs[place] for place in ctx.places))


def _own(result: Tensor, args: tuple[Any, ...]) -> Tensor:
    """Return ``result`` dense and in memory of its own, as a custom operator must."""
    dense = result.contiguous()
    memory = dense.untyped_storage().data_ptr()
    shared = any(isinstance(a, Tensor) and a.untyped_storage().data_ptr() == memory for a in args)
    return dense.clone() if shared else dense
