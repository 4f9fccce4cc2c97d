"""Conjugate and negative views, empty operands and tensor factors, for every public function.

torch marks conjugates and negatives on views and computes them when values are read; a function
that reads memory without the mark gives wrong numbers. Each property compares a call with the same
call in which only the kind of an operand differs.
"""

from __future__ import annotations

import inspect
import itertools
from importlib import import_module

import pytest
import torch
from torch.func import vjp, vmap

import trnrand
import trnsparse
from each_case import each_case
from public_calls import CALLS, LIBRARIES, function_of
from trnsci.core.errors import DerivativeError, TrnsciError
from trnsci.core.interop import pytree
from trnsci.core.testing import BACKENDS, random_tensor, refusals_expected
from trnsci.core.testing.exempt import reason_of

pytestmark = pytest.mark.filterwarnings("ignore::trnsci.core.errors.ConvergenceWarning")

OPTIONAL = {"trnsparse.amg_preconditioner"}
"""Functions of an optional package."""


def called(name, args, options, backend):
    """Return the tensors that a call returns."""
    if "generator" in options:
        options = {**options, "generator": trnrand.Generator(3)}
    with import_module(name.partition(".")[0]).backend(backend):
        found = function_of(name)(*args, **options)
    leaves = [x.to_dense() if is_matrix(x) else x for x in pytree().tree_leaves(found)]
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def outcome(name, args, options, backend):
    """Return the tensors that a call returns, or the text of its error."""
    try:
        return called(name, args, options, backend)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def is_floating(x):
    return isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex())


def of_floats(change):
    return lambda x: change(x) if isinstance(x, torch.Tensor) and x.is_floating_point() else x


def of_complex(change):
    return lambda x: change(x) if isinstance(x, torch.Tensor) and x.is_complex() else x


def in_matrices(change):
    """Return a change of tensors that changes the entries of sparse matrices too."""

    def each(x):
        if isinstance(x, trnsparse.BSRMatrix):
            pattern = x.block_col_indices, x.block_row_ptrs, x.shape, x.block_size
            return trnsparse.BSRMatrix(change(x.blocks), *pattern)
        return x.with_values(change(x.values)) if is_matrix(x) else change(x)

    return each


def negative_view(x):
    """Return the values of ``x`` as a view with torch's mark for negatives."""
    view = torch.complex(torch.full_like(x, torch.nan), -x).conj().imag
    assert view.is_neg()
    return view


def conjugate_view(x):
    """Return the values of ``x`` as a view with torch's mark for conjugates."""
    view = x.conj().resolve_conj().conj()
    assert view.is_conj()
    return view


def made_complex(x):
    """Return a complex operand; of a matrix that is symmetric and definite, one that is too."""
    if is_matrix(x):
        return trnsparse.from_dense(made_complex(x.to_dense()))
    if not isinstance(x, torch.Tensor) or not x.is_floating_point():
        return x
    imaginary = 0.1 * random_tensor(*x.shape, dtype=x.dtype, seed=11)
    if x.ndim > 1 and x.shape[-1] == x.shape[-2]:
        imaginary = imaginary - imaginary.mT
    return torch.complex(x, imaginary)


def is_matrix(x):
    return isinstance(x, (trnsparse.CSRMatrix, trnsparse.BSRMatrix))


def plain(x):
    return x.detach().resolve_conj().resolve_neg()


def same(got, want, exact=True):
    """Assert that tensors agree: bit by bit, or to the rounding of another order of sums."""
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        options = {"rtol": 0, "atol": 0} if exact else {}
        torch.testing.assert_close(plain(g), plain(w), equal_nan=True, **options)


def own(library):
    return [n for n in CALLS if n.startswith(f"{library}.") and n not in OPTIONAL]


LONGEST = [("trnsolver", "simulator"), ("trnrand", "simulator")]


@pytest.mark.parametrize(
    ("library", "backend"),
    [
        # Kernels of solvers and draws are the longest; torch's path reads the same operands.
        pytest.param(*case, marks=pytest.mark.slow if case in LONGEST else ())
        for case in itertools.product(LIBRARIES, BACKENDS)
    ],
)
@each_case("kind", ["negative", "conjugate"])
def test_views_are_read_as_their_values(library, backend, kind):
    if (backend, kind) == ("simulator", "conjugate") and library != "trnfft":
        return  # other kernels take no complex numbers
    tree_map = pytree().tree_map
    for name in own(library):
        call = list(CALLS[name])
        if kind == "negative":
            lazy = tree_map(in_matrices(of_floats(negative_view)), call)
        else:
            call = tree_map(made_complex, call)
            lazy = tree_map(in_matrices(of_complex(conjugate_view)), call)
        want, got = outcome(name, *call, backend), outcome(name, *lazy, backend)
        assert isinstance(want, str) == isinstance(got, str), f"{name}: {got}, not {want}"
        try:
            if isinstance(want, str):
                assert got == want
            else:
                same(got, want, exact=False)
        except AssertionError as error:
            error.add_note(name)
            raise


