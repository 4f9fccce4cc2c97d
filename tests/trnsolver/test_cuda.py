"""Results on a CUDA device are those of the CPU in float64, to rounding, and stay on the device."""

import pytest
import torch

import trnsolver
from oracles.solver_matrices import GENERAL, SYMMETRIC, with_condition
from trnsci.core.testing import random_tensor, unit_roundoff

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

pytestmark = pytest.mark.cuda


def unit(a):
    return 20 * max(a.shape[-2:]) * unit_roundoff(a.dtype)


def near(product, a):
    assert product.device.type == "cuda"
    error = torch.linalg.matrix_norm(product.double() - a.double())
    assert bool((error <= unit(a) * torch.linalg.matrix_norm(a.double())).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", GENERAL)
def test_factorizations(name, dtype):
    a = GENERAL[name].to("cuda", dtype)
    p, lower, upper = trnsolver.lu(a)
    near(p @ lower @ upper, a)
    q, r = trnsolver.qr(a)
    near(q @ r, a)
    u, s, vh = trnsolver.svd(a)
    near(u * s @ vh, a)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", SYMMETRIC)
@pytest.mark.parametrize("batch", [(), (16,)])
def test_eigenpairs(name, dtype, batch):
    a = SYMMETRIC[name].to("cuda", dtype).expand(*batch, -1, -1).clone()
    w, v = trnsolver.eigh(a)
    near((v * w.unsqueeze(-2)) @ v.mT, a)
    eye = torch.eye(a.shape[-1], dtype=torch.float64, device="cuda")
    assert float((v.double().mT @ v.double() - eye).abs().max()) <= unit(a)


@pytest.mark.parametrize("power", [3, 6, 9])
def test_solutions_with_a_target(power):
    a = with_condition(10.0**power).float().cuda()
    b = random_tensor(24).cuda()
    x, info = trnsolver.solve(a, b, target_forward_error=1e-10)
    assert x.is_cuda
    assert info.converged
    want = trnsolver.solve(a.cpu(), b.cpu(), target_forward_error=1e-10).x
    assert float((x.cpu() - want).abs().max()) <= 2e-10 * float(want.abs().max())


def test_iterative_solvers():
    z = random_tensor(40, 40, dtype=torch.float64).cuda()
    spd, general = z @ z.mT + torch.eye(40, device="cuda"), z + 14 * torch.eye(40, device="cuda")
    b = random_tensor(40, dtype=torch.float64, seed=1).cuda()
    for solver, a in (
        (trnsolver.cg, spd),
        (trnsolver.minres, spd),
        (trnsolver.bicgstab, general),
        (trnsolver.gmres, general),
    ):
        result = solver(a, b, tol=1e-9)
        assert result.converged
        assert result.x.is_cuda
        assert float((a @ result.x - b).norm() / b.norm()) <= 1e-9


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_updates_for_muon(dtype):
    g = random_tensor(4, 256, 64).cuda()
    sigma = torch.linalg.svdvals(trnsolver.orthogonalize(g, dtype=dtype).double())
    assert 0.6 <= float(sigma.min()) <= float(sigma.max()) <= 1.3


def test_randomized_methods_use_the_numbers_of_the_cpu():
    a = with_condition(1e3, 60)
    on_device, on_cpu = trnsolver.rsvd(a.cuda(), 5), trnsolver.rsvd(a, 5)
    assert float((on_device.s.cpu() - on_cpu.s).abs().max()) <= 1e-12
    w, _ = trnsolver.eigh((a @ a.mT).cuda(), 1e-6, k=4, which="largest", method="chebyshev")
    want = trnsolver.eigh(a @ a.mT, k=4, which="largest").eigenvalues
    assert float((w.cpu() - want).abs().max()) <= 2e-6


@pytest.mark.filterwarnings("ignore:torch.linalg.svd. During SVD computation")
@pytest.mark.parametrize("shape", [(8, 8), (64, 32, 32), (6, 40, 40)])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize(
    "call", [trnsolver.eigh, trnsolver.eigvalsh, trnsolver.svd, trnsolver.svdvals]
)
def test_what_is_not_finite_is_refused(call, bad, shape):
    a = random_tensor(*shape).cuda()
    a = a + a.mT
    call(a)
    a[..., 5, 3] = bad
    for given in (a, a.mT.contiguous().mT):
        with pytest.raises(trnsolver.NotFiniteError, match=call.__name__):
            call(given)
    a[..., 5, 3] = 1.0
    a[..., 3, 5] = bad
    if call in (trnsolver.eigh, trnsolver.eigvalsh):
        call(a)  # the upper triangle is not read


@pytest.mark.parametrize("shape", [(8, 8), (64, 32, 32), (3, 200, 200)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128], ids=str)
def test_a_nan_leaves_no_positive_definite_matrix(dtype, shape):
    eye = torch.eye(shape[-1], dtype=dtype, device="cuda").expand(shape)
    right = torch.ones(shape[:-1], dtype=dtype, device="cuda").unsqueeze(-1)
    calls = (trnsolver.cholesky, trnsolver.inv_spd, lambda a: trnsolver.solve_spd(a, right))
    for call in calls:
        a = eye.clone()
        a[..., 3, 5] = torch.nan
        call(a)  # the upper triangle is not read
        for place in ((5, 3), (7, 7)):
            a = eye.clone()
            a[(0,) * (a.ndim - 2) + place] = torch.nan
            with pytest.raises(trnsolver.LinAlgError, match="positive"):
                call(a)


def test_inverse_roots():
    z = random_tensor(64, 64, dtype=torch.float64).cuda()
    a = z @ z.mT + torch.eye(64, device="cuda")
    near(trnsolver.inv_sqrt_spd(a) @ a @ trnsolver.inv_sqrt_spd(a), torch.eye(64, device="cuda"))
    with pytest.raises(trnsolver.NotPositiveDefiniteError):
        trnsolver.inv_sqrt_spd(a - 2 * torch.linalg.eigvalsh(a)[3] * torch.eye(64, device="cuda"))
    a[5, 3] = torch.nan
    with pytest.raises(trnsolver.NotFiniteError):
        trnsolver.inv_sqrt_spd(a)
