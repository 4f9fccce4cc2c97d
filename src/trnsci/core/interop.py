"""The only uses of private torch names.

torch documents the behaviour of ``torch.func``, fake tensors, dispatch modes and forward mode, but
has no public predicate for "is one of them active" and no public context without them. Every such
name is bound here, once, with the reason and with the effect of its absence. They are tested with
torch 2.11 and 2.13; the lowest supported version is 2.9 (Neuron SDK 2.29). All other modules use
these functions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.autograd import forward_ad

F = TypeVar("F", bound=Callable[..., Any])

# private: the level of the innermost torch.func transform, None outside of all; there is no public
# predicate. Without it: AttributeError at import.
transform_level: Callable[[], int | None] = torch._C._functorch.maybe_current_level

# private: whether vmap, grad or jvp wraps a tensor; no public predicate. Without it: AttributeError
# at import.
is_wrapped: Callable[[Tensor], bool] = torch._C._functorch.is_functorch_wrapped_tensor

# private: whether the outermost wrapper of a tensor is that of vmap; no public predicate. Without
# it: AttributeError at import.
is_batched: Callable[[Tensor], bool] = torch._C._functorch.is_batchedtensor

# private: whether a tensor is a batch of cotangents, as ``is_grads_batched`` and ``vectorize`` make
# them; these are not the batches of torch.func, and no public predicate knows them. Without it:
# AttributeError at import.
is_batched_cotangent: Callable[[Tensor], bool] = torch._C._functorch.is_legacy_batchedtensor

# private: the tensor one transform below; no public accessor. Without it: AttributeError at import.
unwrapped: Callable[[Tensor], Tensor] = torch._C._functorch.get_unwrapped

# private: the number of active TorchDispatchModes (fake tensors, tracing); no public predicate.
# Without it: AttributeError at import.
dispatch_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack


def values_are_traced() -> bool:
    """Return whether a mode is active in which tensors are fake or operations are recorded.

    Modes that observe operations on values, such as ``FlopCounterMode``, are none of them.
    """
    # private: no public predicate. Without it: AttributeError at the first call.
    keys = torch._C._TorchDispatchModeKey
    modes = (keys.FAKE, keys.PROXY, keys.FUNCTIONAL)
    # private: the active mode of a kind; see ``keys``.
    return any(torch._C._get_dispatch_mode(mode) is not None for mode in modes)


def forward_level() -> int:
    """Return the level of forward-mode differentiation, -1 outside of it."""
    # private: there is no public predicate. Without it: AttributeError at the first call.
    return forward_ad._current_level


def with_forward_mode(enabled: bool) -> AbstractContextManager[Any]:
    """Return a context that switches the recording of forward-mode derivatives on or off."""
    # private: torch.no_grad leaves forward mode on, and an autograd.Function turns it off inside;
    # no public switch. Without it: AttributeError at the first call.
    return forward_ad._set_fwd_grad_enabled(enabled)


def with_conjugate_views() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """Return two contexts, in both of which conjugate and negative views have their values."""
    # private: graphs of torch.compile exclude both keys, and operators inside of them read such
    # views without the conjugation; no public switch. Without it: AttributeError at the first call.
    included, keys = torch._C._SetExcludeDispatchKeyGuard, torch._C.DispatchKey
    return included(keys.Conjugate, False), included(keys.Negative, False)


def without_transforms() -> AbstractContextManager[Any]:
    """Return a context in which tensors are created outside of all torch.func transforms."""
    if transform_level() is None:
        return nullcontext()
    # private: constants made inside vmap or grad must not belong to the transform; no public name.
    # Without it: ImportError at the first call inside a transform.
    from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

    return temporarily_clear_interpreter_stack()


def without_modes() -> AbstractContextManager[Any]:
    """Return a context in which no dispatch mode (fake tensors, tracing) is active."""
    # private: constants need values even while tracing; no public name. Without it: ImportError
    # at the first call.
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


def dispatch_mode() -> Any:
    """Return the base class of modes that see every operation of torch, below autograd."""
    # private: "Extending PyTorch" documents TorchDispatchMode and its import from this module,
    # which has no public name. Without it: ImportError at the first call.
    from torch.utils._python_dispatch import TorchDispatchMode

    return TorchDispatchMode


def without_function_modes() -> AbstractContextManager[Any]:
    """Return a context in which no function mode, such as a default device, is active."""
    # private: no public name. Without it: AttributeError at the first call.
    return torch._C.DisableTorchFunction()


def constant_to_compile(function: F) -> F:
    """Mark a function whose result for given arguments does not change while a process lives.

    ``torch.compile`` calls it while tracing and takes the result as a constant.
    """
    # private: the public torch.compiler.assume_constant_result sets the same attribute, but imports
    # the whole compiler (a second at package import). Without it: torch.compile traces into the
    # function.
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def compiler_loaded() -> bool:
    """Return whether torch's compiler is imported, without which nothing is traced."""
    # private: its module has no public name. Without it: False, and functions that
    # torch.compiler.disable marks are traced.
    return "torch._dynamo" in sys.modules


