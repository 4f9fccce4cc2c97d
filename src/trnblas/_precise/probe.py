"""Check that a chip rounds as the bounds of ``doublefloat`` assume.

    python -m trnblas._precise.probe [--on simulator]

Prints the assumed and the observed bits of each kind of operation. The exit status is 1 if an
operation is not as assumed. Subnormal results may be kept or flushed to 0: the bounds allow both,
so that is reported only.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trnsci.core.backend.launch import Launcher
from trnsci.core.tiles.hardware import TILE

RECIPROCAL_ERROR = 2.0**-20
COLUMNS, DEPTH = 512, 4096
SHIFT = 1.5 * 2.0**17  # rounds to multiples of 2**-6, the first digit
_TIE = 2.0**-24
_CHOSEN = (
    # Sums: ties to even, both ways; just above and below a tie; next to a power of two; exact.
    (1.0, _TIE),
    (1 + 2 * _TIE, _TIE),
    (1.0, _TIE * (1 + 2.0**-20)),
    (1 + 2 * _TIE, _TIE * (1 - 2.0**-20)),
    (1.0, -_TIE / 2),
    (2.0**12, 2.0**-12),
    (1.0, -(1 - _TIE)),
    # Products: ties, and the largest fractions.
    (1 + 2.0**-12, 1 + 2.0**-12),
    (1 + 3 * 2.0**-12, 1 + 2.0**-12),
    (2 - 2 * _TIE, 2 - 2 * _TIE),
    # Digits: ties to even.
    (2.0**-7, 1.0),
    (3 * 2.0**-7, 1.0),
    (-(2.0**-7), 1.0),
    # Values of bfloat16 and float16: ties to even.
    (1 + 2.0**-8, 1.0),
    (1 + 3 * 2.0**-8, 1.0),
    (1 + 2.0**-11, 1.0),
    (1 + 3 * 2.0**-11, 1.0),
    # Subnormal results, the first in float16.
    (3 * 2.0**-20, 1.0),
    (2.0**-100, 2.0**-30),
    (1.5 * 2.0**-126, 2.0**-126),
)
_SMALLEST = {"float16 value": 2.0**-14}  # normal result, if it is not that of float32


@dataclass(frozen=True)
class Check:
    """One kind of operation.

    Attributes:
        kind: The operation.
        operands: Operands of the case that is shown: the first wrong one, else the first.
        assumed: Bits of its result as assumed, in hexadecimal digits.
        observed: Bits of its result on the chip.
        wrong: Cases that are not as assumed.
        cases: All cases.
        subnormal: What became of subnormal results: ``"kept"``, ``"flushed"`` or the empty string.
    """

    kind: str
    operands: str
    assumed: str
    observed: str
    wrong: int
    cases: int
    subnormal: str = ""


def probe_inputs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return operands of elementwise operations, and the digits of a product.

    Operands are the same on each partition: rounding that varies shows as a wrong case. Sums of
    products of digits reach 2**24, and 2**24 - 127, which has 24 bits.
    """
    generator = torch.Generator().manual_seed(0)
    chosen = torch.tensor(_CHOSEN).T
    size = COLUMNS - chosen.shape[1]
    fractions = 1 + torch.rand(2, size, generator=generator)
    exponents = torch.randint(-12, 13, (2, size), generator=generator)
    signs = 1 - 2 * torch.randint(0, 2, (2, size), generator=generator)
    drawn = torch.ldexp(fractions * signs, exponents)
    a, b = torch.cat([chosen, drawn], 1)[:, None, :].expand(2, TILE, COLUMNS).contiguous()
    digits = torch.randint(-64, 65, (2, DEPTH, 8), generator=generator)
    digits[:, :, 0:2] = 64
    digits[:, -1, 1] = 63
    left, right = digits.to(torch.bfloat16)
    return a, b, left, right


def probe(launch: Any) -> list[Check]:
    """Return the checks of all kinds, from one launch."""
    from trnblas._kernels.arithmetic_probe import KINDS, arithmetic_probe

    a, b, left, right = probe_inputs()
    observed, sums = launch(arithmetic_probe, a, b, left, right, SHIFT)
    assumed = (
        a + b,
        a - b,
        a * b,
        a + b,
        a - b,
        (a + SHIFT) - SHIFT,
        a,
        a.to(torch.bfloat16).float(),
        a.to(torch.float16).float(),
        1 / a,
    )
    pairs = list(zip(a[0].tolist(), b[0].tolist(), strict=True))
    checks = []
    for kind, want, got in zip(KINDS, assumed, observed.cpu(), strict=True):
        checks.append(_check(kind, pairs, want, got))
    exact = (left.double().T @ right.double()).float()
    places = [(float(i), float(j)) for i in range(8) for j in range(8)]
    checks.append(_check("PSUM sum", places, exact.reshape(1, -1), sums.cpu().reshape(1, -1)))
    return checks


def _check(kind: str, operands: list[tuple[float, float]], want: Tensor, got: Tensor) -> Check:
    """Return the check of one kind; ``want`` and ``got`` have a column for each case."""
    if kind == "reciprocal":
        as_assumed = (got.double() * (1 / want.double()) - 1).abs() <= RECIPROCAL_ERROR
    else:
        as_assumed = got.view(torch.int32) == want.view(torch.int32)
    small = (want.abs() < _SMALLEST.get(kind, 2.0**-126)) & (want != 0)
    flushed = small & (got == 0)
    wrong = ~(as_assumed | flushed).all(0)
    subnormal = ""
    if bool(small.any()):
        subnormal = "flushed" if bool(flushed.any()) else "kept"
    column = int(wrong.int().argmax())
    row = int((~(as_assumed | flushed))[:, column].int().argmax())
    return Check(
        kind,
        " ".join(x.hex() for x in operands[column]),
        _bits(want[row, column]),
        _bits(got[row, column]),
        int(wrong.sum()),
        want.shape[1],
        subnormal,
    )


def _bits(value: Tensor) -> str:
    return f"{int(value.view(torch.int32)) & 0xFFFFFFFF:08x}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the checks; return 1 if an operation is not as assumed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--on", choices=["device", "simulator"], default="device")
    on = parser.parse_args(arguments).on
    checks = probe(Launcher("nki" if on == "device" else "simulator"))
    print(f"{'operation':<18} {'wrong':>9}  {'assumed':<8}  {'observed':<8}  subnormal  operands")
    for check in checks:
        counted = f"{check.wrong}/{check.cases}"
        print(
            f"{check.kind:<18} {counted:>9}  {check.assumed:<8}  {check.observed:<8}  "
            f"{check.subnormal or '-':<9}  {check.operands}"
        )
    wrong = [check.kind for check in checks if check.wrong]
    if wrong:
        print(
            f"error: {', '.join(wrong)}: not rounded as assumed; the error bounds of 'doublefloat' "
            f"do not hold on this chip",
            file=sys.stderr,
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
