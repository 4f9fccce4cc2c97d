"""The code that the finding of a bad twin holds, pasted, mends the kernel.

Nothing is found in it then, and it computes what the good twin computes.
"""

from pathlib import Path

import numpy as np
import pytest

import nkisim
from kernels import GUARDS, TWINS

from . import test_rules  # noqa: F401 (imports all kernels)

PASTED = """
    A001 A002 A012 A014 A034 A035 A036 D002 D003 D010 D013 D022 D036 D045 L029 L060 L060_view M001
    M003 M004 M006 M019 M022 M023 R003 R003_through_hbm S004 S010 S030 S067 S068 W001
"""
MOST_PASTES = 3


def compiled(file, name):
    """The function of a file that declares twins; its declarations do not count."""
    twins, guards = len(TWINS), len(GUARDS)
    scope = {"__name__": file.stem}
    try:
        exec(compile(file.read_text(), str(file), "exec"), scope)
    finally:
        del TWINS[twins:], GUARDS[guards:]
    return scope[name]


def checked(twin, kernel, target, inputs):
    check = nkisim.check(kernel, target=target, source=twin.in_source, **twin.options)
    return check(*twin.arguments(inputs))


@pytest.mark.parametrize("rule", PASTED.split())
def test_pasted_code_mends_the_bad_twin(rule, tmp_path):
    (twin,) = (t for t in TWINS if t.name == rule)
    target = twin.targets[-1]
    text = Path(twin.file).read_text()
    for pastes in range(MOST_PASTES + 1):
        file = tmp_path / f"pasted{pastes}.py"
        file.write_text(text)
        report = checked(twin, compiled(file, twin.bad.__name__), target, twin.inputs)
        if not report.findings:
            break
        assert report.findings[0].rewrite is not None, str(report)
        text = report.findings[0].rewrite.applied(text)
    assert not report.findings, str(report)
    wanted = checked(twin, twin.good, target, twin.mended).outputs
    got, wanted = (np.asarray(x, np.float64) for x in (report.outputs, wanted))
    if got.shape == wanted.shape:
        # Where one of the two rounds an operand to bfloat16, terms are off by 2^-8 of themselves.
        np.testing.assert_allclose(got, wanted, rtol=0, atol=2.0**-7 * np.abs(wanted).max())
