"""Kernels on torch tensors: every form of a call in every mode of torch."""

import subprocess
import sys
import warnings
from functools import partial

import ml_dtypes
import numpy as np
import pytest
import torch
from torch.testing import assert_close

import nkisim
from nkitorch import nki_op, wrap_nki
from nkitorch.launch import CALLS, CHECK_VARIABLE

from .kernels import bump, bump_silently, halves, sum_and_square, twice


@nki_op("nkitest::double")
def double(x: torch.Tensor) -> torch.Tensor:
    return twice(x)


@nki_op("nkitest::scaled")
def scaled(x: torch.Tensor, mode: float) -> torch.Tensor:
    return twice(x, mode)


scaled.register_autograd(
    lambda ctx, grad: (twice(grad, ctx.mode), None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "mode", inputs[1]),
)
scaled.register_vmap(lambda info, dims, x, mode: (twice(x.flatten(0, 1), mode).view(x.shape), 0))


@nki_op("nkitest::bump_", mutates_args=("y",))
def bump_op(x: torch.Tensor, y: torch.Tensor) -> None:
    bump(x, y)


@nki_op("nkitest::bump_mode", mutates_args=("mode",))
def bump_mode(x: torch.Tensor, mode: torch.Tensor) -> torch.Tensor:
    bump(x, mode)
    return twice(mode)


wrapped = wrap_nki(twice)


@wrap_nki
@nkisim.jit
def decorated(x):
    return halves(x)


FORMS = {
    "direct": twice,
    "keyword": partial(twice, factor=2.0),
    "grid": halves[2],
    "wrap_nki": wrapped,
    "wrap_nki with a grid": wrap_nki(halves)[[(2,)]],
    "decorated": decorated,
    "nki_op": double,
}

DEVICES = ["neuron", "cpu"]


def x_on(device, rows=4, **options):
    x = torch.arange(rows * 8, dtype=torch.float32).reshape(rows, 8).to(device)
    return x.requires_grad_(**options) if options else x


def compiled(function, **options):
    return torch.compile(function, backend="neuron", fullgraph=True, **options)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("form", FORMS)
def test_forms_of_a_call(form, device):
    call, x = FORMS[form], x_on(device)
    found = call(x)
    assert found.device == x.device
    assert_close(found, 2 * x)
    with torch.autocast(device, dtype=torch.bfloat16):
        assert call(x).dtype == torch.float32
    with torch.no_grad():
        assert_close(call(x.t().contiguous().t()), 2 * x)


@pytest.mark.parametrize("form", FORMS)
def test_fake_tensors(form):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        for dtype in (torch.float32, torch.bfloat16):
            found = FORMS[form](torch.empty(4, 8, dtype=dtype, device="neuron"))
            assert (found.shape, found.dtype) == ((4, 8), dtype)
            assert found.device.type == "neuron"
    assert FORMS[form](torch.empty(4, 8, device="meta")).device.type == "meta"


@pytest.mark.parametrize("form", FORMS)
def test_compiled_graphs_are_whole(form):
    call, x = FORMS[form], x_on("neuron")
    for dynamic in (False, True):
        torch._dynamo.reset()
        graph = compiled(lambda x: call(x + 1) * 3, dynamic=dynamic)
        for rows in (4, 6, 2):
            x = x_on("neuron", rows)
            assert_close(graph(x), 6 * (x + 1))


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of torch's own, about its exports
@pytest.mark.parametrize("form", FORMS)
def test_export(form):
    class Model(torch.nn.Module):
        def forward(self, x):
            return FORMS[form](x) + 1

    x = x_on("neuron")
    program = torch.export.export(Model(), (x,), strict=False)
    assert_close(program.module()(x), 2 * x + 1)
    targets = [str(node.target) for node in program.graph.nodes]
    assert sum("nkitorch.call" in target or "nkitest" in target for target in targets) == 1
    targets = [str(node.target) for node in program.run_decompositions().graph.nodes]
    assert sum("nkitorch.call" in target for target in targets) == 1