WITH_OUT = [
    name
    for name in CALLS
    if "out" in inspect.signature(function_of(name)).parameters
    and name != "trntensor.einsum"  # its out is an operand
]
WIDE = 24
"""torch computes products of fewer elements by another routine."""


def widened(lead):
    """Return a function that makes every dimension of an operand wide, after ``lead``."""

    def change(x):
        if not is_floating(x):
            return x
        shape = (*lead, *(n if n == 1 else WIDE for n in x.shape)) if x.ndim else ()
        return random_tensor(*shape, dtype=x.dtype, seed=int(x.sum().real * 100) % 97)

    return change


def lazy_outputs(want):
    """Return outputs of the kinds that torch has for results like ``want``, by kind."""
    if want.is_complex():
        kinds = {"conjugate": torch.full_like(want, torch.nan).resolve_conj().conj()}
        if want.ndim > 1:
            kinds["adjoint"] = torch.full_like(want.mT, torch.nan).resolve_conj().mH
        return kinds
    if want.is_floating_point():
        wide = torch.complex(want, want).mul(torch.nan)
        return {"negative": wide.conj().imag}
    return {}


@pytest.mark.parametrize("backend", BACKENDS)
@each_case("name", WITH_OUT)
def test_views_as_out_receive_the_result(name, backend):
    tree_map, drawn = pytree().tree_map, name.startswith("trnrand.")
    # Of the kernels only those of trnfft take complex numbers.
    complex_kinds = backend == "pytorch" or name.startswith("trnfft.")
    for complex_too in (False, True)[: 1 + complex_kinds]:
        call = tree_map(made_complex, list(CALLS[name])) if complex_too else list(CALLS[name])
        # Batches of real numbers where there are any, and one problem of complex ones.
        for lead in ((), (2,)) if complex_too else ((2,), ()):
            args, options = call if drawn else tree_map(widened(lead), call)
            want = outcome(name, args, options, backend)
            if isinstance(want, str):  # has no batches, or no complex form
                continue
            kinds = [lazy_outputs(result) for result in want]
            for kind in kinds[0]:
                outs = [outputs[kind] for outputs in kinds]
                out = outs if name == "trnblas.grouped_gemm" else outs[0]
                called(name, args, {**options, "out": out}, backend)
                same(outs, want, exact=False)
            break


def no_batch(x):
    return x.new_zeros(0, *x.shape)


def no_elements(x):
    return x.new_zeros((0,) * x.ndim)


def derivatives(name, change, backend):
    """Return the shapes of the results of a changed call, and which operands have gradients."""
    leaves = []

    def leaf(x):
        if not is_floating(x):
            return x
        leaves.append(change(x).requires_grad_())
        return leaves[-1]

    args, options = pytree().tree_map(leaf, list(CALLS[name]))
    results = called(name, args, options, backend)
    parts = [part.abs().sum() for part in results if part.requires_grad]
    if not parts:
        return [tuple(r.shape) for r in results], [False] * len(leaves)
    found = torch.autograd.grad(torch.stack(parts).sum(), leaves, allow_unused=True)
    return [tuple(r.shape) for r in results], [grad is not None for grad in found]


@pytest.mark.parametrize("library", LIBRARIES)
@each_case("empty", [no_batch, no_elements], ids=lambda f: f.__name__)
@refusals_expected()
def test_empty_operands_have_the_gradients_of_others(library, empty):
    """An empty operand is an error of the library or has a result, alike on every backend."""
    for name in own(library):
        if reason_of(name):
            continue
        try:
            _, usual = derivatives(name, torch.clone, "pytorch")
        except DerivativeError:
            continue
        found = []
        for backend in BACKENDS:
            try:
                found.append(derivatives(name, empty, backend))
                have = found[-1][1]
                assert all(h >= u for h, u in zip(have, usual, strict=True)), (
                    f"{name} on {backend}: gradients of {usual} operands, of {have} if empty"
                )
            except TrnsciError as error:
                found.append(str(error))
        assert found[0] == found[1], name


def _factors():
    """Return pairs of a function and one of its factors that may be a tensor."""
    found = []
    for name in CALLS:
        for parameter in inspect.signature(function_of(name)).parameters.values():
            kind = str(parameter.annotation)
            if "Scalar" in kind or (parameter.name in ("alpha", "beta") and "Tensor" in kind):
                found.append((name, parameter.name))
    return found


FACTORS = _factors()
ACCUMULATORS = {"trntensor.einsum": "out"}


