"""Formats, products and solvers on a CUDA device, against dense matrices in float64 on the CPU."""

import pytest
import torch

import trnrand
import trnsparse as ts

from .cases import FORMATS, in_format, random_dense, spd_dense

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

pytestmark = pytest.mark.cuda

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.complex64]


def on_device(dense, name, dtype=torch.float64):
    return in_format(dense.to("cuda", dtype), name)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("other", FORMATS)
def test_conversions_stay_on_the_device(name, other):
    dense = random_dense(37, 23)
    found = on_device(dense, name).asformat(other)
    assert found.device.type == "cuda"
    assert torch.equal(found.to_dense().cpu(), dense)
    assert found.cpu().device.type == "cpu"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", FORMATS)
def test_products(name, dtype):
    dense = random_dense(200, 130, dtype=dtype)
    B = random_dense(130, 40, 1.0, 1, dtype)
    found = in_format(dense.cuda(), name) @ B.cuda()
    wide = torch.complex128 if dtype.is_complex else torch.float64
    want = dense.to(wide) @ B.to(wide)
    scale = (dense.to(wide).abs() @ B.to(wide).abs()).real
    width = torch.float32 if dtype is torch.bfloat16 else dtype
    unit = torch.finfo(dtype).eps / 2
    bound = 2 * 131 * torch.finfo(width).eps * scale + unit * want.abs()
    assert ((found.cpu().to(wide) - want).abs() <= bound).all()


@pytest.mark.parametrize("name", FORMATS)
def test_gradients(name):
    A = on_device(random_dense(6, 5), name)
    data = A._data.detach().requires_grad_()
    B = random_dense(5, 3, 1.0, 2).cuda().requires_grad_()

    def product(entries, right):
        return A._with_data(entries) @ right

    assert torch.autograd.gradcheck(product, (data, B))
    assert torch.autograd.gradgradcheck(product, (data, B))


def test_algebra_and_selection():
    a, b = random_dense(20, 20), random_dense(20, 20, seed=1)
    A, B = ts.from_dense(a.cuda()), ts.from_dense(b.cuda())
    torch.testing.assert_close((A @ B).to_dense().cpu(), a @ b)
    assert torch.equal((A + B).to_dense().cpu(), a + b)
    assert torch.equal((A * B).to_dense().cpu(), a * b)
    assert torch.equal(A[3:9].to_dense().cpu(), a[3:9])
    assert torch.equal(A.T.to_dense().cpu(), a.T)
    C, D = (random_dense(20, 4, 1.0, s) for s in (2, 3))
    found = ts.sddmm(A, C.cuda(), D.cuda()).to_dense().cpu()
    torch.testing.assert_close(found, (C @ D.T) * (a != 0))


def test_parts_reductions_and_assembly():
    a = random_dense(20, 13)
    A = ts.from_dense(a.cuda())
    columns = torch.tensor([7, 0, 7, 12])
    for chosen in (columns, columns.cuda()):
        assert torch.equal(A[:, chosen].to_dense().cpu(), a[:, columns])
    assert torch.equal(A[:, 11:2:-3].to_dense().cpu(), a[:, [11, 8, 5]])
    assert torch.equal(A[4].cpu(), a[4])
    assert torch.equal(A[:, 3].cpu(), a[:, 3])
    assert torch.equal((A + a.cuda()).cpu(), 2 * a)
    for dim in (0, 1):
        assert torch.equal(A.max(dim).cpu(), a.amax(dim))
        assert torch.equal(A.min(dim).cpu(), a.amin(dim))
        assert torch.equal(A.argmax(dim).cpu(), a.argmax(dim))
    assert A.argmax() == a.argmax()
    made = {
        "hstack": (ts.hstack([A, A]), torch.cat([a, a], 1)),
        "vstack": (ts.vstack([A, A]), torch.cat([a, a])),
        "kron": (ts.kron(A, A), torch.kron(a, a)),
        "diags": (
            ts.diags([a[0].cuda(), 1.0], [0, -2]),
            torch.diag(a[0]) + torch.eye(13).roll(2, 0).tril(),
        ),
    }
    for found, want in made.values():
        assert found.device.type == "cuda"
        assert torch.equal(found.to_dense().cpu(), want)
    host, device = (
        ts.random_sparse((50, 40), 0.2, generator=trnrand.Generator(1, device=kind))
        for kind in ("cpu", "cuda")
    )
    assert torch.equal(host.to_dense(), device.to_dense().cpu())


def test_solvers():
    dense = spd_dense(60)
    b = random_dense(60, 1, 1.0, 5)[:, 0]
    A, right = ts.from_dense(dense.cuda()), b.cuda()
    want = torch.linalg.solve(dense, b)
    found = ts.cg(A, right, tol=1e-10, M=ts.jacobi_preconditioner(A))
    for x in (found.x, ts.minres(A, right, tol=1e-10).x, ts.spsolve(A, right)):
        assert x.device.type == "cuda"
        torch.testing.assert_close(x.cpu(), want, atol=1e-8, rtol=1e-8)
    lower = ts.sptrsv(A, right).cpu()
    torch.testing.assert_close(lower, torch.linalg.solve(dense.tril(), b))


def test_checks_read_indices_of_the_device():
    places = torch.tensor([0, 7], device="cuda")
    with pytest.raises(ValueError, match="col_indices must be from 0 to 2, got 7"):
        ts.CSRMatrix(torch.ones(2, device="cuda"), places, torch.tensor([0, 2]).cuda(), (1, 3))


def test_screened_products():
    A, B = random_dense(50, 50, 1.0), random_dense(50, 4, 1.0, 1)
    bounds = torch.rand(50, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = ts.screened_spmm(A.cuda(), bounds.cuda(), B.cuda(), 0.3)
    mask = torch.outer(bounds, bounds).sqrt() > 0.3**0.5
    torch.testing.assert_close(found.cpu(), (A * mask) @ B)
