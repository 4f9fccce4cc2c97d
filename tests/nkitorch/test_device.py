"""The device "neuron": the CPU's memory and numbers, and no crash."""

import copy
import io
import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from fresh_process import printed_after
from nkitorch import interop
from nkitorch.memory import to_host, to_neuron

DTYPES = [
    getattr(torch, name)
    for name in (
        *("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32"),
        *("float64", "complex64", "float8_e4m3fn", "float8_e5m2", "uint16", "uint32"),
    )
]


@given(
    dtype=st.sampled_from(DTYPES),
    shape=st.lists(st.integers(0, 3), max_size=3),
    order=st.randoms(use_true_random=False),
    start=st.integers(0, 2),
)
@settings(max_examples=60, deadline=None)
def test_memory_is_shared_in_both_directions(dtype, shape, order, start):
    size = torch.Size(shape).numel() + start
    base = torch.arange(size * dtype.itemsize, dtype=torch.uint8).view(dtype)[start:]
    tensor = base.reshape(shape).permute(order.sample(range(len(shape)), len(shape)))
    there = to_neuron(tensor)
    assert (there.device.type, there.dtype) == ("neuron", dtype)
    assert (there.shape, there.stride()) == (tensor.shape, tensor.stride())
    back = to_host(there)
    assert (back.shape, back.stride(), back.dtype) == (tensor.shape, tensor.stride(), dtype)
    if tensor.numel():
        assert there.data_ptr() == tensor.data_ptr() == back.data_ptr()
        assert type(there) is torch.Tensor


def test_views_share_one_storage():
    x = torch.arange(24.0).reshape(4, 6).to("neuron")
    storage = x.untyped_storage().data_ptr()
    views = [x.t(), x[1:], x.view(3, 8), x.unfold(1, 2, 1), x[:, ::2], x.as_strided((2, 2), (1, 2))]
    views += [
        x[1:].as_strided((2, 2), (1, 2), 3),
        x.detach(),
        x.expand(2, 4, 6),
        x.view(torch.int32),
    ]
    for view in views:
        assert view.device.type == "neuron"
        assert view.untyped_storage().data_ptr() == storage
    x[1:] += 1
    host = torch.arange(24.0).reshape(4, 6)
    host[1:] += 1
    assert_close(x.cpu(), host)
    assert_close(x[1:].as_strided((2, 2), (1, 2), 3).cpu(), host.as_strided((2, 2), (1, 2), 3))


def test_names_of_the_device():
    x = torch.ones(2)
    for device in ("neuron", "neuron:0", "privateuseone:0", torch.neuron.current_device()):
        moved = x.to(device)
        assert (moved.device.type, moved.is_neuron) == ("neuron", True)
        assert str(moved.device) == "neuron:0"
    assert x.neuron().cpu().device.type == "cpu"
    torch.neuron.synchronize()
    assert torch.neuron.is_available()
    with torch.device("neuron"):
        assert torch.zeros(2).is_neuron
    assert repr(torch.ones(2, device="neuron")) == "tensor([1., 1.], device='neuron:0')"


def test_random_numbers_are_those_of_the_cpu():
    torch.manual_seed(3)
    expected = torch.rand(4), torch.randn(3), torch.randperm(5)
    torch.manual_seed(3)
    found = [f(n, device="neuron") for f, n in ((torch.rand, 4), (torch.randn, 3))]
    found.append(torch.randperm(5, device="neuron"))
    for one, other in zip(expected, found, strict=True):
        assert torch.equal(one, other.cpu())
    state = torch.neuron.get_rng_state()
    first = torch.rand(2, device="neuron")
    torch.neuron.set_rng_state(state)
    assert torch.equal(first.cpu(), torch.rand(2))


def saved(value, **options):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, **options)


