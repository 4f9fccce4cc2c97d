"""How an operation chooses its path, and what a kernel path gives back."""

import numpy as np
import pytest
import torch

from trnsci.core.backend.explanation import explain
from trnsci.core.counters import counts
from trnsci.core.errors import BackendError, NkiRefusalWarning
from trnsci.core.numbers.planes import joined, parts
from trnsci.core.testing import launched, random_tensor, refusals_expected, unit_roundoff

KERNEL = "scaled_add_kernel"


def assert_is_scaled_sum(got, x, y, alpha):
    """``got`` is alpha*x + y: one product and one sum in float32, and a rounding into its dtype."""
    x, y = x.double().numpy(), y.double().numpy()
    u = unit_roundoff(torch.float32)
    tolerance = 2 * u * (np.abs(alpha * x) + np.abs(y)) * (1 + 2 * u)
    if got.dtype == torch.bfloat16:  # rounding to nearest once more
        tolerance = tolerance + unit_roundoff(torch.bfloat16) * np.abs(alpha * x + y) * (1 + 2 * u)
    error = np.abs(got.double().numpy() - (alpha * x + y))
    assert (error <= tolerance).all()


def test_the_torch_path_is_the_reference(operation):
    x, y = random_tensor(3, 4), random_tensor(3, 4, seed=1)
    assert torch.equal(operation(x, y, 2.0), 2.0 * x + y)
    assert not counts().launches


@pytest.mark.parametrize("shape", [(1, 1), (127, 5), (128, 512), (129, 513)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_simulator_path_launches_the_kernel_once(library, operation, shape, dtype):
    x, y = random_tensor(*shape, dtype=dtype), random_tensor(*shape, dtype=dtype, seed=1)
    with library.backend("simulator"), launched(KERNEL):
        got = operation(x, y, -1.5)
    assert got.dtype == dtype
    assert got.device == x.device
    assert_is_scaled_sum(got, x, y, -1.5)
    assert counts().launches == {KERNEL: 1}


def test_an_absent_tensor_reaches_the_kernel_as_none(library, operation):
    x = random_tensor(4, 4)
    with library.backend("simulator"), launched(KERNEL):
        assert torch.equal(operation(x, None, 2.0), 2.0 * x)


@pytest.mark.parametrize(
    "layout",
    [
        lambda t: t.mT,
        lambda t: t[::2, 1::2],
        lambda t: t[:1].expand(4, 6),
        lambda t: t.clone().requires_grad_(),
    ],
    ids=["transposed", "strided", "expanded", "requires_grad"],
)
def test_operands_of_any_layout_are_taken(library, operation, layout):
    x, y = layout(random_tensor(4, 6)), layout(random_tensor(4, 6, seed=1))
    with library.backend("simulator"), launched(KERNEL):
        got = operation(x, y, 2.0)
    assert got.is_contiguous()
    assert_is_scaled_sum(got.detach(), x.detach(), y.detach(), 2.0)


def test_a_kernel_that_writes_to_its_argument_does_not_reach_the_callers_tensor(
    library, make_operation
):
    operation = make_operation("overwriting")
    x = random_tensor(4, 4)
    before = x.clone()
    with library.backend("simulator"), launched("overwriting_kernel"):
        got = operation(x, x, 1.0)
    assert torch.equal(got, torch.full((4, 4), 7.0))
    assert torch.equal(x, before)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64, torch.int32, torch.bool])
def test_other_dtypes_run_on_torch_with_a_warning(library, operation, dtype):
    x = torch.ones(2, 2, dtype=dtype)
    with library.backend("simulator"):
        with pytest.warns(NkiRefusalWarning, match=str(dtype)):
            got = operation(x, x, 1)
        path, reason, _ = operation.decide(library.choice(), (x, x, 1))
    assert torch.equal(got, 1 * x + x)
    assert not counts().launches
    assert not counts().fallbacks
    assert (path, reason) == ("pytorch", f"the kernel does not take {dtype}")


def test_empty_operands_run_on_torch(library, operation):
    x = torch.empty(0, 4)
    with library.backend("simulator"):
        assert operation(x, x, 1.0).shape == (0, 4)
        assert operation.decide(library.choice(), (x, x, 1.0))[:2] == (
            "pytorch",
            "an operand is empty",
        )
    assert not counts().launches


