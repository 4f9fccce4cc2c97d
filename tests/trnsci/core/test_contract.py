"""The contract of operations refuses what does not keep it: one small lie for each promise."""

from __future__ import annotations

import warnings

import pytest
import torch

from trnsci.core.backend.fallback import forget_causes
from trnsci.core.counters import count_fallback, count_launch, count_refusal, counts
from trnsci.core.errors import NkiRefusalWarning
from trnsci.core.testing import contract, random_tensor
from trnsci.core.testing.contract import DerivativeContract, Sample

# What torch does when forward mode is first used.

X, Y = random_tensor(2, 3), random_tensor(2, 3, seed=1)
U = 2.0**-24


@pytest.fixture
def promise(library):
    """The contract of a library that has one operation, which is honest."""

    class Contract(DerivativeContract):
        pass

    Contract.library, Contract.samples = library, ()
    return Contract()


@pytest.fixture
def sample(operation):
    def call(x, y):
        return operation(x, y, 2.0)

    return Sample("scaled_add", call, (X, Y), backward_launches=False)


def lying(sample, library, lie):
    """A sample that tells the truth on torch, and a function of it elsewhere."""

    def call(*tensors):
        result = sample.call(*tensors)
        return result if library.path() == "pytorch" else lie(result, *tensors)

    return Sample(sample.operation, call, sample.tensors, backward_launches=False)


TESTS = [
    name
    for name in dir(DerivativeContract)
    if name.startswith("test_")
    and name
    not in {
        "test_every_operation_has_a_sample",
        "test_result_dtypes_are_those_of_torch",
        "test_autocast_decides_the_dtype_whatever_is_differentiated",
        "test_float64_is_refused_counted_and_raises_where_required",
        "test_a_refusal_is_warned_about_once_at_the_call",
        "test_fake_tensors_have_shape_and_dtype_and_run_nothing",
        "test_exported",
        "test_compiled_as_one_graph",
    }
]


def checked(promise, name, sample, backend="simulator"):
    getattr(promise, name)(sample, backend)


@pytest.mark.parametrize("name", TESTS)
def test_a_result_that_is_off_is_refused_by_every_test(promise, library, sample, name):
    checked(promise, name, sample)
    off = lying(sample, library, lambda result, *_: result * (1 + 2e-5))
    with pytest.raises(AssertionError, match="off by"):
        checked(promise, name, off)


@pytest.mark.parametrize("name", TESTS)
def test_a_call_that_stays_on_torch_is_refused(promise, sample, name):
    on_torch = Sample("scaled_add", lambda x, y: 2.0 * x + y, (X, Y))
    checked(promise, name, on_torch, "pytorch")
    if name == "test_backward_in_another_thread_and_after_the_block":
        return
    with pytest.raises(AssertionError):
        checked(promise, name, on_torch, "simulator")


def test_backward_launches_where_the_sample_says_so(promise, sample):
    name = "test_backward_in_another_thread_and_after_the_block"
    wrong = Sample(sample.operation, sample.call, sample.tensors, backward_launches=True)
    checked(promise, name, wrong, "pytorch")
    with pytest.raises(AssertionError):
        checked(promise, name, wrong)


def test_an_operation_without_a_sample_is_named(promise, operation, sample):
    with pytest.raises(AssertionError, match=r"without a sample: \['scaled_add'\]"):
        promise.test_every_operation_has_a_sample()
    promise.samples = (sample,)
    promise.test_every_operation_has_a_sample()


def test_an_argument_that_is_written_to_is_refused(promise, library, sample):
    def overwrite(result, x, y):
        y.add_(0)  # the same values
        return result

    writing = lying(sample, library, overwrite)
    with pytest.raises(AssertionError, match="an argument was written to"):
        promise.test_the_result_is_that_of_torch_in_float64(writing, "simulator")


def test_another_dtype_than_torch_gives_is_refused(promise, library, sample):
    wide = lying(sample, library, lambda result, *_: result.double())
    promise.test_result_dtypes_are_those_of_torch(sample)
    with pytest.raises(AssertionError):
        promise.test_result_dtypes_are_those_of_torch(wide)


def test_an_exception_must_be_the_one_of_torch(promise, library, sample):
    def refuse(result, *_):
        raise KeyError

    refusing = lying(sample, library, refuse)
    assert promise.dtypes(refusing, [X, Y], "simulator") == ("KeyError",)
    assert promise.dtypes(refusing, [X, Y], "pytorch") == ("torch.float32",)


@pytest.mark.parametrize("lower", [True, False])
def test_a_dtype_that_depends_on_gradients_is_refused(promise, library, sample, lower):
    name = "test_autocast_decides_the_dtype_whatever_is_differentiated"
    getattr(promise, name)(sample, lower)

    def lie(result, x, y):
        return result if x.requires_grad else result.double()

    with pytest.raises(AssertionError, match="result dtypes differ"):
        getattr(promise, name)(lying(sample, library, lie), lower)