def with_factors(name, *factors):
    """Return a call as a function of a value for these factors; beta scales an accumulator."""
    function = function_of(name)
    signature = inspect.signature(function)
    bound = signature.bind(*CALLS[name].args, **CALLS[name].options)
    scaled = [a for a in (ACCUMULATORS.get(name), "C", "y") if a in signature.parameters]
    if "beta" in factors and scaled:
        result = function(*bound.args, **bound.kwargs)
        bound.arguments[scaled[0]] = pytree().tree_map(lambda x: x + 1, result)
    bound.arguments.update(dict.fromkeys(factors))
    args, options = [*bound.args], {**bound.kwargs}
    places = [at for at, value in enumerate(args) if value is None]
    named = [key for key, value in options.items() if value is None]
    assert len(places) + len(named) == len(factors)

    def call(value):
        given = [value if at in places else arg for at, arg in enumerate(args)]
        found = function(*given, **{**options, **dict.fromkeys(named, value)})
        found = found.values if is_matrix(found) else found
        return tuple(found) if isinstance(found, (list, tuple)) else (found,)

    return call


def test_every_library_with_factors_is_covered():
    assert {name.partition(".")[0] for name, _ in FACTORS} == {"trnblas", "trnsparse", "trntensor"}


@pytest.mark.parametrize("backend", BACKENDS)
@each_case("name, factor", FACTORS, ids=str)
def test_factors_may_be_tensors(name, factor, backend):
    call = with_factors(name, factor)
    with import_module(name.partition(".")[0]).backend(backend):
        want, more = call(0.75), call(1.75)
        leaf = torch.tensor(0.75, requires_grad=True)
        got = call(leaf)
        same(got, want, exact=False)
        # Results are affine in a factor, so that a difference is the derivative.
        (slope,) = torch.autograd.grad(sum(part.sum() for part in got), leaf)
        difference = sum((m - w).sum() for m, w in zip(more, want, strict=True))
        torch.testing.assert_close(slope, difference, rtol=1e-4, atol=1e-4)
        got = vmap(call)(torch.tensor([0.75, 1.75]))
        both = [torch.stack(parts) for parts in zip(want, more, strict=True)]
        same(got, both, exact=False)


@pytest.mark.parametrize(
    "prefix",
    ["trnblas.gemv", "trnsparse", "trntensor", pytest.param("trnblas", marks=pytest.mark.slow)],
)
def test_factors_may_be_tensors_in_one_graph(prefix):
    factors = {}
    for name, factor in FACTORS:
        if name.startswith(prefix) and not reason_of(name, "compile"):
            factors.setdefault(name, []).append(factor)
    calls = [with_factors(name, *each) for name, each in factors.items()]

    def every(value):
        return [call(value) for call in calls]

    torch.compiler.reset()
    want = every(0.75)
    got = torch.compile(every, fullgraph=True, backend="eager")(torch.tensor(0.75))
    for g, w in zip(got, want, strict=True):
        same(g, w, exact=False)


@pytest.mark.parametrize("library", LIBRARIES)
@each_case("kind", ["plain", "conjugate"])
@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap_gives_the_results_of_each_or_an_error_of_the_function(library, kind):
    for name in own(library):
        if reason_of(name):
            continue
        call = list(CALLS[name])
        if kind == "conjugate":
            call = pytree().tree_map(made_complex, call)
        leaves, tree = pytree().tree_flatten(call)
        places = [at for at, x in enumerate(leaves) if is_floating(x)]

        def mapped(*tensors, name=name, leaves=leaves, tree=tree, places=places):
            for place, x in zip(places, tensors, strict=True):
                leaves[place] = x
            return tuple(called(name, *pytree().tree_unflatten(leaves, tree), "pytorch"))

        operands = [leaves[place] for place in places]
        try:
            want = mapped(*operands)
        except Exception:  # has no complex form
            continue
        if not operands or not want:
            continue
        both = [torch.stack([x, x]) for x in operands]
        if kind == "conjugate":
            both = [conjugate_view(x) if x.is_complex() else x for x in both]
        try:
            got = vmap(mapped, randomness="same")(*both)
        except Exception as error:
            named = str(error).startswith(f"{name.partition('.')[2]}: ")
            if named and isinstance(error, TrnsciError):
                continue
            error.add_note(name)
            raise
        same([x[1] for x in got], want, exact=False)


DEPENDENT = {
    "trnblas.iamax": "torch.argmax returns a tensor",
    "trnblas.iamin": "torch.argmin returns a tensor",
    "trntensor.cp_decompose": "batch=True takes a batch",
    "trntensor.tucker_decompose": "batch=True takes a batch",
    "trntensor.tt_round": "",
}


@each_case("name", DEPENDENT)
def test_functions_whose_steps_depend_on_values_name_themselves_under_vmap(name):
    args, options = CALLS[name]
    function = function_of(name)
    wide = pytree().tree_map(lambda x: torch.stack([x, x]) if is_floating(x) else x, args)
    dims = pytree().tree_map(lambda x: 0 if is_floating(x) else None, args)
    said = rf"^{name.partition('.')[2]}: torch.vmap has no values .*{DEPENDENT[name]}$"
    with pytest.raises(DerivativeError, match=said):
        vmap(lambda *a: function(*a, **options), dims)(*wide)
    with pytest.raises(DerivativeError, match=said):
        vmap(lambda *a: vjp(lambda x: function(x, *a[1:], **options), a[0]), dims)(*wide)
