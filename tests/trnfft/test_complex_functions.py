"""Operators, methods and torch functions of ComplexTensor against NumPy in complex128."""

import operator
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

from drawn import examples
from each_case import each_case
from pairwise import in_turn
from trnfft._complex.functions import JOINS, PARTWISE, RULES
from trnfft.complex_tensor import ComplexTensor, complex_matmul
from trnsci.core.errors import ShapeError

from .agreement import array, in_parts

HELD = {
    "split": lambda z: in_parts(torch.tensor(z.real.copy()), torch.tensor(z.imag.copy())),
    "native": lambda z: ComplexTensor(torch.tensor(z)),
}
U = {"complex64": 2.0**-24, "complex128": 2.0**-53}
forms = pytest.mark.parametrize("form", HELD)
widths = each_case("width", U)


def drawn(shape, seed, width="complex128"):
    """Complex numbers with parts of size about one, held exactly by ``width``."""
    rng = np.random.default_rng(seed)
    parts = rng.standard_normal((2, *shape)).astype(f"f{np.dtype(width).itemsize // 2}")
    return (parts[0] + 1j * parts[1]).astype(width)


def assert_near(got, want, bound):
    """``got`` is within ``bound`` of ``want`` and has its shape."""
    got = np.asarray(got)
    assert got.shape == np.shape(want)
    assert (np.abs(got - want) <= bound).all()


# Per operator, the size whose roundings bound its error: of the terms, the product, the quotient.
OPERATORS = {
    "add": (operator.add, lambda a, b: abs(a) + abs(b)),
    "sub": (operator.sub, lambda a, b: abs(a) + abs(b)),
    "mul": (operator.mul, lambda a, b: abs(a) * abs(b)),
    "truediv": (operator.truediv, lambda a, b: abs(a) / abs(b)),
}
# What may stand on the other side of an operator, made of an array.
OTHERS = {
    "split": HELD["split"],
    "native form": HELD["native"],
    "native tensor": torch.tensor,
    "real tensor": lambda z: torch.tensor(z.real.copy()),
    "complex number": lambda z: complex(z.flat[0]),
    "float": lambda z: float(z.flat[0].real),
    "integer": lambda z: 3,
    "NumPy scalar": lambda z: z.flat[0].real,
}


def value_of(other):
    """The NumPy value of an operand."""
    return np.asarray(other)


# Shapes of two operands that broadcast. As many of them as do not divide the other cases.
BROADCAST = [
    ((), ()),
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((), (2, 2)),
    ((2, 1), (1, 3)),
    ((4, 1, 2), (3, 1)),
    ((1, 4), (3, 1, 4)),
]


