"""One small legal call for every public function of the six libraries.

``CALLS`` holds the arguments by qualified name; ``NOT_CALLS`` lists the public functions that
compute nothing with tensors of the user, and so choose no path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trnsci.core import examples
from trnsci.core.examples import Example, examples_of

__all__ = ["CALLS", "LIBRARIES", "NOT_CALLS", "function_of", "public_functions"]

LIBRARIES = ("trnblas", "trnfft", "trnrand", "trnsolver", "trnsparse", "trntensor")


def function_of(name: str) -> Callable[..., Any]:
    """Return the function with a qualified name such as ``"trnblas.gemm"``."""
    library, _, function = name.partition(".")
    return examples.function_of(library, function)


def public_functions() -> set[str]:
    """Return the qualified names of all functions in ``__all__`` of the six libraries."""
    return {
        f"{library}.{name}" for library in LIBRARIES for name in examples.public_functions(library)
    }


CALLS: dict[str, Example] = {
    f"{library}.{name}": call
    for library in LIBRARIES
    for name, call in examples_of(library).items()
    if name.isidentifier()
}
CALLS["trnsparse.amg_preconditioner"] = CALLS["trnsparse.splu"]  # which needs an optional package

NOT_CALLS = {
    "settings": "backend get_backend set_backend get_precision precision set_precision "
    "checkpoint_contexts fork_rng get_default_generator get_rng_state manual_seed set_rng_state",
    "plans and their caches": "plan_gemm clear_plan_cache plan plan_cache_info "
    "plan_contraction estimate_flops select_precision_for_error",
    "made from numbers": "fftfreq rfftfreq fhtoffset next_fast_len causal_mask chebyshev_coeffs "
    "chebyshev_steps dilated_mask eye_sparse global_window_mask local_window_mask",
    "pictures": "plot_residuals plot_pattern",
    "conversions and descriptions": "from_scipy from_xla to_xla from_dense from_torch_sparse "
    "bandwidth block_ordering permuted rcm",
}
"""Public functions without a path, by the reason."""
