"""What the package shows, what importing it costs, and its signatures."""

import inspect
from types import ModuleType

import pytest

import trnsolver
from each_case import each_case
from fresh_process import printed_after

ITERATIVE = (
    "x0=None, tol=1e-06, max_iter={}, {}, rtol=None, atol=0.0, callback=None, on_failure='warn')"
)
# Names, order and defaults that callers rely on.
SIGNATURES = {
    "cholesky": "(A, upper=False)",
    "lu": "(A)",
    "qr": "(A, pivoting=False)",
    "svd": "(A, full_matrices=False)",
    "pinv": "(A, rcond=None)",
    "solve": "(A, B, *, target_forward_error=None, on_failure='raise', certify=True)",
    "solve_spd": "(A, B, iterative_refinement=False)",
    "inv_spd": "(A)",
    "inv_sqrt_spd": "(A)",
    "inv_sqrt_spd_ns": "(A, *, max_iter=20, tol=None, on_failure='warn')",
    "schur": "(A, tol=1e-10, *, output='real')",
    "eigh": "(A, tol=None, *, k=None, which='smallest', subset=None, max_sweeps=None, "
    "method='auto', on_failure='warn')",
    "eigh_generalized": "(A, B, tol=None, *, k=None, which='smallest', subset=None)",
    "cg": "(A, b, " + ITERATIVE.format(1000, "M=None, *"),
    "minres": "(A, b, " + ITERATIVE.format(1000, "M=None, *"),
    "bicgstab": "(A, b, " + ITERATIVE.format(1000, "M=None, *"),
    "gmres": "(A, b, " + ITERATIVE.format(100, "restart=30, *, M=None"),
    "jacobi_preconditioner": "(A)",
    "block_jacobi_preconditioner": "(A, block_size=16)",
    "ssor_preconditioner": "(A, omega=1.0)",
    "eigh_randomized": "(A, k, oversampling=10, *, power_iterations=2, seed=0)",
    "rsvd": "(A, k, *, oversampling=10, power_iterations=2, seed=0)",
}


@each_case("name", SIGNATURES)
def test_signatures(name):
    signature = inspect.signature(getattr(trnsolver, name))
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    assert str(inspect.Signature(bare)) == SIGNATURES[name]


def test_every_name_is_there_and_documented():
    for name in trnsolver.__all__:
        value = getattr(trnsolver, name)
        if callable(value):
            assert inspect.getdoc(value), name
    assert set(trnsolver.__all__) <= set(dir(trnsolver))
    assert not any(isinstance(getattr(trnsolver, n), ModuleType) for n in trnsolver.__all__)


def test_importing_it_imports_no_scipy_matplotlib_nki_or_distributed():
    found = printed_after(
        "torch",
        "import sys, trnsolver;"
        "print([m for m in ('scipy.linalg', 'matplotlib', 'nkisim', 'trnsolver._kernels',"
        " 'trnsolver.distributed', 'trnsparse') if m in sys.modules])",
    )
    assert found == []


def test_a_backend_that_is_not_there_says_how_to_get_it():
    if trnsolver.HAS_NKI:
        pytest.skip("AWS's NKI is installed")
    with pytest.raises(RuntimeError, match="TRNSOLVER_USE_SIMULATOR"):
        trnsolver.set_backend("nki")
    assert trnsolver.get_backend() == "auto"
