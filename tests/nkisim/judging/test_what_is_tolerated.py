"""Dtypes of outputs, findings about values that a reference cannot take, and what is printed."""

import numpy as np
import pytest

from nkisim.judging import Settings

from .judged import verdict_of

HEAD = """
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def kernel(x):
    tile = nl.load(x)
"""
TAIL = """
    out = nl.ndarray(x.shape, dtype=nl.{kind}, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out
"""
ZEROS = "    nisa.memset(tile, value=0.0)"
ROOT = "    tile = nl.sqrt(nl.multiply(tile, tile))"


def judged(folder, body, kind, reference, **settings):
    text = HEAD + body + TAIL.format(kind=kind)
    return verdict_of(folder, text, "kernel", reference, "x=f32[128,8]", shapes=False, **settings)


@pytest.mark.parametrize("kind", ["int32", "float8_e5m2"])
def test_zeros_are_wrong(kind, tmp_path):
    def reference(x):
        return np.round(100 * x)

    verdict = judged(tmp_path, ZEROS, kind, reference, out_dtype="float8_e5m2")
    assert (verdict.outcome, verdict.faults[0].kind) == ("wrong", "result"), verdict


def test_the_domain_of_a_function_that_the_reference_has_too(tmp_path):
    verdict = judged(tmp_path, ROOT, "float32", lambda x: np.sqrt(x * x))
    assert verdict.passed, verdict
    (finding,) = verdict.findings
    assert (finding["rule"], finding["severity"]) == ("D021", "note")
    assert "  dtypes      float32; the reference's float32\n" in str(verdict)
    assert "  tolerance   float32 within 5.5e-06 of the element (one rounding, and 91" in str(
        verdict
    )


def test_the_domain_of_a_function_that_the_reference_has_not(tmp_path):
    squared = ROOT + "\n    tile = nl.multiply(tile, tile)"
    verdict = judged(tmp_path, squared, "float32", lambda x: x * x)
    assert (verdict.outcome, verdict.faults[0].kind) == ("refused", "D021"), verdict


def test_a_narrower_output_is_named(tmp_path):
    refused = judged(tmp_path, "", "bfloat16", lambda x: x)
    assert refused.faults[0].text.endswith("a narrower one needs --out-dtype bfloat16")
    assert judged(tmp_path, "", "bfloat16", lambda x: x, out_dtype="bf16").passed


def test_a_type_that_is_no_float():
    with pytest.raises(ValueError, match="out_dtype: got 'int8'"):
        Settings(out_dtype="int8")
