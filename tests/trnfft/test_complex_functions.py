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
from trnfft.complex_tensor import ComplexTensor, complex_matmul
from trnsci.core.errors import ShapeError

from .agreement import in_parts

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


# (function of a torch tensor, the same of a NumPy array): values are only moved, so equal.
REARRANGEMENTS = {
    "reshape": (lambda z: z.reshape(2, 12), lambda z: z.reshape(2, 12)),
    "reshape of a tuple": (lambda z: z.reshape((4, -1)), lambda z: z.reshape(4, -1)),
    "view": (lambda z: z.view(24), np.ravel),
    "flatten": (lambda z: z.flatten(1), lambda z: z.reshape(2, 12)),
    "transpose": (lambda z: z.transpose(0, 2), lambda z: z.swapaxes(0, 2)),
    "permute": (lambda z: z.permute(2, 0, 1), lambda z: z.transpose(2, 0, 1)),
    "movedim": (lambda z: z.movedim(0, -1), lambda z: np.moveaxis(z, 0, -1)),
    "squeeze": (lambda z: z[:1].squeeze(), lambda z: z[0]),
    "squeeze(0)": (lambda z: z[:1, :1].squeeze(0), lambda z: z[0, :1]),
    "unsqueeze": (lambda z: z.unsqueeze(1), lambda z: z[:, None]),
    "expand": (lambda z: z[:1].expand(5, 3, 4), lambda z: np.repeat(z[:1], 5, 0)),
    "flip": (lambda z: z.flip(0, 2), lambda z: z[::-1, :, ::-1]),
    "roll": (lambda z: z.roll(1, 2), lambda z: np.roll(z, 1, 2)),
    "mT": (lambda z: z.mT, lambda z: z.swapaxes(1, 2)),
    "mH": (lambda z: z.mH, lambda z: z.swapaxes(1, 2).conj()),
    "T": (lambda z: z[0].T, lambda z: z[0].T),
    "H": (lambda z: z[0].H, lambda z: z[0].conj().T),
    "contiguous": (lambda z: z.mT.contiguous(), lambda z: z.swapaxes(1, 2)),
    "conj": (lambda z: z.conj(), np.conj),
    "detach": (lambda z: z.detach(), np.array),
    "neg": (operator.neg, np.negative),
    "pos": (operator.pos, np.positive),
    "stack": (lambda z: torch.stack([z, z.conj()], 1), lambda z: np.stack([z, z.conj()], 1)),
    "cat": (lambda z: torch.cat((z, z.real), dim=2), lambda z: np.concatenate([z, z.real], 2)),
    "cat by name": (lambda z: torch.cat(tensors=[z, z]), lambda z: np.concatenate([z, z])),
    "where": (
        lambda z: torch.where(z.real > 0, z, 0),
        lambda z: np.where(z.real > 0, z, 0),
    ),
    "chunk": (lambda z: z.chunk(2, 2)[1], lambda z: z[:, :, 2:]),
    "split": (lambda z: z.split(2, 1)[1], lambda z: z[:, 2:]),
    "unbind": (lambda z: z.unbind(1)[2], lambda z: z[:, 2]),
    "torch.split": (lambda z: torch.split(z, [1, 3], 2)[1], lambda z: z[:, :, 1:]),
    "tril": (torch.tril, np.tril),
    "index_select": (
        lambda z: torch.index_select(z, 1, torch.tensor([2, 0])),
        lambda z: z[:, [2, 0]],
    ),
    "broadcast_tensors": (
        lambda z: torch.broadcast_tensors(z, torch.ones(5, 1, 1, 1))[0],
        lambda z: np.broadcast_to(z, (5, *z.shape)),
    ),
    "view_as_real": (torch.view_as_real, lambda z: np.stack([z.real, z.imag], -1)),
    "real": (torch.real, np.real),
    "imag": (torch.imag, np.imag),
    "isfinite": (torch.isfinite, np.isfinite),
    "zeros_like": (torch.zeros_like, np.zeros_like),
}


@forms
@widths
@each_case("name", REARRANGEMENTS)
def test_rearrangements_are_exact(name, width, form):
    of_torch, of_numpy = REARRANGEMENTS[name]
    z = drawn((2, 3, 4), 6, width)
    got, want = of_torch(HELD[form](z)), of_numpy(z)
    assert isinstance(got, ComplexTensor) == np.iscomplexobj(want)
    assert np.array_equal(np.asarray(got), want)
    assert np.asarray(got).dtype == want.dtype


