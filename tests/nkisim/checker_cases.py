"""Files for ``nkisim check``, written for the tests of the command line."""

import textwrap

HEAD = """\
import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt
import numpy as np

"""

GOOD = """\
@nki.jit
def doubled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=t)
    return out
"""

UNWRITTEN = """\
@nki.jit
def unwritten(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=out, src=t)MARK
    return out
"""

WARNED = """\
@nki.jit
def warned(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
    nisa.tensor_tensor(dst=t, data1=t, data2=t, op=nl.add, engine=5)
    nl.store(out, t)
    return out
"""

COMPREHENSION = """\
@nki.jit
def listed(x):
    t = nl.load(x)
    parts = [t[:, i : i + 1] for i in range(2)]
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, t)
    return out
"""

EXAMPLES = """\
def nkisim_examples():
    yield NAME, (np.ones((4, 8), np.float32),)
"""


def write(folder, *parts, name="kernels.py", **replaced):
    """Writes a file of parts; ``MARK`` and ``NAME`` in them are replaced."""
    text = HEAD + "\n\n".join(textwrap.dedent(part) for part in parts)
    for word in ("MARK", "NAME"):
        text = text.replace(word, replaced.get(word, ""))
    path = folder / name
    path.write_text(text)
    return path
