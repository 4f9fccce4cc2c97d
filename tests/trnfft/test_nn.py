"""Complex layers against the definition in native complex128, and their gradients."""

import copy

import numpy as np
import pytest
import torch

from each_case import each_case
from fresh_process import printed_after
from trnfft import nn
from trnfft.complex_tensor import ComplexTensor
from trnsci.core.errors import DTypeError, FlagError, ShapeError

U = 2.0**-53


def drawn(*shape, seed=3):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.complex128)


def seeded(layer, *args, **kwargs):
    """A float64 layer with every parameter drawn from a fixed seed, biases included."""
    made = layer(*args, dtype=torch.float64, **kwargs)
    generator = torch.Generator().manual_seed(11)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, generator=generator)
    return made


def linear():
    return seeded(nn.ComplexLinear, 5, 4), drawn(3, 2, 5)


def conv():
    options = {"stride": 2, "padding": 1, "dilation": 2, "groups": 2}
    return seeded(nn.ComplexConv1d, 4, 2, 2, **options), drawn(2, 4, 5)


def norm():
    return seeded(nn.ComplexBatchNorm1d, 3), drawn(4, 3, 5)


def modrelu():
    return seeded(nn.ComplexModReLU, 3, channel_dim=1), drawn(2, 3, 4)


LAYERS = [linear, conv, norm, modrelu]
layers = pytest.mark.parametrize("layer", LAYERS, ids=lambda build: build.__name__)


def numbers(z):
    return np.asarray(z.detach() if isinstance(z, ComplexTensor) else z.detach().numpy())


class TestEveryLayer:
    @layers
    def test_output_kind_follows_the_input(self, layer):
        module, z = layer()
        module.eval()
        native = module(z)
        held = module(ComplexTensor(z))
        split = module(ComplexTensor(z.real.clone(), z.imag.clone()))
        real = module(z.real.clone())
        assert isinstance(native, torch.Tensor)
        assert native.dtype == torch.complex128
        for other in (held, split, real):
            assert isinstance(other, ComplexTensor)
        assert np.array_equal(numbers(held), numbers(native))
        # The same products in another order, each of at most 12 terms below 10.
        assert np.abs(numbers(split) - numbers(native)).max() <= 12 * 12 * 10 * U
        assert np.abs(numbers(real) - numbers(module(z.real + 0j))).max() <= 12 * 12 * 10 * U

    @layers
    def test_gradcheck(self, layer):
        module, z = layer()
        parameters = dict(module.named_parameters())

        def compute(z, *values):
            named = dict(zip(parameters, values, strict=True))
            return torch.func.functional_call(module, named, (z,))

        inputs = (z[:2], *(parameter.detach() for parameter in parameters.values()))
        assert torch.autograd.gradcheck(compute, [x.clone().requires_grad_() for x in inputs])

    @layers
    @each_case("bias", [-0.5, 0.0, 0.5])
    def test_gradients_of_silence_are_finite(self, layer, bias):
        module, z = layer()
        for name, parameter in module.named_parameters():
            if "bias" in name:
                torch.nn.init.constant_(parameter, bias)
        z = torch.zeros_like(z).requires_grad_()
        module(z).abs().sum().backward()
        assert z.grad.isfinite().all()
        assert all(parameter.grad.isfinite().all() for parameter in module.parameters())

    @layers
    def test_state_survives_a_round_trip(self, layer):
        module, z = layer()
        module.eval()
        again = copy.deepcopy(module)
        for parameter in again.parameters():
            torch.nn.init.zeros_(parameter)
        again.load_state_dict(module.state_dict())
        assert torch.equal(again(z), module(z))

    @layers
    def test_dtypes_that_do_not_fit(self, layer):
        module, z = layer()
        with pytest.raises(DTypeError, match=r"parts of the parameters' .*64, got .*32"):
            module(z.to(torch.complex64))
        with pytest.raises(DTypeError, match="input must be a tensor, got list"):
            module([1])

    @layers
    @each_case("dtype", [torch.bfloat16, torch.float16, torch.float32])
    def test_other_dtypes(self, layer, dtype):
        module, z = layer()
        module.eval()
        want = numbers(module(z))
        x = ComplexTensor(z).to(dtype)
        got = module.to(dtype)(x)
        assert got.part_dtype == dtype
        # Input and weights are rounded, then up to 24 products and sums of size below 10; a
        # bias of modReLU near -|z| has no relative accuracy, hence the absolute bound.
        bound = 24 * 2 * 10 * torch.finfo(dtype).eps / 2
        assert np.abs(numbers(got) - want).max() <= bound

    @layers
    def test_compiles(self, layer):
        module, z = layer()
        module.eval()
        torch.compiler.reset()
        compiled = torch.compile(module, backend="eager", fullgraph=True)
        assert torch.equal(compiled(z), module(z))


