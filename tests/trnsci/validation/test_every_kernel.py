"""Every kernel of every library has a case, and the case passes on each path this machine has."""

import importlib
import re

import pytest

from each_case import each_case
from trnsci.core.backend.device import neuron_device
from trnsci.core.evidence import kernels_of
from trnsci.validation import GENERATIONS, LIBRARIES, run_case

KERNELS = [(library, source.name) for library in LIBRARIES for source in kernels_of(library)]
EVERY_KERNEL = pytest.mark.parametrize(("library", "kernel"), KERNELS)
# Of the cases that take longest `make demo` shows the same, and the tests of the kernels themselves
# compare their results in every run; test_campaign.py validates the first three.
LONG = {
    *("gemmt", "symm", "trmm"),
    *("batched_pair_energy", "batched_trsm", "float16x3_gemm", "gemm", "mp2_energy"),
    *("doublefloat_dot", "doublefloat_elementwise", "doublefloat_gemm", "doublefloat_mp2_energy"),
    *("doublefloat_sum",),
    *("philox_exponential", "philox_normal", "philox_uniform", "philox_words"),
    *("threefry_exponential", "threefry_normal"),
    *("block_jacobi_eigh", "cholesky", "cholesky_qr", "conjugate_gradients", "inverse_root"),
    *("jacobi_eigh", "jacobi_svd", "lu", "msign"),
    *("attention", "attention_backward", "bsr_cg", "bsr_sddmm", "n_d", "sddmm"),
}


@each_case("library", LIBRARIES)
def test_kernels_and_cases_are_the_same_set(library):
    kernels = [source.name for source in kernels_of(library)]
    assert len(kernels) == len(set(kernels))
    cases = [case.kernel for case in importlib.import_module(f"{library}.evidence").CASES]
    assert sorted(cases) == sorted(kernels)


@each_case("library", LIBRARIES)
def test_every_kernel_names_its_lever(library):
    assert [source.name for source in kernels_of(library) if not source.lever] == []


@pytest.mark.nki_simulator
@pytest.mark.parametrize(
    ("library", "kernel"),
    [pytest.param(*k, marks=[pytest.mark.slow] * (k[1] in LONG)) for k in KERNELS],
)
def test_on_the_simulator(library, kernel):
    record = run_case(library, kernel, values_on=("gen3",), advice=False)
    assert record.message == ""
    assert record.status == "passed"
    assert record.launches > 0
    assert record.error <= record.bound < 1e-2
    assert record.generations == {name: [] for name in GENERATIONS}
    assert record.instructions > 0
    assert record.hbm_bytes > 0
    assert bool(record.dtypes.get("float32")) == record.public
    assert all(record.speed[name]["us"] > 0 for name in GENERATIONS), record.speed


@pytest.mark.slow
@pytest.mark.nki_simulator
@EVERY_KERNEL
def test_advice_names_a_rule_and_an_action(library, kernel):
    record = run_case(library, kernel, values_on=("gen3",))
    assert record.message == ""
    for piece in record.speed["gen3"]["advice"]:
        assert re.fullmatch(r"P\d{3} [^:]+: .+", piece)


@pytest.mark.neuron
@pytest.mark.skipif(neuron_device() is None, reason="needs a NeuronCore that torch can reach")
@EVERY_KERNEL
def test_on_the_device(library, kernel):
    record = run_case(library, kernel, path="nki")
    assert record.message == ""
    assert record.launches > 0
