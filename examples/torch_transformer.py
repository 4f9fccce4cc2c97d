"""Train a small transformer with its own kernels, on a Trainium or on the simulated device.

    nkisim run examples/torch_transformer.py            # on any CPU
    nkisim run examples/torch_transformer.py --device cpu   # torch alone, to compare the losses

RMSNorm and attention are NKI kernels, made operators with ``nki_op``; their backward is written
with torch. Everything else is torch's own. On a Trainium the file runs unchanged by ``python``.
"""

import argparse
import math

import nki
import nki.isa as nisa
import nki.language as nl
import torch
from torch import nn
from torch_neuronx import nki_op

EPSILON = 1e-6


@nki.jit
def rms_norm_kernel(x, weight):
    """Return each row of ``x`` (at most 128) over its root mean square, times ``weight`` (1, n)."""
    rows, cols = x.shape
    out = nl.ndarray((rows, cols), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    square = nl.ndarray((rows, cols), dtype=nl.float32, buffer=nl.sbuf)
    mean = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    inverse = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=square, data1=tile, data2=tile, op=nl.multiply)
    nisa.tensor_reduce(dst=mean, op=nl.add, data=square, axis=1)
    nisa.tensor_scalar(
        dst=mean, data=mean, op0=nl.multiply, operand0=1 / cols, op1=nl.add, operand1=EPSILON
    )
    nisa.activation(dst=inverse, op=nl.rsqrt, data=mean)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=inverse)
    nl.store(out, nl.multiply(tile, nl.broadcast_to(nl.load(weight), (rows, cols))))
    return out


@nki.jit
def attention_kernel(q_t, k_t, v, scale):
    """Return softmax(scale q k) v; q_t and k_t are (d, n), v is (n, d), n at most 128."""
    d, n = q_t.shape
    out = nl.ndarray((n, d), dtype=v.dtype, buffer=nl.shared_hbm)
    q, k, values = nl.load(q_t), nl.load(k_t), nl.load(v)
    scores = nl.ndarray((n, n), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=scores, stationary=q, moving=k)
    top = nl.ndarray((n, 1), dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((n, 1), dtype=nl.float32, buffer=nl.sbuf)
    weights = nl.ndarray((n, n), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=top, op=nl.maximum, data=scores, axis=1)
    nisa.tensor_scalar(dst=top, data=top, op0=nl.multiply, operand0=-scale)
    nisa.activation(dst=weights, op=nl.exp, data=scores, bias=top, scale=scale)
    nisa.tensor_reduce(dst=total, op=nl.add, data=weights, axis=1)
    nisa.reciprocal(dst=total, data=total)
    nisa.tensor_scalar(dst=weights, data=weights, op0=nl.multiply, operand0=total)
    turned = nl.ndarray((n, n), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=weights)
    moved = nl.ndarray((n, n), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=moved, src=turned)
    product = nl.ndarray((n, d), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=product, stationary=moved, moving=values)
    result = nl.ndarray((n, d), dtype=v.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=product)
    nl.store(out, result)
    return out


def rms_norm_reference(x, weight):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPSILON) * weight


def attention_reference(q, k, v):
    return torch.softmax(q @ k.T / math.sqrt(q.shape[1]), -1) @ v


@nki_op("example::rms_norm")
def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return rms_norm_kernel(x, weight)


@nki_op("example::attention")
def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return attention_kernel(q.T.contiguous(), k.T.contiguous(), v, 1 / math.sqrt(q.shape[1]))


def differentiated_by(reference):
    """Return the rule that computes gradients with torch, from the saved arguments."""

    def backward(ctx, grad):
        with torch.enable_grad():
            inputs = [tensor.detach().requires_grad_() for tensor in ctx.saved_tensors]
            return torch.autograd.grad(reference(*inputs), inputs, grad)

    return backward


def keep(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


rms_norm.register_autograd(differentiated_by(rms_norm_reference), setup_context=keep)
attention.register_autograd(differentiated_by(attention_reference), setup_context=keep)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = (
            nn.Parameter(torch.ones(1, width)),
            nn.Parameter(torch.ones(1, width)),
        )
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        on_chip = x.device.type == "neuron"
        norm = rms_norm if on_chip else rms_norm_reference
        attend = attention if on_chip else attention_reference
        q, k, v = self.qkv(norm(x, self.first)).chunk(3, -1)
        x = x + self.out(attend(q.contiguous(), k.contiguous(), v.contiguous()))
        return x + self.down(torch.relu(self.up(norm(x, self.second))))


def losses(device, steps, width=32, length=32, tokens=20):
    """Return the losses of a model that learns to repeat a sequence."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Embedding(tokens, width), Block(width), Block(width), nn.Linear(width, tokens)
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    text = torch.randint(tokens, (length,)).to(device)
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(text), text.roll(-1))
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="neuron")
    parser.add_argument("--steps", type=int, default=6)
    options = parser.parse_args(arguments)
    for step, loss in enumerate(losses(options.device, options.steps)):
        print(f"step {step}  loss {loss:.6f}")


if __name__ == "__main__":
    main()
