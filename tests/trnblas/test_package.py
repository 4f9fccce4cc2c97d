"""What the package shows, what importing it costs, and its signatures."""

import inspect
from types import ModuleType

import trnblas
from each_case import each_case
from fresh_process import printed_after

LAST = "*, precision=None, out=None)"
PRODUCT = f"(alpha, A, B, beta=0.0, C=None, transA=False, transB=False, {LAST}"
WIDENED = PRODUCT.replace("*,", "*, out_dtype=None,")
SIDED = f"(alpha, A, B, beta=0.0, C=None, side='left', uplo='upper', {LAST}"
RANK_K = f"(alpha, A, beta=0.0, C=None, trans=False, uplo='upper', {LAST}"
TRIANGLE = f"(alpha, A, B, side='left', uplo='upper', trans=False, diag='nonunit', {LAST}"
# Names, order and defaults that callers rely on.
SIGNATURES = {
    "axpy": "(alpha, x, y, *, precision=None, out=None)",
    "dot": "(x, y, *, precision=None, out=None)",
    "dotc": "(x, y, *, precision=None, out=None)",
    "nrm2": "(x, *, precision=None, out=None)",
    "scal": "(alpha, x, *, out=None)",
    "asum": "(x, *, out=None)",
    "iamax": "(x)",
    "iamin": "(x)",
    "copy": "(x, *, out=None)",
    "swap": "(x, y)",
    "rot": "(x, y, c, s)",
    "rotg": "(a, b)",
    "rotm": "(x, y, param)",
    "rotmg": "(d1, d2, x1, y1)",
    "gemv": "(alpha, A, x, beta=0.0, y=None, trans=False, *, precision=None, out=None)",
    "symv": "(alpha, A, x, beta=0.0, y=None, uplo='upper', *, precision=None, out=None)",
    "hemv": "(alpha, A, x, beta=0.0, y=None, uplo='upper', *, precision=None, out=None)",
    "trmv": "(A, x, uplo='upper', trans=False, diag='nonunit', *, precision=None, out=None)",
    "trsv": "(A, x, uplo='upper', trans=False, diag='nonunit', *, precision=None, out=None)",
    "ger": "(alpha, x, y, A=None, *, precision=None, out=None)",
    "gerc": "(alpha, x, y, A=None, *, precision=None, out=None)",
    "syr": "(alpha, x, A=None, uplo='upper', *, precision=None, out=None)",
    "her": "(alpha, x, A=None, uplo='upper', *, precision=None, out=None)",
    "syr2": "(alpha, x, y, A=None, uplo='upper', *, precision=None, out=None)",
    "her2": "(alpha, x, y, A=None, uplo='upper', *, precision=None, out=None)",
    "gemm": WIDENED.replace("out=", "target_forward_error=None, componentwise=False, out="),
    "batched_gemm": WIDENED,
    "grouped_gemm": WIDENED,
    "symm": SIDED,
    "hemm": SIDED,
    "syrk": RANK_K,
    "herk": RANK_K,
    "syr2k": RANK_K.replace("A,", "A, B,"),
    "her2k": RANK_K.replace("A,", "A, B,"),
    "gemmt": PRODUCT.replace("transA", "uplo='upper', transA"),
    "trsm": TRIANGLE,
    "trmm": TRIANGLE,
    "batched_trsm": TRIANGLE,
    "geam": "(alpha, A, beta, B, transA=False, transB=False, *, out=None)",
    "dgmm": "(A, x, side='left', *, out=None)",
}


@each_case("name", SIGNATURES)
def test_signatures(name):
    signature = inspect.signature(getattr(trnblas, name))
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    assert str(inspect.Signature(bare)) == SIGNATURES[name]


def test_the_public_names_are_listed():
    plumbing = {"annotations", "Any", "TYPE_CHECKING", "LIBRARY"}
    plumbing |= {"PackageNotFoundError", "import_module", "version"}
    public = {
        name
        for name in dir(trnblas)
        if not name.startswith("_")
        and name not in plumbing
        and not isinstance(getattr(trnblas, name), ModuleType)
    }
    assert set(trnblas.__all__) == public
    assert trnblas.__all__ == sorted(trnblas.__all__)
    assert set(SIGNATURES) <= set(trnblas.__all__)


def test_importing_it_imports_neither_the_simulator_nor_scipy():
    code = (
        "import sys, torch; before = set(sys.modules); import trnblas\n"
        "added = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "a = torch.ones(2, 2)\n"
        "trnblas.gemm(1.0, a, a); trnblas.dot(a[0], a[0]); trnblas.trsm(1.0, a, a)\n"
        "used = [name for name in ('scipy', 'nkisim') if name in sys.modules]\n"
        "print(json.dumps([sorted(added - set(sys.stdlib_module_names)), used]))"
    )
    assert printed_after("torch", code) == [["trnblas", "trnsci"], []]