@refusals_expected()
def test_operands_that_the_kernel_does_not_take_run_on_torch(library, make_operation):
    operation = make_operation(
        unsuited=lambda x, y, alpha: "" if x.ndim == 2 else f"{x.ndim}-D operands"
    )
    x = random_tensor(2, 3, 4)
    with library.backend("simulator"):
        assert torch.equal(operation(x, x, 1.0), x + x)
        assert operation.decide(library.choice(), (x, x, 1.0)) == (
            "pytorch",
            "3-D operands",
            "3-D operands",
        )
        with launched(KERNEL):
            operation(x[0], x[0], 1.0)


class TestTheSizeThatIsWorthALaunch:
    @pytest.fixture
    def operation(self, make_operation):
        return make_operation(flops=lambda x, y, alpha: 2 * x.numel(), min_flops=100)

    def test_small_calls_run_on_torch_in_auto(self, library, operation, fake_neuron):
        fake_neuron()
        x = torch.ones(7, 7)
        assert operation.decide(library.choice(), (x, x, 1.0))[:2] == (
            "pytorch",
            "a launch is worth at least 100 flops",
        )

    def test_large_calls_run_on_the_device_in_auto(self, library, operation, fake_neuron):
        fake_neuron()
        for shape in ((5, 10), (8, 8)):  # of exactly 100 flops, and of more
            x = torch.ones(shape)
            assert operation.decide(library.choice(), (x, x, 1.0))[0] == "nki"

    def test_a_launch_is_worth_two_gigaflops_unless_it_is_said(self, make_operation):
        assert make_operation().min_flops == 2e9

    def test_size_does_not_matter_where_kernels_were_asked_for(self, library, operation):
        x = torch.ones(2, 2)
        with library.backend("simulator"), launched(KERNEL):
            operation(x, x, 1.0)


def test_the_reason_names_the_variable(make_library, make_operation):
    library = make_library(USE_SIMULATOR="1")
    operation = make_operation(owner=library)
    x = torch.ones(2, 2)
    assert (
        operation.decide(library.choice(), (x, x, 1.0))[1]
        == f"{library.use_simulator.name} or its umbrella is on"
    )


def test_the_reason_names_what_decided(library, operation, fake_neuron):
    x = torch.ones(2, 2)

    def reason():
        return operation.decide(library.choice(), (x, x, 1.0))[1]

    assert reason() == "backend 'auto' finds no NeuronCore with AWS's NKI"
    with library.backend("pytorch"):
        assert reason() == "backend 'pytorch' is set"
    with library.backend("simulator"):
        assert reason() == "backend 'simulator' is set"
    fake_neuron()
    assert reason() == "backend 'auto' finds a NeuronCore with AWS's NKI"


@refusals_expected()
@pytest.mark.parametrize("backend", ["auto", "pytorch", "simulator"])
@pytest.mark.parametrize("level", ["", "1"])
@pytest.mark.parametrize(
    "x", [torch.ones(2, 2), torch.ones(2, 2, dtype=torch.float64), torch.empty(0, 2)]
)
def test_a_call_does_what_was_decided_and_explained(library, operation, backend, level, x):
    with library.backend(backend), library.requiring(level if backend == "simulator" else ""):
        decision = operation.decide(library.choice(), (x, x, 1.0))
        (step,) = explain(operation, x, x, 1.0).steps
        assert (step.path, step.reason) == decision[:2]
        if decision.refusal and level:
            with pytest.raises(BackendError, match=decision.refusal):
                operation(x, x, 1.0)
        else:
            operation(x, x, 1.0)
    found = counts()
    assert found.launches == ({KERNEL: 1} if decision.path == "simulator" else {})
    warned = decision.refusal and not level
    assert list(found.refusals) == [(operation.qualified_name, decision.refusal)] * bool(warned)


def test_a_change_of_the_backend_during_a_call_does_not_change_its_path(library, make_operation):
    def unsuited(x, y, alpha):
        library.set_backend("pytorch")  # as another thread may
        return ""

    operation = make_operation(unsuited=unsuited)
    library.set_backend("simulator")
    with launched(KERNEL):
        operation(torch.ones(2, 2), None, 2.0)


