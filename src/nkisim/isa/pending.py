"""Instructions of 0.3.0 that have their name and signature here, but no meaning yet."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NoReturn

from nkisim.spec.enums import engine as Engine

__all__ = ["PENDING"]

PENDING: dict[str, Callable[..., Any]] = {}
"""The functions that raise ``NotImplementedError``, by name."""

_UNKNOWN = {"engine": Engine.unknown}


def _pending(label: str, parameters: str, **defaults: Any) -> Callable[..., Any]:
    """Return a function with the 0.3.0 signature that says it is not simulated yet."""

    def call(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"nisa.{label} is not simulated yet")

    call.__name__ = call.__qualname__ = label
    call.__doc__ = f"Not simulated yet: ``nisa.{label}`` of NKI 0.3.0."
    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                p,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=defaults.get(p, inspect.Parameter.empty),
            )
            for p in parameters.split()
        ]
    )
    PENDING[label] = call
    return call


quantize_mx = _pending("quantize_mx", "dst src dst_scale name", name=None)
nc_matmul_mx = _pending(
    "nc_matmul_mx",
    "dst stationary moving stationary_scale moving_scale tile_position tile_size accumulate name",
    tile_position=None,
    tile_size=None,
    accumulate=None,
    name=None,
)