def test_save_and_load():
    x = torch.arange(6.0).to("neuron")
    found = saved({"x": x, "part": x[2:]})
    assert found["x"].is_neuron
    found["x"] += 1
    assert found["part"].tolist() == [3, 4, 5, 6]
    assert saved(x, map_location="cpu").device.type == "cpu"
    assert saved(x.cpu(), map_location="neuron").is_neuron


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_recurrent_layers_match_the_cpu(kind):
    torch.manual_seed(0)
    layer, x = kind(3, 4, num_layers=2, bidirectional=True), torch.randn(5, 2, 3)
    there = copy.deepcopy(layer).to("neuron")
    expected, found = layer(x)[0], there(x.to("neuron"))[0]
    assert_close(found.cpu(), expected)
    expected.square().sum().backward()
    found.square().sum().backward()
    for one, other in zip(layer.parameters(), there.parameters(), strict=True):
        assert_close(other.grad.cpu(), one.grad, rtol=1e-5, atol=1e-5)


OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
    "Adam": lambda p: torch.optim.Adam(p, 0.1),
    "AdamW": lambda p: torch.optim.AdamW(p, 0.1, amsgrad=True),
    "fused Adam": lambda p: torch.optim.Adam(p, 0.1, fused=True),
    "foreach Adam": lambda p: torch.optim.Adam(p, 0.1, foreach=True),
    "RMSprop": lambda p: torch.optim.RMSprop(p, 0.1),
    "Adagrad": lambda p: torch.optim.Adagrad(p, 0.1),
    "LBFGS": lambda p: torch.optim.LBFGS(p, 0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_step_as_on_the_cpu(name):
    def trained(device):
        torch.manual_seed(1)
        model = torch.nn.Sequential(
            torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU(), torch.nn.Flatten()
        ).to(device)
        x = torch.randn(3, 1, 5, 5).to(device)
        optimizer = OPTIMIZERS[name](model.parameters())

        def closure():
            optimizer.zero_grad()
            loss = model(x).square().mean() + model[0].weight.sum()
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
        saved(optimizer.state_dict())
        return [p.detach().cpu() for p in model.parameters()]

    for one, other in zip(trained("cpu"), trained("neuron"), strict=True):
        assert_close(other, one, rtol=1e-4, atol=1e-5)


def test_checkpointing_deepcopy_and_data_loaders():
    layer = torch.nn.Linear(4, 4).to("neuron")
    x = torch.randn(2, 4, device="neuron", requires_grad=True)
    torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False).sum().backward()
    assert x.grad.is_neuron
    twin = copy.deepcopy(layer)
    assert twin.weight.is_neuron
    assert twin.weight.data_ptr() != layer.weight.data_ptr()
    data = torch.utils.data.TensorDataset(torch.arange(6.0, device="neuron"))
    assert [b.tolist() for (b,) in torch.utils.data.DataLoader(data, 4)] == [[0, 1, 2, 3], [4, 5]]


def test_autocast():
    a = torch.randn(4, 4, device="neuron", requires_grad=True)
    with torch.autocast("neuron", dtype=torch.bfloat16):
        product = a @ a
        assert product.dtype == torch.bfloat16
        assert torch.nn.functional.linear(a, a).dtype == torch.bfloat16
        assert torch.softmax(product, -1).dtype == torch.float32
        assert (a + a).dtype == torch.float32
        assert product.sum().dtype == torch.float32
        product.sum().backward()
    assert a.grad.dtype == torch.float32
    assert (a @ a).dtype == torch.float32


@pytest.mark.parametrize("shape", [(2, 1), (1, 2), (3, 4)])
def test_norms_have_the_bits_of_the_cpu(shape):
    """In a row of one element what is left is the rounding of the mean, times 300."""
    torch.manual_seed(2)
    x = 9 * torch.randn(shape)
    for norm in (
        lambda x: torch.nn.functional.layer_norm(x, x.shape[1:]),
        lambda x: torch.nn.functional.layer_norm(x, x.shape[1:], weight=x[0], bias=x[0]),
        lambda x: torch.nn.functional.group_norm(x, 1),
    ):
        assert torch.equal(norm(x.to("neuron")).cpu(), norm(x))


