"""What a verdict depends on besides the kernel and the reference."""

from __future__ import annotations

from dataclasses import dataclass, field

from nkisim.judging.child import Limits
from nkisim.trials.comparison import require_float


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What a verdict depends on besides the kernel and the reference.

    Attributes:
        target: Generation or instance; None as for ``simulate``.
        nki: NKI version; None as for ``simulate``.
        limits: Limits of the child process.
        tolerance: Relative tolerance; None derives it from types and sums.
        out_dtype: Narrowest float type of outputs; None for that of inputs and reference.
        hostile: Whether to try values that are hard on arithmetic.
        shapes: Whether to try shapes that were not given.
        nonfinite: Whether to try infinities.
        advice: Whether to search for faster code.
        seed: Seed of all values; None draws one.
    """

    target: str | None = None
    nki: str | None = None
    limits: Limits = field(default_factory=Limits)
    tolerance: float | None = None
    out_dtype: str | None = None
    hostile: bool = True
    shapes: bool = True
    nonfinite: bool = False
    advice: bool = True
    seed: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "out_dtype", require_float(self.out_dtype))
