"""Calls without values, of which only the form counts, and what is found in them."""

import numpy as np

import nkisim
import nkisim.language as nl

GEN2, GEN3, GEN4 = "gen2", "gen3", "gen4"
F32, BF16, F16, F8 = nl.float32, nl.bfloat16, nl.float16, nl.float8_e4m3


def told(call, target, cores=1):
    """What is found in a kernel that makes one call: rule and message of each finding."""

    def kernel(present):
        call()

    launched = nkisim.jit(kernel)[cores] if cores > 1 else kernel
    report = nkisim.check(launched, target=target, values=False)(np.zeros((1, 1), np.float32))
    # The kernel is a closure, and its tiles are made and thrown away.
    kept = [f for f in report.findings if f.rule.id[0] not in "LWP" and f.rule.id != "M001"]
    return [f"{finding.rule.id} {finding.message}" for finding in kept]


def tile(shape, dtype=F32, buffer=nl.sbuf, start=0, **options):
    """A tile, or the rows of one from ``start`` on."""
    rows, *columns = shape
    made = nl.ndarray((start + rows, *columns), dtype=dtype, buffer=buffer, **options)
    return made[start : start + rows] if start else made
