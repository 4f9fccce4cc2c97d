"""Gradients of ComplexTensor: those of torch's complex numbers, and finite where these are not."""

import pytest
import torch

from each_case import each_case
from trnfft.complex_tensor import ComplexTensor, complex_matmul

from .agreement import in_parts

MADE = {
    "split": in_parts,
    "native": lambda re, im: ComplexTensor(torch.complex(re, im)),
}
forms = pytest.mark.parametrize("form", MADE)


def leaves(*shape, dtype=torch.float64):
    generator = torch.Generator().manual_seed(5)
    drawn = torch.randn(2, *shape, generator=generator, dtype=dtype)
    return tuple(part.clone().requires_grad_() for part in drawn)


def as_real(z):
    return torch.view_as_real(z) if isinstance(z, ComplexTensor) else z


FUNCTIONS = {
    "arithmetic": lambda z: z * z.conj() - 2j / z + z * 3,
    "division": lambda z: (z + 1) / (z * z - 5j),
    "power": lambda z: z**3 + z**-2 + z**0,
    "abs": lambda z: z.abs(),
    "angle": lambda z: z.angle(),
    "polar": lambda z: ComplexTensor.from_polar(z.abs(), z.angle() * 2),
    "exp": lambda z: z.exp(),
    "sum": lambda z: z.sum(0) * z.mean(),
    "matmul": lambda z: complex_matmul(z, z.mH) @ z,
    "structure": lambda z: torch.cat([z.T[1:], torch.stack([z[0], z[1]]).roll(1, 0)]),
    "native fallback": lambda z: torch.sin(z),
    "to": lambda z: z.to(torch.float32).to(torch.float64) * 0 + z.to("cpu"),
}


@forms
@each_case("name", FUNCTIONS)
def test_gradcheck(name, form):
    def compute(re, im):
        return as_real(FUNCTIONS[name](MADE[form](re, im)))

    assert torch.autograd.gradcheck(compute, leaves(2, 2))


@forms
@pytest.mark.parametrize("name", ["arithmetic", "division", "abs", "angle"])
def test_gradgradcheck(name, form):
    def compute(re, im):
        return as_real(FUNCTIONS[name](MADE[form](re, im)))

    assert torch.autograd.gradgradcheck(compute, leaves(2))