def test_autocast_is_on_while_it_is_asked_about(promise, sample):
    seen = set()

    def call(x, y):
        seen.add(torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu"))
        return x

    watching = Sample("scaled_add", call, (X, Y))
    for lower, wanted in ((True, torch.bfloat16), (False, False)):
        seen.clear()
        promise.test_autocast_decides_the_dtype_whatever_is_differentiated(watching, lower)
        assert seen == {wanted}


def test_fake_tensors_that_launch_or_lie_are_refused(promise, library, sample):
    name = "test_fake_tensors_have_shape_and_dtype_and_run_nothing"
    getattr(promise, name)(sample, "simulator")

    def launch(result, *_):
        count_launch("another")
        return result

    def reshape(result, x, y):
        return result if type(x) is torch.Tensor else result[:1]

    for lie in (launch, reshape):
        with pytest.raises(AssertionError):
            getattr(promise, name)(lying(sample, library, lie), "simulator")


def test_what_is_computed_untold_in_float64_is_refused(promise, operation):
    name = "test_float64_is_refused_counted_and_raises_where_required"
    honest = Sample("scaled_add", lambda x, y: operation(x, y, 2.0), (X, Y))
    untold = Sample("scaled_add", lambda x, y: 2.0 * x + y, (X, Y))
    getattr(promise, name)(honest)
    with pytest.raises(AssertionError, match="no refusal was counted"):
        getattr(promise, name)(untold)

    def counted(x, y):
        count_refusal("scaled_add", "said, and computed all the same")
        return x

    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        getattr(promise, name)(Sample("scaled_add", counted, (X, Y)))


def test_a_refusal_without_its_warning_is_refused(promise, operation):
    name = "test_a_refusal_is_warned_about_once_at_the_call"

    def warned_again(x, y):
        forget_causes()
        return operation(x, y, 2.0)

    getattr(promise, name)(Sample("scaled_add", lambda x, y: operation(x, y, 2.0), (X, Y)))
    for call, said in (
        (lambda x, y: 2.0 * x + y, "no warning names"),
        (warned_again, "warned again"),
        (lambda x, y: warnings.warn("quiet", NkiRefusalWarning, stacklevel=1), "a refusal with"),
    ):
        with pytest.raises(AssertionError, match=said):
            getattr(promise, name)(Sample("scaled_add", call, (X, Y)))


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (lambda: count_fallback("toy.a"), "fell back to torch: {'toy.a': 1}"),
        (lambda: count_refusal("toy.a", "why"), "refused"),
    ],
)
def test_a_block_on_a_backend_refuses_what_torch_computed(promise, event, said):
    with pytest.raises(AssertionError, match=said), promise.running("simulator"):
        event()


def test_a_block_on_a_backend_runs_kernels_there_alone(promise, library):
    with promise.running("simulator"):
        assert library.path() == "simulator"
        count_launch("kernel")
    with promise.running("pytorch"):
        pass
    assert library.path() == "pytorch"
    with pytest.raises(AssertionError, match="kernel"), promise.running("pytorch"):
        count_launch("kernel")
    with pytest.raises(AssertionError), promise.running("simulator"):
        pass
    with pytest.raises(KeyError), promise.running("simulator"):  # its own, and nothing else
        raise KeyError
    assert counts().launches == {"kernel": 2}


def test_results_may_be_off_by_the_growth_of_their_largest_element(promise):
    sample = Sample("any", torch.clone, (X,))
    assert sample.growth == 64.0
    want = torch.tensor([1.0, -4.0], dtype=torch.float64)
    bound = 64 * U * 4
    promise.assert_close(sample, want + torch.tensor([bound, 0.0]), want)
    with pytest.raises(AssertionError, match=rf"off by {2 * bound:.3g} of {bound:.3g} allowed"):
        promise.assert_close(sample, want + torch.tensor([-2 * bound, 0.0]), want)
    with pytest.raises(AssertionError, match=r"shape torch.Size\(\[1, 2\]\), not torch.Size"):
        promise.assert_close(sample, want[None], want)
    with pytest.raises(ValueError, match="zip"):
        promise.assert_close(sample, (want, want), want)
    promise.assert_close(sample, torch.empty(0), torch.empty(0))


def test_operands_directions_and_problems_of_a_sample():
    sample = Sample("any", torch.add, (X, X))
    assert str(sample) == "any"
    assert sample.backward_launches
    first, second = sample.tangents
    assert torch.equal(first, random_tensor(2, 3, seed=7))
    assert torch.equal(second, random_tensor(2, 3, seed=8))
    assert [tensor.dtype for tensor in sample.wide] == [torch.float64] * 2
    problems = sample.batch[0]
    assert problems.shape == (2, 2, 3)
    assert torch.equal(problems[0], X)
    assert torch.equal(problems[1], 1.25 * X)  # of the same condition


def test_a_result_is_one_real_vector_and_an_energy():
    sample = Sample("any", lambda x: (x, x.mT * 1j, torch.complex(x, -x).conj()), (X,))
    imaginary = torch.view_as_real(X.mT * 1j).flatten()
    mixed = torch.stack([X, X], -1).flatten()
    wanted = torch.cat([X.flatten(), imaginary, mixed])
    assert torch.equal(sample.vector(X), wanted)
    assert sample.energy(X) == (wanted * wanted).sum()


def test_a_thread_that_raises_is_not_taken_for_a_result(recwarn):
    with pytest.raises(AssertionError, match="the thread raised"):
        contract._in_thread(lambda: 1 / 0)
    recwarn.clear()
    assert contract._in_thread(lambda: 3) == 3