class TestLinear:
    def test_definition(self):
        layer, z = linear()
        weight = layer.W_re.weight + 1j * layer.W_im.weight
        want = torch.einsum("...i,oi->...o", z, weight) + layer.bias_re + 1j * layer.bias_im
        # Five products and a bias, of magnitudes below 10.
        assert np.abs(numbers(layer(z)) - numbers(want)).max() <= 6 * 6 * 10 * U
        assert layer(z[0, 0]).shape == (4,)

    def test_state_and_initial_values(self):
        torch.manual_seed(0)
        layer = nn.ComplexLinear(100, 20)
        assert {name: tuple(value.shape) for name, value in layer.state_dict().items()} == {
            "W_re.weight": (20, 100),
            "W_im.weight": (20, 100),
            "bias_re": (20,),
            "bias_im": (20,),
        }
        # Kaiming's uniform distribution with a = sqrt(5) ends at 1 / sqrt(in).
        for weight in (layer.W_re.weight, layer.W_im.weight):
            assert 0.09 < weight.abs().max() <= 0.1
        assert not torch.equal(layer.W_re.weight, layer.W_im.weight)
        assert not layer.bias_re.any()
        assert not layer.bias_im.any()
        assert list(nn.ComplexLinear(2, 3, bias=False).state_dict()) == [
            "W_re.weight",
            "W_im.weight",
        ]
        assert "in_features=100, out_features=20, bias=True" in repr(layer)

    def test_without_bias(self):
        layer = seeded(nn.ComplexLinear, 5, 4, bias=False)
        z = drawn(3, 5)
        want = z @ (layer.W_re.weight + 1j * layer.W_im.weight).T
        assert np.abs(numbers(layer(z)) - numbers(want)).max() <= 6 * 6 * 10 * U

    def test_shapes_that_do_not_fit(self):
        layer, _ = linear()
        with pytest.raises(ShapeError, match=r"ComplexLinear: .* 5 features .* got shape \(3, 4\)"):
            layer(drawn(3, 4))
        with pytest.raises(ShapeError, match="got shape"):
            layer(drawn())


class TestConv1d:
    @each_case("batch", [(), (1,), (3,)])
    @each_case(
        "options",
        [
            {},
            {"stride": 2, "padding": 3},
            {"dilation": 2, "groups": 2, "bias": False},
            {"padding": "same"},
        ],
        ids=str,
    )
    def test_definition(self, batch, options):
        layer = seeded(nn.ComplexConv1d, 4, 6, 3, **options)
        z = drawn(*batch, 4, 10)
        weight = numbers(layer.conv_re.weight) + 1j * numbers(layer.conv_im.weight)
        options = dict(options)
        bias = 0
        if options.pop("bias", True):
            bias = numbers(layer.bias_re) + 1j * numbers(layer.bias_im)
        want = correlated(z.numpy().reshape(-1, 4, 10), weight, **options)
        want = want + np.reshape(bias, (-1, 1))
        got = numbers(layer(z))
        # Twelve products and a bias, of magnitudes below 10.
        assert got.shape == (*batch, *want.shape[1:])
        assert np.abs(got.reshape(want.shape) - want).max() <= 13 * 13 * 10 * U

    def test_state(self):
        state = nn.ComplexConv1d(4, 6, 3).state_dict()
        assert {name: tuple(value.shape) for name, value in state.items()} == {
            "conv_re.weight": (6, 4, 3),
            "conv_im.weight": (6, 4, 3),
            "bias_re": (6,),
            "bias_im": (6,),
        }

    def test_shapes_that_do_not_fit(self):
        layer, _ = conv()
        with pytest.raises(ShapeError, match="4 channels in dimension -2"):
            layer(drawn(2, 5, 9))
        with pytest.raises(ShapeError, match=r"\(channels, length\), got shape \(4,\)"):
            layer(drawn(4))


def correlated(z, weight, stride=1, padding=0, dilation=1, groups=1):
    """The layer without its bias by the definition, one output sample after the other."""
    out, inner, taps = weight.shape
    if padding == "same":
        padding = dilation * (taps - 1) // 2
    z = np.pad(z, ((0, 0), (0, 0), (padding, padding)))
    count = (z.shape[2] - dilation * (taps - 1) - 1) // stride + 1
    result = np.empty((len(z), out, count), complex)
    for o in range(out):
        first = o // (out // groups) * inner
        for t in range(count):
            window = z[:, first : first + inner, t * stride :][:, :, : dilation * taps : dilation]
            result[:, o, t] = (window * weight[o]).sum((1, 2))
    return result


