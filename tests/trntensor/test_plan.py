"""Plans: their decisions, paths, memory, cache and what they print."""

from __future__ import annotations

import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor

import opt_einsum
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

import trntensor
from drawn import examples
from each_case import each_case
from trnsci.core.errors import ShapeError
from trnsci.core.testing import random_tensor
from trntensor import estimate_flops, plan_contraction

from .networks import network

# -- what a plan says ------------------------------------------------------------------------------


@each_case(
    ("subscripts", "shapes", "strategy", "turned", "batch", "depth"),
    [
        ("ij,jk->ik", ((4, 3), (3, 5)), "matmul", (False, False), "", "j"),
        ("ji,jk->ik", ((3, 4), (3, 5)), "matmul", (True, False), "", "j"),
        ("ij,kj->ik", ((4, 3), (5, 3)), "matmul", (False, True), "", "j"),
        ("ji,kj->ki", ((3, 4), (5, 3)), "matmul", (True, True), "", "j"),
        ("bij,bkj->bik", ((2, 4, 3), (2, 5, 3)), "bmm", (False, True), "b", "j"),
        ("i,j->ij", ((3,), (4,)), "torch", (False, False), "", ""),
        ("ii->i", ((3, 3),), "torch", (False, False), "", ""),
        ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 5)), "path", (False, False), "", "jk"),
    ],
)
def test_strategies(subscripts, shapes, strategy, turned, batch, depth):
    plan = plan_contraction(subscripts, *(torch.ones(shape) for shape in shapes))
    assert plan.strategy == strategy
    assert (plan.transA, plan.transB) == turned
    assert plan.batch_indices == tuple(batch)
    assert plan.contraction_indices == tuple(depth)
    assert len(plan.contraction_path) == len(shapes) - 1
    assert plan.dispatch == plan.backend == "pytorch"
    assert plan.flops == plan.estimated_flops > 0


def test_a_plan_prints_steps_work_memory_and_backend():
    plan = plan_contraction("ij,jk,kl->il", *(torch.ones(s) for s in ((4, 3), (3, 5), (5, 6))))
    text = str(plan)
    for word in ("step 1", "step 2", "162 multiply-adds", "168 bytes", "all orders compared"):
        assert word in text
    assert "backend     pytorch: backend 'auto' finds no NeuronCore" in text
    with trntensor.backend("simulator"):
        assert "simulator: chain for 2 steps" in str(plan)
        assert plan.backend == "simulator"
        double = plan_contraction("ij,jk->ik", *[torch.ones(2, 2).double()] * 2)
        assert double.backend == "pytorch"
    assert plan.cost.launches == 1
    assert plan.cost.flops == 2 * 162
    assert plan.cost.hbm_bytes == 4 * (4 * 3 + 3 * 5 + 5 * 6 + 4 * 6)  # and nothing in between


def test_a_chain_is_contracted_in_the_better_order():
    a, b, c = torch.ones(100, 200), torch.ones(200, 5), torch.ones(5, 50)
    plan = plan_contraction("ij,jk,kl->il", a, b, c)
    assert plan.estimated_flops == 100 * 200 * 5 + 100 * 5 * 50
    assert estimate_flops("ij,jk,kl->il", a, b, c) == 100 * 200 * 5 * 50


def test_a_plan_executes_what_it_was_made_for():
    a, b = random_tensor(4, 3), random_tensor(3, 5)
    plan = plan_contraction("ij,jk->ki", a, b)
    assert torch.equal(plan.execute(a, b), (a @ b).T)
    with pytest.raises(ValueError, match=r"must have shapes \(\(4, 3\), \(3, 5\)\), got"):
        plan.execute(b, a)
    with pytest.raises(TypeError, match=r"operand 1 must be torch.float32, got torch.float64"):
        plan.execute(a, b.double())


def test_a_plan_can_be_stored():
    tensors = [random_tensor(*shape) for shape in ((4, 3), (3, 5), (5, 6))]
    plan = plan_contraction("ij,jk,kl->il", *tensors, memory_limit=10**6, minimize="time")
    plan.execute(*tensors)
    again = pickle.loads(pickle.dumps(plan))
    assert again == plan
    assert again is not plan
    assert torch.equal(again.execute(*tensors), plan.execute(*tensors))


# -- the cache -------------------------------------------------------------------------------------


