#!/usr/bin/env python
"""Check that a chip rounds as the bounds of ``doublefloat`` assume.

    python scripts/arithmetic_probe.py [--on simulator]

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

from trnblas.evidence import SHIFT, probe_inputs
from trnsci.core.backend.launch import Launcher

RECIPROCAL_ERROR = 2.0**-20
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
