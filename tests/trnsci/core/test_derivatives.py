"""Derivatives of every kind, on a kernel path: those of the definition, and through kernels."""

from __future__ import annotations

import contextvars
import threading

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

from trnsci.core.backend.operation import Operation
from trnsci.core.counters import counts
from trnsci.core.testing import BACKENDS, launched, random_tensor, refusals_expected

from .conftest import KERNELS

# What torch does when forward mode is first used.

KERNEL = "scaled_add_kernel"
X, Y = random_tensor(3, 4), random_tensor(3, 4, seed=1)
T = random_tensor(3, 4, seed=2)


def squares(x: Tensor, y: Tensor | None, alpha: float) -> Tensor:
    """A reference whose second derivatives are not zero; what the kernel computes is another."""
    return alpha * x * x if y is None else alpha * x * x * y


@pytest.fixture(params=BACKENDS)
def operation(request, library, make_operation):
    """``squares`` on a backend; derivatives are the reference's on both."""
    made = make_operation(reference=squares)
    with library.backend(request.param):
        yield lambda x, y=Y: made(x, y, 2.0)


def total(function):
    return lambda *args: function(*args).sum()


def close(got, want):
    # A handful of products, each rounded once.
    return torch.allclose(got, want, rtol=16 * torch.finfo(torch.float32).eps, atol=1e-6)


# d(2 x² y): 4 x y t forward; 4 y on the diagonal of second derivatives.
class TestDerivativesAreThoseOfTheDefinition:
    def test_jvp(self, operation):
        assert close(jvp(operation, (X,), (T,))[1], 4 * X * Y * T)
        _, both = jvp(operation, (X, Y), (T, T))
        assert close(both, 4 * X * Y * T + 2 * X * X * T)

    def test_forward_mode(self, operation):
        with forward_ad.dual_level():
            result = operation(forward_ad.make_dual(X, T))
            assert close(forward_ad.unpack_dual(result).tangent, 4 * X * Y * T)

    def test_grad_and_vjp(self, operation):
        assert close(grad(total(operation))(X), 4 * X * Y)
        assert close(vjp(operation, X)[1](T)[0], 4 * X * Y * T)

    @pytest.mark.parametrize("jacobian", [jacfwd, jacrev])
    def test_jacobians(self, operation, jacobian):
        found = jacobian(operation)(X).reshape(12, 12)
        assert close(found, torch.diag((4 * X * Y).reshape(-1)))

    def test_hessian(self, operation):
        found = hessian(total(operation))(X).reshape(12, 12)
        assert close(found, torch.diag((4 * Y).reshape(-1)))

    @pytest.mark.parametrize("outer", [0, 1])
    @pytest.mark.parametrize("inner", [0, 1])
    def test_one_of_another(self, operation, outer, inner):
        def along(function):
            return lambda x: jvp(function, (x,), (torch.ones_like(x),))[1]

        kinds = (lambda f: grad(total(f)), along)
        assert close(kinds[outer](kinds[inner](operation))(X), 4 * Y)

    def test_forward_over_forward_over_backward(self, operation):
        def along(function):
            return lambda x: jvp(function, (x,), (x,))[1]

        assert close(along(along(grad(total(operation))))(X), 4 * X * Y)

    def test_vmap_of_grad_and_grad_of_vmap(self, operation):
        many = torch.stack([X, X + 1])
        assert close(vmap(grad(total(operation)))(many), 4 * many * Y)
        assert close(grad(total(vmap(operation)))(many), 4 * many * Y)

    def test_vmap_of_jvp_and_jvp_of_vmap(self, operation):
        many = torch.stack([X, X + 1])
        assert close(vmap(lambda x: jvp(operation, (x,), (T,))[1])(many), 4 * many * Y * T)
        assert close(jvp(vmap(operation), (many,), (many,))[1], 4 * many * many * Y)

    def test_double_backward(self, operation):
        x = X.clone().requires_grad_()
        (first,) = torch.autograd.grad(operation(x).sum(), x, create_graph=True)
        assert close(torch.autograd.grad(first.sum(), x)[0], 4 * Y)


def test_grad_of_a_compiled_call_runs_the_kernel(library, make_operation):
    made = make_operation(reference=squares)
    torch._dynamo.reset()
    compiled = torch.compile(
        grad(lambda x: made(x, Y, 2.0).sum()), backend="aot_eager", fullgraph=True
    )
    with library.backend("simulator"):
        assert close(compiled(X), 4 * X * Y)