class TestOperators:
    @each_case(
        ("case", "shapes"),
        in_turn(product(HELD, OPERATORS, OTHERS, U, (False, True)), BROADCAST),
    )
    def test_agree_with_numpy(self, case, shapes):
        form, name, other, width, swapped = case
        operate, size = OPERATORS[name]
        a, b = (drawn(shape, seed, width) for seed, shape in enumerate(shapes))
        left, right = HELD[form](a), OTHERS[other](b)
        x, y = a.astype(np.complex128), value_of(right)
        if swapped:
            left, right, x, y = right, left, y, x
        got = operate(left, right)
        assert isinstance(got, ComplexTensor)
        assert got.dtype == HELD[form](a).dtype
        # A product of complex numbers has an error of at most sqrt(5) u, a quotient formed
        # from scaled parts of a few more roundings, each of at most its own size.
        assert_near(got, operate(x, y), 10 * U[width] * size(x, y))

    @forms
    def test_operands_promote_as_tensors_do(self, form):
        a, b = drawn((3,), 1, "complex64"), drawn((3,), 2, "complex128")
        for held in HELD.values():
            assert (HELD[form](a) * held(b)).dtype == torch.complex128
        assert (HELD[form](a) * torch.tensor(b.real.copy())).dtype == torch.complex128
        assert (HELD[form](a) + torch.arange(3)).dtype == torch.complex64
        assert (HELD[form](a) + 1j).dtype == torch.complex64

    @forms
    def test_division_does_not_overflow(self, form):
        # |z|^2 is beyond float32 at one end and zero at the other.
        for size in (1e30, 1e-30):
            z = HELD[form](np.array([(3 + 4j) * size], "complex64"))
            assert_near(z / z, [1], 10 * U["complex64"])
            assert_near(1 / z * size, [0.12 - 0.16j], 10 * U["complex64"])

    @forms
    @each_case("exponent", [*range(-3, 6), 16, 17, 0.5, 1 - 2j])
    def test_powers(self, form, exponent):
        z = drawn((20,), 3)
        # Products: two roundings per factor; exp(n log z): |n log z| of them.
        terms = 4 * abs(exponent) * (1 + np.abs(np.log(z))) + 4
        want = z**exponent
        assert_near(HELD[form](z) ** exponent, want, terms * 4 * U["complex128"] * np.abs(want))

    @forms
    def test_power_of_a_complex_tensor(self, form):
        z = HELD[form](np.array([2.0 + 0j]))
        assert_near(z**z, [4], 1e-14)
        assert_near(2**z, [4], 1e-14)

    @forms
    def test_comparisons_are_elementwise(self, form):
        z = HELD[form](np.array([1 + 2j, 3, 4j]))
        assert (z == np.float64(3)).tolist() == [False, True, False]
        assert (z == 1 + 2j).tolist() == [True, False, False]
        assert (z != torch.tensor([1 + 2j, 3, 4], dtype=torch.complex128)).tolist() == [0, 0, 1]
        assert (z == HELD["split"](np.array([1 + 2j, 3, 4j]))).all()
        assert z != "z"
        with pytest.raises(TypeError, match="'<' not supported"):
            z < z  # noqa: B015

    @forms
    @each_case("other", ["split", "native form", "native tensor", "real tensor"])
    @each_case("name", ["matmul", *OPERATORS])
    def test_tensors_may_stand_on_the_left(self, form, name, other):
        operate = getattr(operator, name)
        a, b = drawn((3, 3), 4), drawn((3, 3), 5)
        left = OTHERS[other](a)
        got = operate(left, HELD[form](b))
        # Three terms per element of a product, of size below 5 each.
        assert isinstance(got, ComplexTensor)
        assert_near(got, operate(value_of(left), b), 100 * U["complex128"])

    def test_unknown_operands_are_refused(self):
        with pytest.raises(TypeError, match="unsupported operand"):
            ComplexTensor(torch.ones(1)) + "1"
        with pytest.raises(TypeError, match="unsupported operand"):
            [1] - ComplexTensor(torch.ones(1))


class TestInPlace:
    @forms
    @each_case("name", ["iadd", "isub", "imul", "itruediv"])
    @each_case("other", OTHERS)
    def test_writes_into_the_same_memory(self, form, name, other):
        a, b = drawn((2, 3), 1), drawn((3,), 2)
        z, right = HELD[form](a), OTHERS[other](b)
        view, same = z[0], z
        same = getattr(operator, name)(same, right)
        want = getattr(operator, name)(a.copy(), value_of(right))
        assert same is z
        # Quotients of at most 4/0.1.
        assert_near(z, want, 400 * U["complex128"])
        assert torch.equal(view.real, z[0].real)

    @forms
    def test_methods(self, form):
        z = HELD[form](np.array([1 + 2j, 3]))
        assert z.neg_() is z
        assert z.tolist() == [-1 - 2j, -3]
        assert z.conj_().add_(1j).mul_(2).tolist() == [-2 + 6j, -6 + 2j]
        assert z.sub_(1).div_(2j).tolist() == [3 + 1.5j, 1 + 3.5j]
        assert z.fill_(2j).pow_(2).tolist() == [-4, -4]
        assert z.zero_().tolist() == [0, 0]

    @forms
    def test_a_result_of_another_shape_is_refused(self, form):
        z = HELD[form](drawn((3,), 1))
        with pytest.raises(ShapeError, match=r"shape \(2, 3\) do not fit"):
            z += torch.ones(2, 3)

    def test_into_a_native_tensor(self):
        t = torch.tensor([1 + 1j, 2])
        same = t
        t += ComplexTensor(torch.tensor([1.0, 2.0]))
        assert t is same
        t[0] = ComplexTensor(torch.tensor(5.0))
        assert t.tolist() == [5, 4]

    def test_a_torch_function_does_not_change_a_copy_silently(self):
        z = in_parts(torch.ones(2), torch.ones(2))
        with pytest.raises(TypeError, match="in place, use a method"):
            torch.exp_(z)
        with pytest.raises(TypeError, match="out= is not supported"):
            torch.add(z, z, out=z)
        native = ComplexTensor(torch.ones(2))
        torch.exp_(native)
        assert native.tolist() == torch.exp(torch.ones(2) + 0j).tolist()