class TestBatchNorm1d:
    def test_definition_in_training_and_after(self):
        layer, z = norm()
        got = numbers(layer(z))
        for part, bn in (("real", layer.bn_re), ("imag", layer.bn_im)):
            x = getattr(z.numpy(), part)
            mean, var = x.mean((0, 2)), x.var((0, 2))
            scale = numbers(bn.weight) / np.sqrt(var + 1e-5)
            want = (x - mean[:, None]) * scale[:, None] + numbers(bn.bias)[:, None]
            # Means of twenty numbers of size one.
            assert np.abs(getattr(got, part) - want).max() <= 20 * 20 * 4 * U
            assert np.abs(numbers(bn.running_mean) - 0.1 * mean).max() <= 20 * U
        layer.eval()
        assert not np.array_equal(numbers(layer(z)), got)

    def test_state(self):
        keys = ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
        want = [f"{part}.{key}" for part in ("bn_re", "bn_im") for key in keys]
        assert list(nn.ComplexBatchNorm1d(3).state_dict()) == want

    def test_shapes_that_do_not_fit(self):
        with pytest.raises(ShapeError, match="3 features in dimension 1"):
            norm()[0](drawn(3, 4))
        with pytest.raises(ShapeError, match=r"\(batch, features\)"):
            norm()[0](drawn(3))


class TestModReLU:
    @each_case("channel_dim", [-1, 0, 1])
    def test_definition(self, channel_dim):
        layer = seeded(nn.ComplexModReLU, 3, channel_dim=channel_dim)
        z = drawn(3, 3, 3).numpy()
        shape = [1, 1, 1]
        shape[channel_dim] = 3
        size = np.abs(z)
        want = np.maximum(size + numbers(layer.bias).reshape(shape), 0) * z / np.maximum(size, 1e-8)
        got = numbers(layer(torch.tensor(z)))
        # The sum, the quotient and the product: their size is that of |z| + |b| below 10.
        assert np.abs(got - want).max() <= 8 * 10 * U
        kept = np.abs(want) > 0
        assert kept.any()
        assert not kept.all()
        assert np.abs(np.angle(got[kept]) - np.angle(z[kept])).max() <= 8 * U * np.pi

    def test_state_and_repr(self):
        layer = nn.ComplexModReLU(3)
        assert list(layer.state_dict()) == ["bias"]
        assert not layer.bias.any()
        assert "num_features=3, channel_dim=-1" in repr(layer)

    def test_follows_a_convolution(self):
        net = torch.nn.Sequential(nn.ComplexConv1d(2, 5, 3), nn.ComplexModReLU(5, channel_dim=1))
        assert net(ComplexTensor(torch.ones(4, 2, 8))).shape == (4, 5, 6)

    def test_zero_stays_zero_in_every_dtype(self):
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            layer = nn.ComplexModReLU(2, dtype=dtype)
            torch.nn.init.constant_(layer.bias, 1)
            z = ComplexTensor(torch.zeros(3, 2, dtype=dtype)).requires_grad_()
            y = layer(z)
            y.abs().sum().backward()
            assert not y.abs().any()
            assert not z.grad.abs().any()

    def test_what_does_not_fit(self):
        with pytest.raises(ShapeError, match="3 features in dimension -1"):
            nn.ComplexModReLU(3)(drawn(3, 4).to(torch.complex64))
        with pytest.raises(ShapeError, match="3 features in dimension 2"):
            nn.ComplexModReLU(3, channel_dim=2)(drawn(3, 3).to(torch.complex64))
        with pytest.raises(FlagError, match="channel_dim must be an integer, got 'last'"):
            nn.ComplexModReLU(3, channel_dim="last")


def test_is_not_imported_with_the_package():
    code = "import sys, trnfft; early = 'trnfft.nn' in sys.modules; import trnfft.nn"
    assert printed_after("torch", f"{code}\nprint(json.dumps(early))") is False


def test_a_network_learns_a_complex_rotation():
    torch.manual_seed(0)
    net = nn.ComplexLinear(2, 2, bias=False, dtype=torch.float64)
    z = drawn(64, 2)
    target = z * torch.tensor([1j, -1])
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for _ in range(100):
        loss = ((net(z) - target).abs() ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    # A quadratic with curvature about 2 for unit variance: each step of 0.1 shrinks the loss by
    # more than 10 %, and 0.9 ** 100 is 3e-5.
    assert losses[-1] < 3e-5 * losses[0]