def test_a_graph_holds_kernels_and_not_the_operator():
    graphs = []

    def noting(graph, inputs, **options):
        from torch._dynamo.backends.common import aot_autograd

        return aot_autograd(fw_compiler=lambda g, _: graphs.append(g) or g)(graph, inputs)

    x, y = x_on("neuron"), torch.ones(4, 8, device="neuron")
    torch.compile(lambda x, y: bump_mode(x, y) + double(y), backend=noting)(x, y)
    targets = [str(node.target) for node in graphs[0].graph.nodes]
    assert sum("nkitorch.call" in target for target in targets) == 3
    assert not any("nkitest" in target for target in targets)
    assert_close(y, x + 1)


def test_backward_of_an_operator():
    for function in (scaled, compiled(scaled)):
        x = x_on("neuron", requires_grad=True)
        function(x, 3.0).square().sum().backward()
        assert_close(x.grad, 18 * x.detach())


class TwiceFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return twice(x)

    @staticmethod
    def backward(ctx, grad):
        return twice(grad)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated")  # torch's compiler does so
def test_backward_in_a_function():
    for function in (TwiceFunction.apply, compiled(lambda x: TwiceFunction.apply(x))):
        x = x_on("neuron", requires_grad=True)
        function(x).sum().backward()
        assert_close(x.grad, torch.full_like(x, 2))


@pytest.mark.parametrize("form", FORMS)
def test_a_missing_rule_is_an_error_that_names_the_kernel(form):
    call = FORMS[form]
    if form != "nki_op":
        for function in (call, compiled(lambda x: call(x))):
            x = x_on("neuron", requires_grad=True)
            loss = function(x).sum()
            assert loss.item() == 2 * x.sum().item()
            with pytest.raises(NotImplementedError, match=r"kernel \w+ .*register_autograd"):
                loss.backward()
        with pytest.raises(NotImplementedError, match=r"kernel \w+ .*register_vmap"):
            torch.vmap(call)(torch.ones(3, 4, 8, device="neuron"))
    else:
        x = x_on("neuron", requires_grad=True)
        with pytest.raises(RuntimeError, match=r"nkitest\.double"):
            call(x).sum().backward()


def test_vmap_by_a_rule():
    x = torch.randn(3, 4, 8, device="neuron")
    assert_close(torch.vmap(lambda x: scaled(x, 3.0))(x), 3 * x)


@pytest.mark.parametrize("device", DEVICES)
def test_writes(device):
    for call in (bump, compiled(bump)):
        x, y = x_on(device), torch.ones(4, 8, device=device)
        version, storage = y._version, y.data_ptr()
        found = call(x, y)
        assert_close(y, x + 1)
        assert_close(found, x + 1)
        assert (y.data_ptr(), found.data_ptr()) == (storage, storage)
        assert y._version > version
    x, y = x_on(device), torch.ones(4, 8, device=device)
    assert bump(x, y) is y


def test_a_write_into_a_part_of_a_tensor():
    x, base = x_on("neuron"), torch.ones(4, 16, device="neuron")
    bump(x, base[:, 8:])
    assert_close(base[:, 8:], x + 1)
    assert_close(base[:, :8], torch.ones_like(x))
    array = np.ones((4, 8), np.float32)
    bump(x.cpu(), array)
    assert_close(torch.from_numpy(array), x.cpu() + 1)


@pytest.mark.parametrize("dtype", ["float32", "float16", ml_dtypes.bfloat16])
def test_a_call_on_arrays_alone_returns_arrays(dtype):
    array = np.ones((4, 8), dtype)
    found = twice(array)
    assert type(found) is np.ndarray
    assert found.dtype == array.dtype
    assert (found == 2 * array).all()


def test_a_write_after_use_in_a_graph_is_an_error():
    x, w = x_on("neuron"), torch.ones(4, 8, device="neuron", requires_grad=True)
    y = torch.ones(4, 8, device="neuron")
    loss = (w * y).sum()
    bump(x, y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_operators_that_write():
    for function in (bump_op, compiled(lambda x, y: bump_op(x, y))):
        x, y = x_on("neuron"), torch.ones(4, 8, device="neuron")
        version = y._version
        function(x, y)
        assert_close(y, x + 1)
        assert y._version > version


def test_several_results_and_arguments_in_tuples():
    x, y = x_on("neuron"), torch.ones(4, 8, device="neuron")
    for call in (sum_and_square, compiled(lambda pair: sum_and_square(pair))):
        found = call((x, y))
        assert_close(found[0], x + y)
        assert_close(found[1], (x * x).bfloat16())
        assert_close(found[2], x)
    assert sum_and_square((x, y))[2] is x


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float8_e5m2, torch.int32])
def test_dtypes(dtype):
    x = torch.arange(8).reshape(2, 4).to(dtype).to("neuron")
    found = twice(x, 2)
    assert found.dtype == dtype
    assert found.float().tolist() == [[0, 2, 4, 6], [8, 10, 12, 14]]