# Arguments of each method, or function of torch, that follow a 3 x 3 matrix.
CALLS = {
    "sin": (), "cos": (), "tan": (), "sinh": (), "cosh": (), "tanh": (), "sigmoid": (),
    "log": (), "log2": (), "log10": (), "exp": (), "sqrt": (), "rsqrt": (), "square": (),
    "reciprocal": (), "sgn": (), "neg": (), "negative": (), "positive": (), "conj": (),
    "abs": (), "absolute": (), "angle": (), "real": (), "imag": (), "view_as_real": (),
    "isnan": (), "isinf": (), "isfinite": (), "all": (), "any": (), "is_complex": (),
    "is_floating_point": (), "numel": (), "conj_physical": (),
    "sum": (), "mean": (), "prod": (), "cumsum": (1,), "cumprod": (0,), "trace": (),
    "var": (), "std": (), "norm": (), "inverse": (), "det": (), "diff": (),
    "reshape": ((9,),), "view": ((1, -1),), "flatten": (), "ravel": (), "unflatten": (0, (3, 1)),
    "transpose": (0, 1), "swapaxes": (0, 1), "swapdims": (0, 1), "t": (), "permute": ((1, 0),),
    "movedim": (0, -1), "moveaxis": (0, 1), "adjoint": (), "mT": (), "mH": (), "T": (), "H": (),
    "squeeze": (), "unsqueeze": (1,), "expand": (2, 3, 3), "broadcast_to": ((2, 3, 3),),
    "atleast_1d": (), "atleast_2d": (), "atleast_3d": (), "contiguous": (), "clone": (),
    "detach": (), "resolve_conj": (), "zeros_like": (),
    "flip": ((0, 1),), "fliplr": (), "flipud": (), "roll": (1, 0), "rot90": (),
    "repeat": (2, 1), "repeat_interleave": (2,), "tile": ((2,),), "unfold": (0, 2, 1),
    "chunk": (2, 1), "split": (2, 1), "unbind": (1,), "tensor_split": (2,),
    "narrow": (0, 1, 2), "select": (0, 1), "index_select": (0, torch.tensor([2, 0])),
    "masked_select": (torch.eye(3) > 0,), "gather": (0, torch.zeros(2, 3, dtype=torch.int64)),
    "take": (torch.tensor([3, 5]),), "take_along_dim": (torch.zeros(1, 3, dtype=torch.int64), 0),
    "nonzero": (), "diag": (), "diagonal": (), "diag_embed": (), "tril": (), "triu": (),
    "masked_fill": (torch.eye(3) > 0, 2.0), "new_zeros": ((2,),), "new_ones": ((2,),),
    "new_full": ((2,), 3.0),
}  # fmt: skip
OF_TWO = "add sub subtract mul multiply div divide true_divide rsub mm matmul eq ne not_equal"
OF_TWO = [*OF_TWO.split(), "isclose", "dist"]
# What is not reached by position, and functions of lists, of vectors and of batches.
WRITTEN = {
    "sum over a dimension": lambda z, w: z.sum(1, True),
    "sum by name": lambda z, w: torch.sum(input=z, dim=(0, 1)),
    "mean over a dimension": lambda z, w: z.mean(0),
    "product over a dimension": lambda z, w: z.prod(1),
    "alpha": lambda z, w: torch.add(z, w.conj(), alpha=2j),
    "subtract by name": lambda z, w: torch.sub(z, other=1j),
    "flatten from": lambda z, w: z.unsqueeze(0).flatten(1),
    "squeeze one": lambda z, w: z[:1, :1].squeeze(0),
    "parts of unequal length": lambda z, w: torch.split(z, [1, 2], 1)[1],
    "minus": lambda z, w: -z,
    "plus": lambda z, w: +z,
    "where": lambda z, w: torch.where(z.real > 0, z, 0),
    "broadcast": lambda z, w: torch.broadcast_tensors(z, torch.ones(5, 1, 1))[0],
    "join with real": lambda z, w: torch.cat((z, z.real), dim=1),
    **{
        name: lambda z, w, name=name: getattr(torch, name)([z, w])
        for name in ("cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack")
    },
    "column_stack": lambda z, w: torch.column_stack([z[0], w]),
    "stack inside": lambda z, w: torch.stack([z, z.conj()], 1),
    "einsum": lambda z, w: torch.einsum("ij,kj->ik", z, w),
    "vector_norm": lambda z, w: torch.linalg.vector_norm(z),
    "mv": lambda z, w: torch.mv(z, w[0]),
    "bmm": lambda z, w: torch.bmm(z[None], w[None]),
    "batches": lambda z, w: torch.stack([z, w]) @ torch.stack([w, z]).mH,
    "dot": lambda z, w: z[0].dot(w[0]),
    "vdot": lambda z, w: z[0].vdot(w[0]),
    "outer": lambda z, w: z[0].outer(w[0]),
    "pad": lambda z, w: torch.nn.functional.pad(z, (2, 1), value=2.0),
    "pow": lambda z, w: torch.pow(z, 2),
}
PARTS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def calls_of(name):
    """The calls of a name: as a function of torch, and as a method or attribute."""
    if name in WRITTEN:
        yield WRITTEN[name]
        return
    given = (lambda w: CALLS[name]) if name in CALLS else (lambda w: (w,))
    if callable(getattr(torch, name, None)):
        yield lambda z, w: getattr(torch, name)(z, *given(w))
    if hasattr(ComplexTensor, name):
        method = callable(getattr(torch.Tensor, name))
        yield lambda z, w: getattr(z, name)(*given(w)) if method else getattr(z, name)