# (function of a torch tensor, the same in NumPy, bound of the error in units of u).
FUNCTIONS = {
    "sum": (lambda z: z.sum(), np.sum, lambda z: 24 * np.abs(z).sum()),
    "sum(1)": (lambda z: z.sum(1, True), lambda z: z.sum(1, keepdims=True), lambda z: 50),
    "sum by name": (
        lambda z: torch.sum(input=z, dim=(0, 2)),
        lambda z: z.sum((0, 2)),
        lambda z: 99,
    ),
    "sum to complex128": (
        lambda z: torch.sum(z, 0, dtype=torch.complex128),
        lambda z: z.sum(0),
        lambda z: 50,
    ),
    "mean": (lambda z: z.mean(), np.mean, lambda z: 24 * np.abs(z).mean()),
    "mean(0)": (lambda z: z.mean(0), lambda z: z.mean(0), lambda z: 20),
    "prod": (lambda z: z.prod(1), lambda z: z.prod(1), lambda z: 10 * np.abs(z).prod(1)),
    "cumsum": (lambda z: z.cumsum(2), lambda z: z.cumsum(2), lambda z: 50),
    "abs": (abs, np.abs, lambda z: 4 * np.abs(z)),
    "torch.abs": (torch.abs, np.abs, lambda z: 4 * np.abs(z)),
    "angle": (lambda z: z.angle(), np.angle, lambda z: 10),
    "exp": (lambda z: z.exp(), np.exp, lambda z: 10 * np.exp(z.real)),
    "log": (lambda z: z.log(), np.log, lambda z: 10),
    "sqrt": (lambda z: z.sqrt(), np.sqrt, lambda z: 10 * np.sqrt(np.abs(z))),
    "square": (lambda z: z.square(), np.square, lambda z: 10 * np.abs(z) ** 2),
    "reciprocal": (lambda z: z.reciprocal(), lambda z: 1 / z, lambda z: 10 / np.abs(z)),
    "alpha": (
        lambda z: torch.add(z, z.conj(), alpha=2j),
        lambda z: z + 2j * z.conj(),
        lambda z: 10 * np.abs(z),
    ),
    "rsub": (lambda z: torch.rsub(z, z.conj()), lambda z: z.conj() - z, lambda z: 10),
    "by name": (lambda z: torch.sub(z, other=1j), lambda z: z - 1j, lambda z: 10),
    # Not in the table of rules: computed by torch on a native tensor.
    "sin": (torch.sin, np.sin, lambda z: 10 * np.exp(np.abs(z.imag))),
    "tanh": (torch.tanh, np.tanh, lambda z: 1000),
    "einsum": (
        lambda z: torch.einsum("ijk,ilk->ijl", z, z),
        lambda z: np.einsum("ijk,ilk->ijl", z, z),
        lambda z: 200,
    ),
    "vector_norm": (torch.linalg.vector_norm, np.linalg.norm, lambda z: 100),
    "matmul": (
        lambda z: z @ z.mH,
        lambda z: z @ z.conj().swapaxes(1, 2),
        lambda z: 200,
    ),
    "matmul, real": (
        lambda z: z.matmul(torch.ones(4, 2, dtype=z.real.dtype)),
        lambda z: z @ np.ones((4, 2)),
        lambda z: 200,
    ),
    "bmm": (lambda z: torch.bmm(z, z.mT), lambda z: z @ z.swapaxes(1, 2), lambda z: 200),
}


@forms
@widths
@each_case("name", FUNCTIONS)
def test_functions_agree_with_numpy(name, width, form):
    of_torch, of_numpy, size = FUNCTIONS[name]
    z = drawn((2, 3, 4), 8, width)
    exact = z.astype(np.complex128)
    got, want = of_torch(HELD[form](z)), of_numpy(exact)
    assert isinstance(got, ComplexTensor) == np.iscomplexobj(want)
    assert_near(got, want, U[width] * size(exact))


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


@each_case("dtype", [torch.float16, torch.bfloat16])
@each_case("name", FUNCTIONS)
def test_functions_of_halves_stay_halves(name, dtype):
    if name == "sum to complex128":
        pytest.skip("asks for another dtype")
    of_torch, of_numpy, size = FUNCTIONS[name]
    z = HELD["split"](drawn((2, 3, 4), 8, "complex64")).to(dtype)
    exact = np.asarray(z).astype(np.complex128)
    got = of_torch(z)
    assert (got.real if isinstance(got, ComplexTensor) else got).dtype == dtype
    u = torch.finfo(dtype).eps / 2
    want = of_numpy(exact)
    got = np.asarray(got if isinstance(got, ComplexTensor) else got.double())
    # The bounds are for the roundings of the computation; the result is rounded once more.
    assert_near(got, want, u * (size(exact) + 2 * np.abs(want)))


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
