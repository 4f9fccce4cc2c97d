"""Trials: kernels made from edited texts, and what a trial refuses."""

import functools

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from nkisim.options import SimOptions
from nkisim.runs.process_ledger import close_ledger, open_ledger
from nkisim.trials import Arguments, Trials, kernel_file


def loaded(x, i):
    tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
    return tile


@nkisim.jit
def scaled(x, factor=2.0):
    """Blocks of rows, times a factor."""
    assert x.shape[0] % 128 == 0
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(x.shape[0] // 128):
        tile = loaded(x, i)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=tile)
    return out


def closed_over(factor):
    def helper(tile):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)

    @nkisim.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = loaded(x, 0)
        helper(tile)
        nisa.dma_copy(dst=out, src=tile)
        return out

    return kernel


class Scaling:
    def __init__(self, factor):
        self.factor = factor

    def kernel(self, x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = loaded(x, 0)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=self.factor)
        nisa.dma_copy(dst=out, src=tile)
        return out


KERNELS = [
    scaled,
    functools.partial(scaled, factor=3.0),
    closed_over(4.0),
    Scaling(5.0).kernel,
]


@pytest.mark.parametrize("kernel", KERNELS, ids=["plain", "bound", "closure", "method"])
def test_an_edited_kernel_has_the_new_code_of_all_functions_and_the_old_values(kernel):
    """Addition in place of multiplication, in the kernel or its helper; factors stay."""
    made = nkisim.api.as_kernel(kernel)
    file = kernel_file(made)
    edited = file.edited(file.file.text.replace("op0=nl.multiply", "op0=nl.add"))
    x = np.full((128, 8), 10.0, np.float32)
    before, after = (nkisim.simulate(k)(x) for k in (kernel, edited))
    factor = before[0, 0] / 10
    assert (after == 10 + factor).all()
    assert nkisim.check(edited)(x).ok
    file.forget(edited)
    assert (nkisim.simulate(kernel)(x) == before).all()


def test_a_kernel_without_source_has_no_file():
    names = {}
    exec("def made(x):\n    return x\n", names)
    assert kernel_file(nkisim.jit(names["made"])) is None


def trials_of(kernel, *arguments):
    def latency(tried):
        return nkisim.profile(tried, advice=False)(*arguments).latency_us

    options = SimOptions(strictness="check", target="gen3")
    return Trials(kernel, options, Arguments(arguments, {}), latency, 100)


X = np.full((512, 64), 2.0, np.float32)
LOAD = "nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])"
REFUSED = {
    "not Python": (LOAD, LOAD + ")"),
    "another result": ("operand0=factor)", "operand0=factor + 1e-6)"),
    "another result for other values": ("op0=nl.multiply", "op0=nl.add"),
    "right for one shape": ("nl.affine_range(x.shape[0] // 128)", "nl.affine_range(4)"),
    "an error": (LOAD, LOAD.replace("dst=tile", "dst=x[:128]")),
    "an exception": (LOAD, "raise RuntimeError"),
    "a wrong engine": ("operand0=factor)", "operand0=factor, engine=nisa.engine.tensor)"),
}


def test_a_trial_accepts_what_computes_the_same():
    trials = trials_of(scaled, X)
    text = trials.file.file.text
    other = text.replace(LOAD, LOAD[:-1] + ", dge_mode=nisa.dge_mode.hwdge)")
    before, after = (trials.tried(t, 1e9) for t in (text, other))
    assert before.change == after.change == 0.0
    assert before.latency_us == nkisim.profile(scaled, advice=False)(X).latency_us
    assert after.latency_us != before.latency_us
    assert trials.tried(text, before.latency_us - 1e-6) is None


@pytest.mark.parametrize("reason", [*REFUSED])
def test_a_trial_refuses(reason):
    trials = trials_of(scaled, X)
    old, new = REFUSED[reason]
    text = trials.file.file.text
    assert old in text
    assert trials.tried(text.replace(old, new, 1), 1e9) is None


def test_trials_are_not_runs_of_the_user():
    open_ledger()
    nkisim.profile(scaled)(np.ones((1024, 512), np.float32))
    (record,) = close_ledger().kernels.values()
    assert record.name == "scaled"


def test_arguments_of_the_user_stay_as_they_are():
    x = np.ones((1024, 512), np.float32)
    nkisim.profile(scaled)(x)
    assert (x == 1).all()
