"""Names of published releases, for code written for them: ``from trnfft import create_plan``.

They are neither in ``trnfft.__all__`` nor on the reference page. ``INSTEAD`` has their
replacements.
"""

from __future__ import annotations

from trnfft.plans import FFTPlan, plan
from trnsci.core.arguments import flag, whole
from trnsci.core.errors import FlagError, ShapeError

__all__ = ["create_plan", "set_ozaki_product_precision_verified"]

INSTEAD = {
    "create_plan": 'plan((n,)), or plan((n,), kind="ifft")',
    "set_ozaki_product_precision_verified": "nothing: the modes that it enabled are names of fp32",
}
"""The replacement of each name."""


def create_plan(n: int, inverse: bool = False) -> FFTPlan:
    """Return the plan of one float32 transform of n points.

    Raises:
        FlagError: ``inverse`` is not a bool.
        ShapeError: n is below 1. A ShapeError is also a ValueError.
    """
    flag("create_plan", "inverse", inverse)
    n = whole("create_plan", "n", n)
    if n < 1:
        raise ShapeError(f"create_plan: n must be at least 1, got {n}")
    return plan((n,), kind="ifft" if inverse else "fft")


def set_ozaki_product_precision_verified(verified: bool = True) -> None:
    """Check the argument and do nothing.

    Raises:
        FlagError: ``verified`` is not a bool.
    """
    if not isinstance(verified, bool):
        raise FlagError(
            f"set_ozaki_product_precision_verified: verified must be a bool, got {verified!r}"
        )