def test_the_custom_operator_appears_at_the_first_kernel_call(library, operation):
    def operator():
        return getattr(getattr(torch.ops, library.name), "scaled_add", None)

    x = torch.ones(2, 2)
    operation(x, x, 1.0)
    assert operator() is None
    with library.backend("simulator"):
        operation(x, x, 1.0)
    assert str(operator().default._schema) == (
        f"{library.name}::scaled_add(Tensor x, Tensor? y, float alpha) -> Tensor"
    )


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # of opcheck's operands
def test_the_custom_operator_keeps_the_rules_of_torch(library, operation):
    x, y = random_tensor(3, 4).requires_grad_(), random_tensor(3, 4, seed=1).requires_grad_()
    with library.backend("simulator"):
        operation.register()
        operator = getattr(torch.ops, library.name).scaled_add.default
        torch.library.opcheck(operator, (x, y, 2.0))
        torch.library.opcheck(operator, (x.detach().mT, None, 2.0))


# -- complex operands by their parts ---------------------------------------------------------------


def scaled_square_sum(x, y, alpha):
    return alpha * x * x + y


def by_parts(real, x, y, alpha):
    """The square of x on the host, and the launch for its parts."""
    return joined(real(parts(x * x), parts(y), alpha))


def real_rule(grad, needed, x, y, alpha):
    """Written for real operands."""
    return 2 * alpha * x * grad, grad, None


@pytest.fixture
def square_sum(make_operation):
    return make_operation(
        reference=scaled_square_sum,
        schema="(Tensor x, Tensor y, float alpha) -> Tensor",
        by_parts=by_parts,
        backward=real_rule,
        flops=lambda x, y, alpha: float(x.numel()),
    )


def test_complex_operands_are_one_launch_of_their_parts(library, square_sum):
    x, y = (random_tensor(130, 3, dtype=torch.complex64, seed=seed) for seed in (0, 1))
    with library.backend("simulator"), launched(KERNEL):
        got = square_sum(x.conj(), y.mT.contiguous().mT, 0.5)
    want = 0.5 * x.conj() * x.conj() + y
    assert got.dtype is torch.complex64
    # A complex product has an error of sqrt(8) roundings; a factor and a sum have one each.
    assert float((got - want).abs().max()) <= 6 * 2.0**-24 * float(want.abs().max() + 1)
    assert counts().launches == {KERNEL: 1}


def test_gradients_of_complex_operands_are_conjugated(library, square_sum):
    x, y = (random_tensor(3, 4, dtype=torch.complex64, seed=seed) for seed in (0, 1))
    found = []
    for backend in ("simulator", "pytorch"):
        leaves = [z.clone().requires_grad_() for z in (x, y)]
        with library.backend(backend):
            total = torch.view_as_real(square_sum(*leaves, 0.5)).square().sum()
            found.append(torch.autograd.grad(total, leaves))
    for got, want in zip(*found, strict=True):
        assert not got.is_conj()
        assert float((got - want).abs().max()) <= 64 * 2.0**-24 * float(want.abs().max())


def test_a_rule_of_an_operation_that_is_not_holomorphic_is_its_own(library, make_operation):
    operation = make_operation(
        reference=lambda x, y, alpha: alpha * x.conj() + y,
        schema="(Tensor x, Tensor y, float alpha) -> Tensor",
        by_parts=lambda real, x, y, alpha: joined(real(parts(x.conj()), parts(y), alpha)),
        holomorphic=False,
        backward=lambda grad, needed, x, y, alpha: (alpha * grad.conj(), grad, None),
    )
    x, y = (random_tensor(3, 4, dtype=torch.complex64, seed=seed) for seed in (0, 1))
    leaf = x.clone().requires_grad_()
    with library.backend("simulator"):
        operation(leaf, y, 0.5).abs().square().sum().backward()
    want = (0.5 * x.conj() + y).conj()  # half of twice the result, conjugated
    assert float((leaf.grad - want).abs().max()) <= 8 * 2.0**-24 * float(want.abs().max())


@refusals_expected()
def test_other_complex_dtypes_are_refused(library, operation, square_sum):
    z = random_tensor(2, 2, dtype=torch.complex128)
    with library.backend("simulator"):
        square_sum(z, z, 0.5)
    assert list(counts().refusals) == [
        (square_sum.qualified_name, "the kernel does not take torch.complex128")
    ]
    assert "complex64" in operation.refusal(z.to(torch.complex64), None, 1.0)
