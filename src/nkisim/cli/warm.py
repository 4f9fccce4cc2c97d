"""Imported once by the process whose forks run commands: what every request would import."""

import io
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import numpy as np

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from nkisim.cli.group import commands
from nkisim.filecheck import all_rules
from nkisim.spec.signatures import compile_all


@nkisim.jit
def _softmax(x: Any, w: Any) -> Any:
    out = nl.ndarray((64, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    left = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    right = nl.ndarray(w.shape, dtype=w.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=x)
    nisa.dma_copy(dst=right, src=w)
    product = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=product, stationary=left, moving=right)
    largest = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=largest, op=nl.maximum, data=product, axis=1, negate=True)
    tile = nl.ndarray((64, 64), dtype=x.dtype, buffer=nl.sbuf)
    nisa.activation(dst=tile, op=nl.exp, data=product, bias=largest)
    total = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)
    nisa.reciprocal(dst=total, data=total)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
    nisa.dma_copy(dst=out, src=tile)
    return out


def nkisim_examples() -> list[Any]:
    """Return the arguments of the kernel."""
    array = np.ones((128, 64), np.float32)
    return [(_softmax, (array, array))]


def rehearse() -> None:
    """Check and profile the kernel of this file, as requests do with theirs."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        for command in ("check", "profile"):
            commands.main([command, __file__, "--format", "json"], standalone_mode=False)


all_rules()
compile_all()
with redirect_stdout(io.StringIO()):
    commands.main(["rules", "psum"], standalone_mode=False)