def test_rules_of_its_own_are_used_in_place_of_the_references(library, make_operation):
    def rule(tangents, x, y, alpha):
        return 100 * tangents[0]

    def batched(info, in_dims, x, y, alpha):
        assert (info.batch_size, in_dims) == (2, (0, None, None))
        return -x, 0

    made = make_operation(jvp=rule, batched=batched)
    with library.backend("simulator"):
        assert torch.equal(jvp(lambda x: made(x, Y, 2.0), (X,), (T,))[1], 100 * T)
        with forward_ad.dual_level():
            result = made(forward_ad.make_dual(X, T), Y, 2.0)
            assert torch.equal(forward_ad.unpack_dual(result).tangent, 100 * T)
        many = torch.stack([X, X + 1])
        assert torch.equal(vmap(lambda x: made(x, Y, 2.0))(many), -many)


class TestSeveralResults:
    @pytest.fixture
    def operation(self, library):
        def reference(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return 2 * x, x * x, x.argmax(-1)

        return Operation(
            library, "several", reference=reference, launch=f"{KERNELS}:several_results"
        )

    @pytest.fixture(params=BACKENDS)
    def backend(self, request, library):
        with library.backend(request.param):
            yield request.param

    def test_they_are_a_tuple(self, operation, backend):
        doubled, squared, places = operation(X)
        assert torch.equal(doubled, 2 * X)
        assert torch.equal(squared, X * X)
        assert torch.equal(places, X.argmax(-1))
        assert counts().launches["copy_kernel"] == (backend == "simulator")

    def test_gradients_of_some_of_them(self, operation, backend):
        x = X.clone().requires_grad_()
        doubled, squared, places = operation(x)
        assert not places.requires_grad
        assert torch.equal(torch.autograd.grad(squared.sum(), x, retain_graph=True)[0], 2 * x)
        got = torch.autograd.grad((doubled + squared).sum(), x)[0]
        assert torch.equal(got, 2 + 2 * x)

    def test_transforms(self, operation, backend):
        assert torch.equal(grad(lambda x: operation(x)[1].sum())(X), 2 * X)
        tangents = jvp(lambda x: operation(x)[:2], (X,), (T,))[1]
        assert torch.equal(tangents[0], 2 * T)
        assert torch.equal(tangents[1], 2 * X * T)
        for many in (torch.stack([X, X + 1]), X[None]):
            assert torch.equal(vmap(operation)(many)[2], many.argmax(-1))

    def test_compiled_and_fake(self, operation, backend):
        torch._dynamo.reset()
        compiled = torch.compile(lambda x: operation(x)[1] + 1, backend="eager", fullgraph=True)
        assert torch.equal(compiled(X), X * X + 1)
        with torch._subclasses.FakeTensorMode() as mode:
            shapes = [tuple(part.shape) for part in operation(mode.from_tensor(X))]
        assert shapes == [(3, 4), (3, 4), (3,)]


class TestBackwardRunsWhereForwardRan:
    @pytest.fixture
    def operation(self, make_operation):
        def backward(grad, needed, x, y, alpha):
            return made(grad, None, alpha), None, None

        made = make_operation(backward=backward)
        return made

    def test_after_the_block(self, library, operation):
        x = X.clone().requires_grad_()
        with library.backend("simulator"):
            result = operation(x, None, 2.0)
        with launched(KERNEL):
            result.sum().backward()
        assert torch.equal(x.grad, torch.full_like(x, 2.0))

    def test_after_the_process_chose_another(self, library, operation):
        x = X.clone().requires_grad_()
        result = operation(x, None, 2.0)
        library.set_backend("simulator")
        result.sum().backward()
        assert not counts().launches
        result = operation(x, None, 2.0)
        library.set_backend("pytorch")
        with launched(KERNEL):
            result.sum().backward()

    @pytest.mark.parametrize("copied", [True, False])
    def test_in_another_thread(self, library, operation, copied):
        x = X.clone().requires_grad_()

        def there():
            result = operation(x, None, 2.0)
            result.sum().backward()

        with library.backend("simulator"):
            result = operation(x, None, 2.0)
            context = contextvars.copy_context()
        before = counts()
        target = (lambda: context.run(there)) if copied else (lambda: result.sum().backward())
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()
        assert (counts() - before).launches[KERNEL] == (2 if copied else 1)
        assert torch.equal(x.grad, torch.full_like(x, 2.0))


class TestAutocast:
    @pytest.mark.parametrize(
        ("rule", "given", "wanted"),
        [
            ("lower", torch.float32, torch.bfloat16),
            ("lower", torch.float16, torch.bfloat16),
            ("lower", torch.bfloat16, torch.bfloat16),
            ("lower", torch.float64, torch.float64),
            ("float32", torch.float16, torch.float32),
            ("float32", torch.bfloat16, torch.float32),
            ("float32", torch.float32, torch.float32),
            ("keep", torch.float32, torch.float32),
            ("keep", torch.bfloat16, torch.bfloat16),
        ],
    )
    @pytest.mark.parametrize("differentiated", [True, False])
    @refusals_expected()
    def test_the_rule_decides_whatever_is_differentiated(
        self, library, make_operation, rule, given, wanted, differentiated
    ):
        operation = make_operation(autocast=rule)
        x = X.to(given, copy=True).requires_grad_(differentiated)
        with library.backend("simulator"), torch.autocast("cpu", torch.bfloat16):
            result = operation(x, None, 2.0)
            assert result.dtype is wanted
            if differentiated:
                result.sum().backward()
                assert x.grad.dtype is given
        assert counts().launches[KERNEL] == (given is not torch.float64)

    def test_a_fallback_is_not_cast_again(self, library, make_operation):
        def product(x: Tensor, y: Tensor | None, alpha: float) -> Tensor:
            return alpha * (x @ x.mT)

        operation = make_operation("failing", reference=product, autocast="keep")
        with (
            library.backend("simulator"),
            torch.autocast("cpu", torch.bfloat16),
            pytest.warns(UserWarning, match="torch computed"),
        ):
            result = operation(X, None, 2.0)
        assert result.dtype is torch.float32


class TestRefusals:
    @refusals_expected()
    def test_they_are_counted_with_their_reason(self, library, operation, make_operation):
        double = X.double()
        with library.backend("simulator"):
            operation(double, None, 1.0)
            operation(double, None, 1.0)
            operation(torch.empty(0, 4), None, 1.0)
        operation(double, None, 1.0)
        reason = "the kernel does not take torch.float64"
        assert counts().refusals == {(operation.qualified_name, reason): 2}
        assert not counts().fallbacks

    @pytest.fixture
    def operation(self, make_operation):
        return make_operation()

    def test_they_raise_where_kernels_are_required(self, library, operation):
        for backend in ("auto", "simulator"):
            with library.requiring("1"), library.backend(backend):
                with pytest.raises(RuntimeError, match=r"not take torch.float64, and .*_REQUIRE_"):
                    operation(X.double(), None, 1.0)
                assert operation(torch.empty(0, 4), None, 1.0).shape == (0, 4)
        with library.backend("pytorch"):
            operation(X.double(), None, 1.0)

    @refusals_expected()
    def test_a_caller_refuses_before_there_are_arguments(self, library, operation, monkeypatch):
        from trnsci.core import explain

        with library.backend("simulator"):
            operation.refuse("alpha is a tensor")
            said = str(explain(lambda: operation.refuse("alpha is a tensor")))
        assert "pytorch: alpha is a tensor" in said
        assert counts().refusals == {(operation.qualified_name, "alpha is a tensor"): 1}
        with library.backend("pytorch"):
            said = str(explain(lambda: operation.refuse("alpha is a tensor")))
        assert "backend 'pytorch' is set" in said

    @refusals_expected()
    def test_a_compiled_call_counts_its_refusal(self, library, operation):
        torch._dynamo.reset()
        compiled = torch.compile(operation, backend="eager", fullgraph=True)
        with library.backend("simulator"):
            compiled(X.double(), None, 1.0)
        assert sum(counts().refusals.values()) >= 1


def test_inference_mode(library, make_operation):
    operation = make_operation()
    with torch.inference_mode(), library.backend("simulator"), launched(KERNEL):
        assert operation(X, None, 2.0).is_inference()


def test_export_keeps_the_operator_and_runs_the_kernel(library, make_operation):
    operation = make_operation()

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.y = torch.nn.Buffer(Y)

        def forward(self, x):
            return operation(x, self.y, 2.0) + 1

    with library.backend("simulator"):
        for strict in (True, False):
            program = torch.export.export(Model(), (X,), strict=strict)
            names = [str(node.target) for node in program.graph.nodes]
            assert f"{library.name}.scaled_add.default" in names
            with launched(KERNEL):
                got = program.module()(X)
            assert torch.equal(got, operation(X, Y, 2.0) + 1)