@forms
@each_case("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@each_case("name", ["abs", "angle", "polar"])
def test_gradient_at_zero_is_zero(name, dtype, form):
    if form == "native" and dtype.itemsize == 2:
        pytest.skip("no native complex numbers of this dtype")
    # Zeros of every sign beside a number, whose gradient stays.
    re = torch.tensor([0.0, -0.0, 0.0, 3.0], dtype=dtype, requires_grad=True)
    im = torch.tensor([0.0, 0.0, -0.0, 4.0], dtype=dtype, requires_grad=True)
    as_real(FUNCTIONS[name](MADE[form](re, im))).sum().backward()
    if name == "polar":  # the magnitude of zero turns neither way: its direction is still 1
        assert re.grad.isfinite().all()
        assert im.grad.isfinite().all()
    else:
        assert not re.grad[:3].any()
        assert not im.grad[:3].any()
    assert re.grad[3] != 0


@forms
@each_case("size", [1e-38, 1e-30, 1e30])
def test_gradients_of_extreme_magnitudes(size, form):
    # |z| is 5 size and the angle's derivative (-im, re) / |z|^2 is (-0.16, 0.12) / size, though
    # |z|^2 is outside float32. Where 1 / size is, there is nothing to compare.
    for name, want in (("abs", (0.6, 0.8)), ("angle", (-0.16 / size, 0.12 / size))):
        re = torch.tensor([3 * size], requires_grad=True)
        im = torch.tensor([4 * size], requires_grad=True)
        FUNCTIONS[name](MADE[form](re, im)).sum().backward()
        for got, value in zip((re.grad, im.grad), want, strict=True):
            # Some ten roundings of float32, and one of the input.
            assert abs(got.item() - value) <= 12 * 2.0**-24 * abs(value)


@forms
def test_angle_of_infinities_keeps_its_value(form):
    inf = float("inf")
    re = torch.tensor([inf, 1.0, -inf], requires_grad=True)
    im = torch.tensor([1.0, inf, inf], requires_grad=True)
    angle = MADE[form](re, im).angle()
    assert torch.equal(angle.detach(), torch.atan2(im, re).detach())


def test_gradient_of_a_tensor_that_is_tracked_itself():
    re, im = (part.detach() for part in leaves(3))
    # |z|^2 has the gradient 2 z in torch's convention, df/dre + i df/dim.
    for z in (ComplexTensor(re.clone(), im.clone()), ComplexTensor(torch.complex(re, im))):
        assert z.requires_grad_() is z
        assert z.requires_grad
        assert z.grad is None
        (z * z.conj()).real.sum().backward()
        assert torch.equal(z.grad.real, 2 * re)
        assert torch.equal(z.grad.imag, 2 * im)
        assert not z.detach().requires_grad


def test_gradients_reach_native_and_real_operands():
    t = torch.tensor([1 + 2j], dtype=torch.complex128, requires_grad=True)
    x = torch.tensor([3.0], dtype=torch.float64, requires_grad=True)
    z = ComplexTensor(*(part.detach() for part in leaves(1)))
    (t * z + z * x).abs().sum().backward()
    want_t, want_x = t.detach().clone().requires_grad_(), x.detach().clone().requires_grad_()
    plain = z.to_torch_complex()
    (want_t * plain + plain * want_x).abs().sum().backward()
    # Four products and two sums of numbers of size one.
    assert abs(t.grad - want_t.grad).item() <= 20 * 2.0**-53
    assert abs(x.grad - want_x.grad).item() <= 20 * 2.0**-53


def test_the_parts_of_a_tracked_native_tensor_are_in_its_history():
    t = torch.tensor([3 + 4j], requires_grad=True)
    ComplexTensor(t).real.sum().backward()
    assert t.grad.tolist() == [1]
    again = ComplexTensor(ComplexTensor(t).real, ComplexTensor(t).imag)
    t.grad = None
    (again * 2).imag.sum().backward()
    assert t.grad.tolist() == [2j]


def test_gradients_reach_the_parts_that_were_joined():
    re, im = leaves(3)
    z = ComplexTensor(re, im)
    assert z.grad is None
    (z * (2 - 1j)).abs().pow(2).sum().backward()
    assert z.grad is None
    # |(2 - i) z|^2 is 5 |z|^2.
    torch.testing.assert_close(re.grad, 10 * re.detach())
    torch.testing.assert_close(im.grad, 10 * im.detach())


@each_case("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@each_case("made", ["tracked", "native leaf", "joined leaves", "retained"])
def test_parts_have_the_gradient_of_the_tensor(made, dtype):
    """As a leaf has it: after backward, in each new access, and shared with its source."""
    re, im = leaves(3, dtype=dtype)
    if made == "native leaf" and dtype is not torch.bfloat16:
        z = ComplexTensor(torch.complex(re.detach(), im.detach()).requires_grad_())
    elif made == "joined leaves":
        z = ComplexTensor(re, im)
    elif made == "retained":
        z = ComplexTensor(re * 1, im * 1)
        z.retain_grad()
    else:
        z = ComplexTensor(re.detach(), im.detach()).requires_grad_()
    (z * z.conj()).real.sum().backward()
    assert torch.equal(z.real.grad, 2 * re.detach())
    assert torch.equal(z.imag.grad, 2 * im.detach())
    if made in ("tracked", "native leaf"):  # the others keep a graph of the parts
        with torch.no_grad():
            z.real.grad.zero_()
        assert not z.real.grad.any()
        (z * z.conj()).real.sum().backward()
        assert torch.equal(z.real.grad, 2 * re.detach())
        assert torch.equal(z.imag.grad, 4 * im.detach())