def test_plans_are_kept_by_all_that_decides():
    trntensor.clear_plan_cache()
    a, b = torch.ones(4, 3), torch.ones(3, 5)
    plan = plan_contraction("ij,jk->ik", a, b)
    assert plan_contraction("ij,jk->ik", a + 1, b) is plan
    others = [
        plan_contraction("ij,jk->ik", a, b, precision="kahan"),
        plan_contraction("ij,jk->ik", a.double(), b.double()),
        plan_contraction("ij,jk->ik", a, b[:, :2]),
        plan_contraction("ij,jk->ik", a, b, memory_limit=10**6),
    ]
    assert len({id(p) for p in (plan, *others)}) == 5
    assert trntensor.plan_cache_info() == {"size": 5, "hits": 1, "misses": 5, "max_size": 1024}
    trntensor.einsum("ij,jk->ik", a, b)
    assert trntensor.plan_cache_info()["hits"] == 2
    trntensor.clear_plan_cache()
    assert trntensor.plan_cache_info()["size"] == 0


def test_the_cache_is_bounded_and_threads_may_share_it():
    trntensor.clear_plan_cache()
    most = trntensor.plan_cache_info()["max_size"]

    def use(start):
        for at in range(most // 2):
            n = (start + at) % (most + 100)
            assert plan_contraction("i->", torch.ones(n, device="meta")).shapes == ((n,),)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(use, range(0, most + 100, most // 4)))
    info = trntensor.plan_cache_info()
    assert info["size"] == most
    assert info["hits"] + info["misses"] == 5 * (most // 2)
    trntensor.clear_plan_cache()


# -- memory ----------------------------------------------------------------------------------------


class Allocated(TorchDispatchMode):
    """Counts the bytes of all storages that operations make, and the most at one time."""

    def __init__(self, *operands):
        super().__init__()
        self.live = self.peak = 0
        self.known = {x.untyped_storage()._cdata for x in operands}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                if storage._cdata not in self.known:
                    self.add(storage)
        return result

    def add(self, storage):
        address, nbytes = storage._cdata, storage.nbytes()
        self.known.add(address)
        self.live += nbytes
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self.drop, address, nbytes)

    def drop(self, address, nbytes):
        self.known.discard(address)
        self.live -= nbytes


LIMITED = (
    ("ij,jk,kl->il", ((40, 50), (50, 60), (60, 30))),
    ("aijk,ijkb->ab", ((6, 8, 8, 8), (8, 8, 8, 6))),
    ("abc,cde,efg->abdfg", ((4, 4, 8), (8, 4, 8), (8, 4, 4))),
    ("ijab,klab,ikx->jlx", ((6, 7, 5, 4), (6, 7, 5, 4), (6, 6, 3))),
    ("bij,bkj,bkl->il", ((9, 10, 11), (9, 12, 11), (9, 12, 13))),
)


@pytest.mark.parametrize(("subscripts", "shapes"), LIMITED, ids=[case[0] for case in LIMITED])
def test_a_memory_limit_holds(subscripts, shapes):
    tensors = [
        random_tensor(*shape, dtype=torch.float64, seed=at) for at, shape in enumerate(shapes)
    ]
    want = torch.einsum(subscripts, *tensors)
    free = plan_contraction(subscripts, *tensors)
    least = 2 * want.numel() * 8 + 4096
    limits = sorted({free.peak_bytes, (free.peak_bytes + least) // 2, least}, reverse=True)
    for limit in limits:
        plan = plan_contraction(subscripts, *tensors, memory_limit=limit)
        assert plan.peak_bytes <= limit
        with Allocated(*tensors) as counted:
            got = plan.execute(*tensors)
        assert counted.peak <= limit, f"{counted.peak} bytes of {limit}"
        assert torch.allclose(got, want, rtol=1e-12, atol=1e-12)
    assert plan.slices or free.peak_bytes <= least
    assert torch.allclose(
        trntensor.einsum(subscripts, *tensors, memory_limit=least), want, rtol=1e-12, atol=1e-12
    )


def laid_out(x, kind):
    """Return a tensor with the values of x in another layout."""
    if kind == "permuted":
        return x.permute(*reversed(range(x.ndim))).contiguous().permute(*reversed(range(x.ndim)))
    if kind == "rotated":
        return x.movedim(0, -1).contiguous().movedim(-1, 0)
    if kind == "strided":
        return torch.stack([x, x], -1)[..., 0]
    return x[:1].expand_as(x)


@pytest.mark.parametrize("kind", ["permuted", "rotated", "strided", "expanded"])
@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [*LIMITED, ("ijx,jky->ik", ((20, 30, 3), (30, 25, 2))), ("iij,jk->ik", ((8, 8, 9), (9, 7)))],
)
def test_a_memory_limit_holds_for_any_layout(subscripts, shapes, kind):
    tensors = [
        laid_out(random_tensor(*shape, dtype=torch.float64, seed=at), kind)
        for at, shape in enumerate(shapes)
    ]
    want = torch.einsum(subscripts, *tensors)
    least = 2 * want.numel() * 8 + 4096
    for limit in (4 * least, 2 * least, least):
        try:
            plan = plan_contraction(subscripts, *tensors, memory_limit=limit)
        except ShapeError:
            continue
        with Allocated(*tensors) as counted:
            got = plan.execute(*tensors)
        assert counted.peak <= limit, f"{counted.peak} bytes of {limit}"
        assert torch.allclose(got, want, rtol=1e-12, atol=1e-12)


def test_a_limit_below_the_result_is_refused():
    a = torch.ones(30, 30)
    with pytest.raises(
        ValueError, match=r"memory_limit must be at least [\d,]+ bytes, of which the"
    ):
        plan_contraction("ij,jk->ik", a, a, memory_limit=3000)


@given(st.integers(0, 10**6))
@examples(25)
def test_slices_of_any_contraction_add_up(seed):
    inputs, output, sizes = network(4, seed, 1, 4)
    tensors = [
        random_tensor(*(sizes[x] for x in term), dtype=torch.float64, seed=at)
        for at, term in enumerate(inputs)
    ]
    text = f"{','.join(inputs)}->{output}"
    want = torch.einsum(text, *tensors)
    least = 2 * want.numel() * 8 + 256
    plan = plan_contraction(text, *tensors, memory_limit=least)
    assert torch.allclose(plan.execute(*tensors), want, rtol=1e-12, atol=1e-12)


def test_slices_have_gradients_and_go_through_vmap():
    a = random_tensor(6, 5, dtype=torch.float64).requires_grad_()
    b = random_tensor(5, 6, dtype=torch.float64).requires_grad_()

    def function(x, y):
        return trntensor.einsum("ab,bc,cd,da->", x, y, x, y, memory_limit=200)

    assert plan_contraction("ab,bc,cd,da->", a, b, a, b, memory_limit=200).slices
    assert torch.autograd.gradcheck(function, (a, b), fast_mode=True)
    many = random_tensor(3, 6, 5, dtype=torch.float64)
    got = torch.func.vmap(function, (0, None))(many, b)
    want = torch.linalg.matrix_power(many @ b, 2).diagonal(0, 1, 2).sum(1)
    assert torch.allclose(got, want, rtol=1e-12, atol=1e-12)


def test_a_network_with_more_indices_than_letters():
    inputs, output, sizes = network(30, 1, 2, 2)
    assert len(sizes) > 52
    tensors = [
        random_tensor(*(sizes[x] for x in term), dtype=torch.float64, seed=at)
        for at, term in enumerate(inputs)
    ]
    text = f"{','.join(inputs)}->{output}"
    want = opt_einsum.contract(text, *tensors, optimize="greedy")
    got = trntensor.einsum(text, *tensors)
    assert torch.allclose(got, want, rtol=1e-10, atol=1e-10 * float(want.abs().max()))
    free = plan_contraction(text, *tensors)
    limit = max(2 * got.numel() * 8 + 512, free.peak_bytes // 2)
    path = free.contraction_path
    plan = plan_contraction(text, *tensors, memory_limit=limit, path=path)
    assert plan.slices
    with Allocated(*tensors) as counted:
        sliced = plan.execute(*tensors)
    assert counted.peak <= limit
    assert torch.allclose(sliced, want, rtol=1e-10, atol=1e-10 * float(want.abs().max()))


def test_a_plan_shows_its_slices_where_it_has_any():
    tensors = [random_tensor(*shape) for shape in ((40, 50), (50, 60), (60, 8))]
    whole = plan_contraction("ij,jk,kl->il", *tensors)
    assert "slices" not in dict(whole.decisions())
    cut = plan_contraction("ij,jk,kl->il", *tensors, memory_limit=whole.peak_bytes - 1)
    assert dict(cut.decisions())["slices"].startswith(f"{cut.program.slice_count:,}: ")