def test_results_written_to_out_and_resized():
    x = torch.arange(4.0, device="neuron")
    out = torch.empty(0, device="neuron")
    assert torch.add(x, 1, out=out) is out
    assert out.tolist() == [1, 2, 3, 4]
    assert out.resize_(2, 3).shape == (2, 3)
    assert out.view(-1)[:4].tolist() == [1, 2, 3, 4]
    given = torch.empty(4, device="neuron")
    memory = given.data_ptr()
    torch.mul(x, 2, out=given)
    assert (given.tolist(), given.data_ptr()) == ([0, 2, 4, 6], memory)


def test_threads():
    results = {}

    def work(n):
        x = torch.full((8, 8), float(n), device="neuron", requires_grad=True)
        (x @ x).sum().backward()
        results[n] = x.grad.sum().item()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert results == {n: 2 * 8 * n * 64.0 for n in range(4)}


REFUSED = {
    "another device": (lambda: torch.ones(2, device="neuron:1"), "neuron:1"),
    "a tensor of the CPU": (
        lambda: torch.ones(2, device="neuron") + torch.ones(2),
        "neuron:0 and cpu",
    ),
    "a generator": (lambda: torch.Generator(device="neuron"), "(?i)generator"),
    "pinned memory": (lambda: torch.ones(2).pin_memory(), "(?i)pinned"),
    "a sparse tensor": (lambda: torch.eye(2, device="neuron").to_sparse(), "sparse"),
    "NumPy": (lambda: torch.ones(2, device="neuron").numpy(), "neuron:0"),
    "set_device": (lambda: torch.neuron.set_device(1), "accepted: 0"),
    "a resized storage": (
        lambda: torch.empty(1, device="neuron").untyped_storage().resize_(64),
        "(?i)resize",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_device_does_not_have_is_named(name):
    call, message = REFUSED[name]
    with pytest.raises((RuntimeError, NotImplementedError, TypeError), match=message):
        call()


def test_storages_of_torch_have_memory():
    storage = torch.UntypedStorage(16, device="neuron")
    assert (storage.nbytes(), storage.device.type) == (16, "neuron")
    assert torch.UntypedStorage(4).device.type == "cpu"
    moved = torch.arange(4.0).untyped_storage().to(device="neuron")
    assert torch.empty(0, device="neuron").set_(moved).tolist() == [0, 1, 2, 3]


def test_a_missing_private_name_is_an_error_that_names_it():
    interop.require_names()
    with pytest.raises(ImportError, match=r"torch\._C\._gone, torch\.also\.gone"):
        interop.require_names(("_C._gone", "_C._to_dlpack", "also.gone"))


def test_memory_outlives_a_change_of_form():
    x = torch.arange(8.0).to("neuron")
    held = torch.empty(40, device="neuron")
    view = held[2:]
    for _ in range(50):
        held.as_strided_((2, 4), (4, 1), 3)
        held.view(-1).copy_(x)
        torch.empty(40, device="neuron").fill_(7)
    assert view[1:9].tolist() == list(range(8))
    x.t_()
    y = torch.ones(2, 3, device="neuron").t_()
    assert (y.shape, y.sum().item()) == ((3, 2), 6)


def test_zeros_without_memory_get_some():
    x = torch.randn(3, 4, device="neuron", requires_grad=True)
    (grad,) = torch.autograd.grad(torch.sgn(x).abs().sum(), x)
    assert grad.tolist() == [[0.0] * 4] * 3


def test_lazy_conjugation_and_negation():
    x = torch.randn(3, 4, dtype=torch.complex64)
    there = x.to("neuron")
    assert_close(there.conj().cpu(), x.conj().resolve_conj())
    assert_close(there.conj().imag.cpu(), x.conj().imag.resolve_neg())
    assert_close((there.conj() @ there.mT).cpu(), x.conj() @ x.mT)
    assert_close(torch.fft.hfft(there).cpu(), torch.fft.hfft(x))


def test_the_device_is_refused_beside_cuda():
    code = """
import nkisim, torch
torch.cuda.device_count = lambda: 1
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    nkisim.install()
print(json.dumps([str(found[0].message), hasattr(torch, "neuron")]))
"""
    message, is_there = printed_after("torch", code)
    assert "this process has CUDA" in message
    assert 'CUDA_VISIBLE_DEVICES=""' in message
    assert not is_there