def torch_has(name, dtype):
    """Whether this torch computes a function of parts; torch 2.11 has no 16-bit ``trace``."""
    if name != "trace":
        return True
    try:
        torch.zeros(1, 1, dtype=dtype).trace()
    except NotImplementedError:
        return False
    return True


CASES = [
    (form, dtype, name)
    for form, dtype, name in product(HELD, PARTS, [*CALLS, *OF_TWO, *WRITTEN])
    # There are no complex numbers of 16-bit parts, for what is computed on native tensors.
    if dtype.itemsize > 2 or (form == "split" and (name in RULES or name in WRITTEN))
    if torch_has(name, dtype)
]


@each_case(("form", "dtype", "name"), CASES)
def test_a_function_is_that_of_torch(form, dtype, name):
    """Values, shape and dtype, on parts and on complex numbers, against torch in complex128."""
    wide = [torch.from_numpy(drawn((3, 3), seed, "complex64")) for seed in (1, 2)]
    held = [in_parts(z.real.to(dtype), z.imag.to(dtype)) for z in wide]
    exact = [torch.from_numpy(array(z)) for z in held]
    if form == "native":
        held = [ComplexTensor(torch.complex(z.real, z.imag)) for z in held]
    calls = list(calls_of(name))
    assert calls
    for call in calls:
        several = isinstance(call(*exact), (tuple, list))
        results = [call(*held), call(*exact)] if several else [[call(*held)], [call(*exact)]]
        for got, want in zip(*results, strict=True):
            if not isinstance(want, torch.Tensor):
                assert got == want
                continue
            assert isinstance(got, ComplexTensor) == want.is_complex()
            if want.is_complex() or want.is_floating_point():
                assert got.real.dtype == dtype
            want = array(want)
            # At most 9 terms, of up to 5 roundings each, and the rounding of the result.
            size = 0.0 if name in MOVED else max(1.0, np.abs(want).max(initial=0.0))
            assert_near(array(got), want, 46 * torch.finfo(dtype).eps / 2 * size)


MOVED = {*PARTWISE.split(), *JOINS.split()} - {"sum", "mean", "cumsum", "trace", "diff"}
"""Functions that only move values, of which no rounding is allowed."""


@forms
def test_a_sum_may_have_another_dtype(form):
    z = HELD[form](drawn((3,), 1, "complex64"))
    assert torch.sum(z, 0, dtype=torch.complex128).dtype == torch.complex128


def test_every_rule_is_called():
    known = {*CALLS, *OF_TWO, *WRITTEN, "__matmul__"}
    assert {name for name in RULES if not name.endswith("_")} - known == set()


HALF_PRODUCTS = {
    "mul": torch.mul,
    "square": lambda z, w: z.square(),
    "pow": lambda z, w: z**2,
    "div": lambda z, w: z / w.reciprocal(),
    "exp": lambda z, w: torch.exp(z / 25),
    "add": lambda z, w: torch.add(z, w, alpha=300),
    "sub": lambda z, w: torch.sub(z, w, alpha=300),
    "matmul": torch.matmul,
    "mm": torch.mm,
}


