"""One rank calls a distributed function with another operand than the others.

That must be one error on every rank, and the process group must be usable afterwards.
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard

import trnblas.distributed as blas
import trnfft.distributed as fft
import trnrand.distributed as rand
import trnsolver.distributed as solver
import trnsparse
import trnsparse.distributed as sparse
import trntensor.distributed as tensor
from each_case import each_case
from ranks import pool, refusal, sharded
from trnsci.core.distributed.layout import Layout

ORDER = 6
MATRIX = 4 * torch.eye(ORDER, dtype=torch.float64) + 1
VECTOR = torch.ones(ORDER, dtype=torch.float64)
LAYOUT = Layout.even((ORDER, ORDER), 0, 3)


def _rows_of_sparse():
    return sparse.RowShardedCSR.from_csr(trnsparse.CSRMatrix.from_dense(MATRIX), layout=LAYOUT)


# A call of one operand, and the whole operand.
FUNCTIONS = {
    "gemm": (lambda x: blas.gemm(1.0, x, x), MATRIX),
    "syrk": (lambda x: blas.syrk(1.0, x), MATRIX),
    "trsm": (lambda x: blas.trsm(1.0, x, x), MATRIX),
    "batched_pair_energy": (
        lambda x: blas.batched_pair_energy(x, -VECTOR, VECTOR),
        MATRIX[:, :, None] / 8,
    ),
    "fftn": (lambda x: fft.fftn(x), MATRIX[:, :, None]),
    "fft": (lambda x: fft.fft(x), VECTOR),
    "einsum": (lambda x: tensor.einsum("ij,jk->ik", x, x), MATRIX),
    "cholesky": (lambda x: solver.cholesky(x), MATRIX),
    "solve_spd": (lambda x: solver.solve_spd(x, x), MATRIX),
    "tsqr": (lambda x: solver.tsqr(x), MATRIX),
    "lstsq": (lambda x: solver.lstsq(x, x), MATRIX),
    "rsvd": (lambda x: solver.rsvd(x, 2), MATRIX),
    "msign": (lambda x: solver.msign(x), MATRIX),
    "cg": (lambda x: solver.cg(x, x), MATRIX),
    "minres": (lambda x: solver.minres(_rows_of_sparse(), x), VECTOR),
    "eigsh": (lambda x: solver.eigsh(x, 2), MATRIX),
    "RowShardedCSR": (lambda x: _rows_of_sparse() @ x, VECTOR),
    "RowShardedCSR.T": (lambda x: _rows_of_sparse().T @ x, VECTOR),
    "RowShardedCSR.cg": (lambda x: _rows_of_sparse().cg(x), VECTOR),
    "RowShardedCSR.gather": (lambda x: _rows_of_sparse().gather(x), VECTOR),
}


def _other_mesh(*sizes):
    def made(x, whole):
        placements = (Replicate(),) * (len(sizes) - 1) + (Shard(0),)
        return sharded(whole, init_device_mesh("cpu", sizes), placements)

    return made


# The operand of rank 1, from the one of the others.
FAULTS = {
    "nothing": lambda x, whole: None,
    "a number": lambda x, whole: 2.0,
    "a plain part": lambda x, whole: x.to_local(),
    "another dtype": lambda x, whole: sharded(
        whole.to(torch.complex64), x.device_mesh, (Shard(0),)
    ),
    "float8": lambda x, whole: sharded(whole.to(torch.float8_e4m3fn), x.device_mesh, (Shard(0),)),
    "replicated": lambda x, whole: sharded(whole, x.device_mesh, (Replicate(),)),
    "a mesh of two dimensions": _other_mesh(1, 3),
    "a mesh of three dimensions": _other_mesh(1, 1, 3),
    "a gradient": lambda x, whole: x.requires_grad_(),
}
# Of functions without gradients, or that take what the fault makes of the operand.
HARMLESS = {("RowShardedCSR.gather", "a gradient"), ("RowShardedCSR.gather", "a plain part")}


def _usable():
    one = torch.ones(1)
    dist.all_reduce(one)
    return one.item() == dist.get_world_size()


def _differing(function):
    call, whole = FUNCTIONS[function]
    mesh, found = init_device_mesh("cpu", (3,)), {}
    for name, fault in FAULTS.items():
        x = sharded(whole, mesh, (Shard(0),))
        if name.startswith("a mesh"):
            other = fault(x, whole)  # on all ranks: meshes are made together
            x = other if dist.get_rank() == 1 else x
        elif dist.get_rank() == 1:
            x = fault(x, whole)
        found[name] = refusal(lambda x=x: call(x)), _usable()
    return found


@each_case("function", list(FUNCTIONS))
def test_one_rank_with_another_operand_is_an_error_on_every_rank(function):
    everywhere = pool(3).run(_differing, function)
    for fault in FAULTS:
        if (function, fault) in HARMLESS:
            continue
        errors = [found[fault][0] for found in everywhere]
        assert all(error is not None for error in errors), (fault, errors)
        assert len({kind for kind, _ in errors}) == 1, (fault, errors)
        for rank in (0, 2):
            assert "rank 1: " in errors[rank][1], (fault, errors)
        assert all(found[fault][1] for found in everywhere), fault


def _differing_options():
    odd, mesh = dist.get_rank() == 1, init_device_mesh("cpu", (3,))
    matrix, vector = (sharded(x, mesh, (Shard(0),)) for x in (MATRIX, VECTOR))
    rows, part = matrix.to_local(), vector.to_local()
    whole = trnsparse.CSRMatrix.from_dense(MATRIX)
    some = whole[LAYOUT.rows(dist.get_rank())]
    world = dist.group.WORLD

    def transformed(x):
        return solver.tsqr(x).R.sum()

    calls = {
        "cg, layout": lambda: solver.cg(rows, part, layout=LAYOUT if odd else None),
        "cg, plain b": lambda: solver.cg(matrix, part if odd else vector),
        "cg, tol": lambda: solver.cg(matrix, vector, tol=-1.0 if odd else 0.1),
        "cg, a function": lambda: solver.cg((lambda v: v) if odd else matrix, vector),
        "solve_spd, group": lambda: solver.solve_spd(matrix, vector, world if odd else None),
        "cholesky, group": lambda: solver.cholesky(rows, "world" if odd else None),
        "cholesky, layout": lambda: solver.cholesky(rows, layout=[0, 2, 4, 6] if odd else None),
        "rsvd, k": lambda: solver.rsvd(matrix, 3 if odd else 2),
        "tsqr, torch.func": lambda: (
            torch.func.grad(transformed)(rows) if odd else solver.tsqr(rows)
        ),
        "tsqr, no_grad": lambda: _with_grad(not odd, solver.tsqr, rows),
        "gemm, no_grad": lambda: _with_grad(not odd, blas.gemm, 1.0, matrix, matrix),
        "fftn, no_grad": lambda: _with_grad(not odd, fft.fftn, matrix),
        "from_csr": lambda: sparse.RowShardedCSR.from_csr(MATRIX if odd else whole),
        "RowShardedCSR": lambda: sparse.RowShardedCSR(None if odd else some, LAYOUT),
        "RowShardedCSR, layout": lambda: sparse.RowShardedCSR(some, 6 if odd else LAYOUT),
        "normal": lambda: rand.normal(6, device_mesh=None if odd else mesh),
    }
    return {name: (refusal(call), _usable()) for name, call in calls.items()}


def _with_grad(enabled, function, *arguments):
    given = [x.detach().requires_grad_() if isinstance(x, torch.Tensor) else x for x in arguments]
    with torch.set_grad_enabled(enabled):
        return function(*given)


def test_one_rank_with_another_option_is_an_error_on_every_rank():
    everywhere = pool(3).run(_differing_options)
    for name in everywhere[0]:
        errors = [found[name][0] for found in everywhere]
        assert all(error is not None for error in errors), (name, errors)
        assert len({kind for kind, _ in errors}) == 1, (name, errors)
        assert all("rank 1: " in errors[rank][1] for rank in (0, 2)), (name, errors)
        assert all(found[name][1] for found in everywhere), name
