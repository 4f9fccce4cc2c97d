"""What the package shows, what importing it costs, and its signatures."""

import inspect
from importlib import import_module
from types import ModuleType

import trnfft.nki.published
import trnfft.published
from each_case import each_case
from fresh_process import printed_after

ONE = "(input, n=None, dim=-1, norm=None, *, out=None)"
TWO = "(input, s=None, dim=(-2, -1), norm=None, *, out=None)"
SEVERAL = "(input, s=None, dim=None, norm=None, *, out=None)"
TRIGONOMETRIC = "(input, type=2, n=None, dim=-1, norm=None, orthogonalize=None)"
SEVERAL_TRIGONOMETRIC = "(input, type=2, s=None, dim=None, norm=None, orthogonalize=None)"
HANKEL = "dln, mu, offset=0.0, bias=0.0)"
FREQUENCIES = "(n, d=1.0, *, dtype=None, device=None, requires_grad=False)"

# Names, order and defaults that callers rely on.
SIGNATURES = {
    **dict.fromkeys(["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"], ONE),
    **dict.fromkeys(["fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2"], TWO),
    **dict.fromkeys(["fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn"], SEVERAL),
    **dict.fromkeys(["dct", "idct", "dst", "idst"], TRIGONOMETRIC),
    **dict.fromkeys(["fftfreq", "rfftfreq"], FREQUENCIES),
    **dict.fromkeys(["fftshift", "ifftshift"], "(input, dim=None)"),
    **dict.fromkeys(["dctn", "idctn", "dstn", "idstn"], SEVERAL_TRIGONOMETRIC),
    **dict.fromkeys(
        ["fftconvolve", "oaconvolve", "correlate"], "(in1, in2, mode='full', axes=None)"
    ),
    "czt": "(input, m=None, w=None, a=1.0, dim=-1)",
    "fht": f"(a, {HANKEL}",
    "ifht": f"(A, {HANKEL}",
    "fhtoffset": "(dln, mu, initial=0.0, bias=0.0)",
    "next_fast_len": "(target, real=False)",
    "stft": "(input, n_fft, hop_length=None, win_length=None, window=None, center=True, "
    "pad_mode='reflect', normalized=False, onesided=None, return_complex=None, "
    "align_to_window=None)",
    "istft": "(input, n_fft, hop_length=None, win_length=None, window=None, center=True, "
    "normalized=False, onesided=None, length=None, return_complex=None)",
    "set_precision": "(mode)",
    "get_precision": "()",
    "precision": "(mode)",
}
OTHERS = {
    "ComplexTensor",
    "FFTPlan",
    "HAS_NKI",
    "NkiFallbackWarning",
    "backend",
    "clear_plan_cache",
    "complex_matmul",
    "get_backend",
    "plan",
    "set_backend",
    "torch_fft",
}


@each_case("name", SIGNATURES)
def test_signatures(name):
    signature = inspect.signature(getattr(trnfft, name))
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    assert str(inspect.Signature(bare)) == SIGNATURES[name]


def test_the_public_names_are_listed():
    assert set(trnfft.__all__) == OTHERS | set(SIGNATURES)
    assert trnfft.__all__ == sorted(trnfft.__all__, key=lambda n: (n != n.upper(), n.islower(), n))
    plumbing = {"annotations", "Any", "TYPE_CHECKING", "LIBRARY"}
    plumbing |= {"PackageNotFoundError", "import_module", "version"}
    public = {
        name
        for name in dir(trnfft)
        if not name.startswith("_")
        and name not in plumbing
        and not isinstance(getattr(trnfft, name), ModuleType)
    }
    assert set(trnfft.__all__) == public | {"torch_fft"}


@each_case(
    ("package", "name"),
    [("trnfft", name) for name in trnfft.published.__all__]
    + [("trnfft.nki", name) for name in trnfft.nki.published.__all__],
)
def test_published_names_import_without_being_public_names(package, name):
    package = import_module(package)
    assert getattr(package, name) is getattr(package.published, name)
    assert name not in package.__all__
    assert name not in dir(package)
    assert package.published.INSTEAD[name]


def test_plan_is_the_function_whatever_was_imported_first():
    code = (
        "import trnfft.plan\n"
        "from trnfft.plan import FFTAlgorithm\n"
        "import trnfft\n"
        "print(json.dumps([callable(trnfft.plan), trnfft.plan.FFTAlgorithm is FFTAlgorithm]))"
    )
    assert printed_after("torch", code) == [True, True]


def test_importing_it_imports_neither_the_simulator_nor_scipy_nor_the_layers():
    code = (
        "import sys, torch, numpy; before = set(sys.modules); import trnfft\n"
        "added = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "x = torch.ones(8)\n"
        "trnfft.irfft(trnfft.rfft(x)); trnfft.fft2(x.reshape(2, 4)); trnfft.stft(x, 4)\n"
        "used = [name for name in ('scipy', 'nkisim', 'trnfft.nn') if name in sys.modules]\n"
        "print(json.dumps([sorted(added - {'numpy'} - set(sys.stdlib_module_names)), used]))"
    )
    assert printed_after("torch", code) == [["trnfft", "trnsci"], []]