@each_case("name", HALF_PRODUCTS)
def test_products_of_halves_are_rounded_once(name):
    """Parts are finite where their definition is: 300 * 300 is more than float16 holds."""
    parts = [torch.tensor([[300.0, -300.0], [250.0, 299.0]]), torch.full((2, 2), 300.0)]
    z, w = (ComplexTensor(*(p.half() for p in order)) for order in (parts, parts[::-1]))
    got = HALF_PRODUCTS[name](z, w)
    if name in ("div", "exp"):  # of operands that are themselves rounded
        first = {"div": w.reciprocal(), "exp": z / 25}[name]
        exact = np.asarray(first).astype(np.complex128)
        want = np.asarray(z).astype(np.complex128) / exact if name == "div" else np.exp(exact)
    else:
        wide = [ComplexTensor.from_torch_complex(torch.from_numpy(np.asarray(x))) for x in (z, w)]
        want = np.asarray(HALF_PRODUCTS[name](*(x.to(torch.complex128) for x in wide)))
    assert got.real.dtype == torch.float16
    for part, exact in ((got.real, want.real), (got.imag, want.imag)):
        assert not part.isnan().any()
        # float32 loses 2**-22 of the largest term, which matters where terms cancel.
        rounded = torch.from_numpy(exact).half()
        slack = 2.0**-22 * 4 * 300**2
        near = (part.double() - torch.from_numpy(exact)).abs() <= slack
        assert (torch.isclose(part, rounded, rtol=2**-10, atol=0) | near).all()


@each_case("name", ["norm", "tensordot", "add", "mul", "matmul", "exp", "cat"])
@forms
def test_an_absent_out_is_no_out(name, form):
    z = HELD[form](drawn((3, 3), 4))
    args = {"norm": (z,), "exp": (z,), "cat": ([z, z],)}.get(name, (z, z))
    got = getattr(torch, name)(*args, out=None)
    plain = [torch.from_numpy(np.asarray(x)) for x in (z, z)][: len(args)]
    want = getattr(torch, name)(*([plain * 2] if name == "cat" else plain), out=None)
    assert_near(got, want.numpy(), 1e-12)


@forms
@examples(40)
@given(shape=array_shapes(max_dims=3, max_side=5), seed=st.integers(0, 99))
def test_structure_of_the_field(form, shape, seed):
    values = drawn(shape, seed)
    z, size, u = HELD[form](values), np.abs(values), U["complex128"]
    assert np.array_equal(z.conj().conj(), z)
    # NumPy's magnitude is off by one place, 2 u, which the square doubles.
    assert_near((z * z.conj()).real, size**2, 8 * u * size**2)
    assert_near(ComplexTensor.from_polar(z.abs(), z.angle()), values, 10 * u * size)
    assert (z - z == 0).all()
    assert (z * 1j * -1j == z).all()


@forms
def test_matmul_of_shapes_that_do_not_fit_raises_as_torch_does(form):
    z = HELD[form](drawn((2, 3), 1))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        z @ z


@forms
def test_compiles_in_one_graph(form):
    def compute(x, y):
        z = ComplexTensor(x, y) if form == "split" else ComplexTensor(torch.complex(x, y))
        w = complex_matmul(z * z + z / 2 - 1j, z.mH)
        w = torch.stack([w, w]).sum(0) + torch.exp(w.conj() / 9)
        return w, w.abs(), w[0].angle()

    x, y = torch.tensor(drawn((3, 3), 9)).real.clone(), torch.tensor(drawn((3, 3), 9)).imag.clone()
    torch.compiler.reset()
    compiled = torch.compile(compute, backend="eager", fullgraph=True)
    for got, want in zip(compiled(x, y), compute(x, y), strict=True):
        assert type(got) is type(want)
        assert np.array_equal(np.asarray(got), np.asarray(want))


@forms
@each_case("options", [{}, {"value": 2.0}, {"mode": "reflect"}, {"mode": "circular"}])
def test_padding(form, options):
    z = drawn((2, 3, 5), 3)
    pads = (2, 1)
    got = torch.nn.functional.pad(HELD[form](z), pads, **options)
    mode = {"reflect": "reflect", "circular": "wrap"}.get(options.get("mode"))
    width = [(0, 0), (0, 0), pads]
    if mode:
        want = np.pad(z, width, mode=mode)
    else:
        want = np.pad(z, width, constant_values=options.get("value", 0.0))
    np.testing.assert_array_equal(np.asarray(got), want)
