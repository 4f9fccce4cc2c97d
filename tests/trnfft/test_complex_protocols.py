"""Where torch takes tensors it takes ComplexTensors: trees, transforms, files, loaders."""

import io
import json

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils.data import DataLoader, default_collate

import trnfft
from trnfft import ComplexTensor
from trnsci.core.testing import random_tensor

from .agreement import in_parts


def native(*shape, seed=0):
    return ComplexTensor(random_tensor(*shape, dtype=torch.complex64, seed=seed))


def parts(*shape, seed=0):
    z = native(*shape, seed=seed)
    return in_parts(z.real.contiguous(), z.imag.contiguous())


MADE = {"native": native, "parts": parts, "bfloat16": lambda *s, **k: native(*s, **k).bfloat16()}
forms = pytest.mark.parametrize("make", MADE.values(), ids=list(MADE))


def same(a, b):
    assert (type(a), a.dtype) == (ComplexTensor, b.dtype)
    assert torch.equal(a.real, b.real)
    assert torch.equal(a.imag, b.imag)


@forms
def test_is_a_node_of_a_tree(make):
    z = make(3, 4)
    leaves, spec = pytree.tree_flatten({"z": [z, 1]})
    assert all(isinstance(leaf, (torch.Tensor, int)) for leaf in leaves)
    assert len(leaves) == (2 if z.is_native else 3)
    again = pytree.tree_unflatten(leaves, spec)["z"][0]
    same(again, z)
    assert again.is_native == z.is_native
    # A tree may hold anything in the place of tensors, as torch.func puts dimensions there.
    pytree.tree_map(lambda leaf: None, z)
    names = [pytree.keystr(path) for path, _ in pytree.tree_flatten_with_path(z)[0]]
    assert names == ([".native"] if z.is_native else [".real", ".imag"])
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec


@forms
def test_vmap_and_grad(make):
    z = make(3, 4)
    got = torch.vmap(lambda row: row * 2 + row.conj())(z)
    same(got, z * 2 + z.conj())
    same(torch.vmap(lambda row: row.sum(), in_dims=1)(z), z.sum(0))
    wide = make(5)
    found = torch.func.grad(lambda w: (w.real.float() ** 2).sum())(wide)
    assert isinstance(found, ComplexTensor)
    assert torch.equal(found.real, 2 * wide.real)


@forms
def test_compiles_without_a_break(make):
    def function(z, w):
        return ((z * w + 1).conj().matmul(w.mT)).abs(), z.reshape(-1)[1:]

    z, w = make(3, 4), make(3, 4, seed=1)
    compiled = torch.compile(function, backend="eager", fullgraph=True)
    size, flat = compiled(z, w)
    want_size, want_flat = function(z, w)
    assert torch.equal(size, want_size)
    same(flat, want_flat)


class Spectral(torch.nn.Module):
    def forward(self, z):
        return trnfft.ifft(trnfft.fft(z) * 2)


@forms
def test_exports(make):
    z = make(3, 4)
    exported = torch.export.export(Spectral(), (z,))
    same(exported.module()(z), Spectral()(z))


@forms
def test_files_are_read_with_weights_only(make):
    z = make(3, 4)
    file = io.BytesIO()
    torch.save({"spectrum": z}, file)
    file.seek(0)
    again = torch.load(file, weights_only=True)["spectrum"]
    same(again, z)
    assert again.is_native == z.is_native


@forms
def test_batches_of_a_loader(make):
    entries = [make(4, seed=seed) for seed in range(4)]
    batch = default_collate([{"z": entry} for entry in entries])["z"]
    same(batch, torch.stack(entries))
    first = next(iter(DataLoader(entries, batch_size=2)))
    same(first, torch.stack(entries[:2]))


@forms
def test_share_memory(make):
    z = make(3)
    assert z.share_memory_() is z
    assert all(tensor.is_shared() for tensor in z._tensors())


def test_closeness():
    a = native(4)
    assert a.allclose(a * (1 + 1e-7))
    assert a.equal(a.clone())
    assert not a.equal(native(4, seed=1))


@forms
def test_dimensions_by_default(make):
    z = make(4, 6)
    assert [tuple(piece.shape) for piece in z.unbind()] == [(6,)] * 4
    assert [tuple(piece.shape) for piece in z.chunk(2)] == [(2, 6)] * 2
    assert [tuple(piece.shape) for piece in z.split(3)] == [(3, 6), (1, 6)]
    assert [tuple(piece.shape) for piece in z.split((1, 3))] == [(1, 6), (3, 6)]
    assert z.flatten().shape == (24,)
    assert make(2, 3, 4).flatten(1).shape == (2, 12)
    assert make(2, 3, 4).flatten(0, 1).shape == (6, 4)
    assert torch.equal(z.sum().real, z.sum((0, 1)).real)
    assert z.sum(0, keepdim=True).shape == z.mean(0, True).shape == (1, 6)
    assert z.prod(1, keepdim=True).shape == (4, 1)
    assert z.prod(1).shape == (4,)
    assert torch.equal(z.roll(1, 0).real, z.real.roll(1, 0))
    assert torch.equal(z.roll(1).real, z.real.roll(1))


@forms
def test_dtypes_and_layout(make):
    z = make(3, 4)
    assert (z.float().dtype, z.double().dtype) == (torch.complex64, torch.complex128)
    assert (z.half().dtype, z.bfloat16().dtype) == (torch.complex32, torch.bfloat16)
    assert z.cfloat().dtype is torch.complex64
    assert z.type_as(native(1).double()).dtype is torch.complex128
    size = 2 * z.part_dtype.itemsize
    assert (z.element_size(), z.nbytes) == (size, 12 * size)
    assert z.is_contiguous()
    assert not z.T.is_contiguous()
    assert z.stride(-1) == z.stride()[-1] == z.real.stride(-1) // (2 if z.is_native else 1)
    assert (z.is_cpu, z.is_cuda, z.get_device(), z.layout) == (True, False, -1, torch.strided)
    assert z.expand_as(make(2, 3, 4)).shape == (2, 3, 4)
    assert z.view_as(make(4, 3)).shape == z.reshape_as(make(4, 3)).shape == (4, 3)
    assert z.is_complex()
    assert not z.is_floating_point()


@forms
def test_backward_from_the_tensor_itself(make):
    z = make(3).requires_grad_()
    assert z.is_leaf
    w = z * 2
    assert not w.is_leaf
    assert w.grad_fn is not None
    w.retain_grad()
    seed = make(3, seed=2)
    w.backward(seed)
    same(w.grad, seed)
    same(z.grad, seed * 2)
    z = make(2).requires_grad_()
    (z * 2).backward(seed[:2].to_torch_complex())
    same(z.grad, seed[:2] * 2)


def test_importing_the_package_registers_once():
    code = (
        "import torch, trnfft\n"
        "from trnfft import ComplexTensor\n"
        "z = ComplexTensor(torch.ones(2))\n"
        "print(json.dumps(len(torch.utils._pytree.tree_leaves([z, z]))))"
    )
    from fresh_process import printed_after

    assert printed_after("torch", code) == json.loads("2")