def fake_tensor_module() -> Any:
    """Return torch's module of fake tensors, with its mode and its exceptions."""
    # private: FakeTensorMode is documented, but has no public import path. Without it: ImportError.
    from torch._subclasses import fake_tensor

    return fake_tensor


def is_fake(value: Any) -> bool:
    """Return whether this is a fake tensor: it has a shape and a dtype, but no values."""
    return type(value) is not Tensor and isinstance(value, fake_tensor_module().FakeTensor)


def fake_mode() -> Any:
    """Return the active fake tensor mode, or None."""
    # private: no public accessor. Without it: ImportError at the first call.
    from torch._guards import detect_fake_mode

    return detect_fake_mode()


def fake_tensor_mode(**options: Any) -> Any:
    """Return a new fake tensor mode."""
    return fake_tensor_module().FakeTensorMode(**options)


def pytree() -> Any:
    """Return torch's module for trees of tensors."""
    # private: vmap, compile and export accept a class of ours only if it is registered here, and
    # torch has no public path to it. Without it: ImportError.
    from torch.utils import _pytree

    return _pytree


def register_collate(kind: type, collate: Callable[..., Any]) -> None:
    """Register the function by which ``default_collate`` of data loaders stacks a class."""
    # private: the table is documented at torch.utils.data.default_collate, under this path only.
    # Without it: ImportError.
    from torch.utils.data._utils.collate import default_collate_fn_map

    default_collate_fn_map[kind] = collate


def version_of(tensor: Tensor) -> int:
    """Return the number of in-place changes of a tensor so far."""
    # private: no public name for the counter that autograd documents. Without it: AttributeError.
    return 0 if tensor.is_inference() else tensor._version


def versions_of(first: Tensor, second: Tensor) -> tuple[int, int]:
    """Return the versions of two tensors that are no inference tensors."""
    return first._version, second._version  # private: as in ``version_of``


def has_bfloat16_products() -> bool:
    """Return whether oneDNN has hardware bfloat16 matrix products on this processor."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    # private: no public predicate. Without it: products of bfloat16 go through float32.
    supported = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    return supported is not None and bool(supported())


# private: torch's attention for CPUs that also returns the logsumexp of the scores, which blocks
# need to be combined; the public scaled_dot_product_attention drops it. Without it: None, and
# callers compute with matrix products.
flash_attention: Any = getattr(
    torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu", None
)  # private: see above
flash_attention_backward: Any = getattr(  # private: the backward of the operator above
    torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu_backward", None
)


# Nodes of autograd's graph for one transform at a time.

# private: an operator under torch.compile is differentiated level by level, and the public
# autograd.Function serves all levels at once; no public name. Without it: ImportError at import.
SingleLevelFunction = torch.autograd.function._SingleLevelFunction


def single_level() -> AbstractContextManager[Any]:
    """Return a context in which a ``SingleLevelFunction`` may be applied."""
    # private: see SingleLevelFunction.
    from torch._functorch import autograd_function

    module: Any = autograd_function
    context: AbstractContextManager[Any] = module.enable_single_level_autograd_function()
    return context


def below_autograd() -> AbstractContextManager[Any]:
    """Return a context in which operators are dispatched below autograd."""
    # private: the forward of a node must not be recorded a second time, while transforms further
    # below still are; no public name. Without it: AttributeError at the first call.
    return torch._C._AutoDispatchBelowAutograd()


@dataclass(frozen=True)
class Transform:
    """The innermost torch.func transform of the current call.

    Attributes:
        batch_size: The size of the batch of ``vmap``; None for a derivative.
        randomness: The ``randomness`` argument of ``vmap``; None for a derivative.
    """

    batch_size: int | None
    randomness: str | None
    _interpreter: Any

    def lowered(self, values: Sequence[Any]) -> list[tuple[Any, int | None]]:
        """Return values one level below, each with its batch dimension (None if it has none)."""
        # private: torch.func has no public API to draw random numbers below a transform. Without
        # it: ImportError at the first draw inside a transform.
        from torch._C._functorch import _unwrap_batched, _unwrap_for_grad

        level = self._interpreter.level()
        if self.batch_size is None:
            return [
                (_unwrap_for_grad(v, level) if isinstance(v, Tensor) else v, None) for v in values
            ]
        return [_unwrap_batched(v, level) if isinstance(v, Tensor) else (v, None) for v in values]

    def below(self) -> AbstractContextManager[Any]:
        """Return a context one level below the transform."""
        context: AbstractContextManager[Any] = self._interpreter.lower()
        return context

    def batched(self, tensor: Tensor) -> Tensor:
        """Return a tensor whose first dimension is the batch of this ``vmap``."""
        # private: see ``lowered``.
        from torch._C._functorch import _add_batch_dim

        return _add_batch_dim(tensor, 0, self._interpreter.level())


def current_transform() -> Transform | None:
    """Return the innermost torch.func transform, or None outside of all transforms."""
    if transform_level() is None:
        return None
    # private: see ``Transform.lowered``.
    from torch._functorch.pyfunctorch import retrieve_current_functorch_interpreter

    interpreter: Any = retrieve_current_functorch_interpreter()
    if interpreter.key().name != "Vmap":
        return Transform(None, None, interpreter)
    return Transform(interpreter.batch_size(), interpreter.randomness(), interpreter)