def test_a_write_that_the_schema_does_not_declare():
    @nki_op("nkitest::hidden")
    def hidden(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return bump(x, y)

    x, y = x_on("neuron"), torch.ones(4, 8, device="neuron")
    message = "kernel bump writes argument y, which mutates_args does not have"
    with pytest.warns(nkisim.NkiFindingWarning, match=message) as noted:
        assert hidden(x, y) is not y
    assert noted[0].filename == __file__


def test_checks(monkeypatch):
    def counted(mode):
        monkeypatch.setenv(CHECK_VARIABLE, mode)
        kernel = wrap_nki(lambda x, y: bump_silently(x, y))
        x, y = x_on("neuron"), torch.ones(4, 8, device="neuron")
        counts = []
        for _ in range(3):
            with warnings.catch_warnings(record=True) as noted:
                warnings.simplefilter("always")
                kernel(x, y)
            found = [warning for warning in noted if "M029" in str(warning.message)]
            assert all(warning.filename == __file__ for warning in found)
            counts.append(len(found))
        return counts

    assert counted("off") == [0, 0, 0]
    assert counted("first") == [1, 0, 0]
    assert counted("always") == [1, 1, 1]
    with pytest.raises(ValueError, match=r"NKISIM_TORCH_CHECK: got 'often', accepted: off, first"):
        counted("often")


def test_errors_name_what_came():
    x = x_on("neuron")
    with pytest.raises(nkisim.NkiValidationError, match=r"argument x.*float64") as raised:
        twice(x.double())
    assert __file__ in str(raised.value)
    with pytest.raises(Exception, match="twice"), pytest.warns(match=r"argument x.*float64"):
        compiled(lambda x: twice(x))(x.double())
    with pytest.raises(RuntimeError, match="kernel bump: expected all tensors on one device"):
        bump(x, x.cpu())
    for grid in ([(2, 2)], (3,), "two", [2, 1], True):
        with pytest.raises(ValueError, match=r"grid: got .* accepted: the number of cores"):
            wrapped[grid]
    with pytest.raises(ValueError, match="annotation"):
        nki_op("nkitest::bare", lambda x: x)


@pytest.mark.parametrize("grid", [2, [2], (2,), [(2,)], [[2]], [], [[]], 1])
def test_forms_of_grids(grid):
    x = x_on("neuron")
    assert_close(wrap_nki(halves)[grid](x), 2 * x)


@pytest.mark.filterwarnings("ignore::nkisim.NkiFindingWarning")
def test_calls_with_arguments_that_may_change_are_forgotten():
    class Config:
        factor = 2.0

    kernel = nkisim.jit(lambda x, config: twice(x, config.factor))
    x, config = x_on("neuron"), Config()
    kernel(x, config)
    known = len(CALLS)
    config.factor = 3.0
    assert_close(kernel(x, config), 3 * x)
    assert len(CALLS) == known


def test_the_compiler_is_loaded_by_programs_that_compile_alone():
    code = (
        "import nkitorch, sys, torch; from nkisim.language import bfloat16;"
        "torch.ones(2).neuron() + 1; print('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.filterwarnings("ignore:.*Profiler clears events")  # of torch 2.11
def test_rows_of_the_profiler_have_the_predicted_time():
    x = x_on("neuron")
    kernel = wrap_nki(bump)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as recorded:
        kernel(x, torch.ones(4, 8, device="neuron"))
    rows = [event.name for event in recorded.events() if event.name.startswith("nki::")]
    profile = nkisim.profile(bump, advice=False)(np.ones((4, 8), "f"), np.ones((4, 8), "f"))
    assert rows == [f"nki::bump [{profile.latency_us:.1f} us on {profile.target}]"]
