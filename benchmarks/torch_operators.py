"""Compare torch's operator samples on the device "neuron" with the CPU.

    python benchmarks/torch_operators.py [--most SAMPLES] [NAME ...]

Each operator that torch's own test database knows runs forward in float32, and backward where it
has one, on both devices. Printed are the operators that differ, by cause, and the totals. Without
names the operators of a small transformer, a CNN and an RNN run, then 150 others.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import types
import unittest
import warnings
from collections import Counter
from collections.abc import Iterable

# torch's database of samples imports a package for tests of its own, of which it needs a class.
sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=unittest.TestCase))

import torch  # noqa: E402
from torch.testing import assert_close  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

import nkitorch  # noqa: E402, F401

MODELS = (
    *("add", "sub", "mul", "div", "matmul", "mm", "bmm", "addmm", "exp", "log", "sqrt", "rsqrt"),
    *("tanh", "sigmoid", "sum", "mean", "var", "amax", "softmax", "log_softmax", "cat", "stack"),
    *("split", "chunk", "transpose", "permute", "reshape", "view", "expand", "unsqueeze"),
    *("squeeze", "where", "masked_fill", "gather", "index_select", "nn.functional.linear"),
    *("nn.functional.relu", "nn.functional.gelu", "nn.functional.silu", "nn.functional.softmax"),
    *("nn.functional.layer_norm", "nn.functional.rms_norm", "nn.functional.group_norm"),
    *("nn.functional.batch_norm", "nn.functional.conv1d", "nn.functional.conv2d"),
    *("nn.functional.conv_transpose2d", "nn.functional.max_pool2d", "nn.functional.avg_pool2d"),
    *("nn.functional.adaptive_avg_pool2d", "nn.functional.embedding", "nn.functional.pad"),
    *("nn.functional.cross_entropy", "nn.functional.nll_loss", "nn.functional.mse_loss"),
    *("nn.functional.scaled_dot_product_attention", "nn.functional.interpolate", "tril", "triu"),
)
RANDOM = ("dropout", "rand", "normal", "bernoulli", "multinomial", "exponential", "cauchy")
"""Parts of names of operators whose results are drawn, or, as ``empty``, undefined."""


def moved(value: object, device: str) -> object:
    """Return a sample's tensors on a device, as leaves of autograd."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone().to(device).requires_grad_(value.requires_grad)
    if isinstance(value, torch.device):
        return torch.device(device)
    if isinstance(value, (list, tuple)):
        return type(value)(moved(part, device) for part in value)
    if isinstance(value, dict):
        return {key: moved(part, device) for key, part in value.items()}
    return value


def tensors(value: object) -> list[torch.Tensor]:
    parts = value if isinstance(value, (list, tuple)) else [value]
    return [t for p in parts for t in ([p] if isinstance(p, torch.Tensor) else [])]


def outcome(op: object, sample: object, device: str) -> list[torch.Tensor]:
    """Return results and gradients of a sample on a device, moved to the CPU."""
    args = moved([sample.input, *sample.args], device)
    kwargs = moved(sample.kwargs, device)
    torch.manual_seed(0)
    results = tensors(op(*args, **kwargs))
    smooth = [r for r in results if r.requires_grad]
    if smooth:
        leaves = [t for t in tensors(args) if t.requires_grad]
        total = sum(r.abs().sum() for r in smooth)
        grads = torch.autograd.grad(total, leaves, allow_unused=True)
        results += [g for g in grads if g is not None]
    return [r.detach().cpu() for r in results]


def failure(op: object, most: int) -> str:
    """Return why an operator differs from the CPU; empty if it does not."""
    smooth = op.supports_autograd
    torch.manual_seed(0)  # of the samples
    for sample in itertools.islice(op.sample_inputs("cpu", torch.float32, smooth), most):
        try:
            expected = outcome(op, sample, "cpu")
        except Exception:  # a sample that is meant for another device
            continue
        try:
            assert_close(outcome(op, sample, "neuron"), expected, equal_nan=True)
        except AssertionError:
            return "values differ"
        except Exception as error:
            return f"{type(error).__name__}: {error}".partition("\n")[0][:100]
    return ""


def compared(title: str, names: Iterable[str], most: int) -> None:
    chosen = set(names)
    ops = [op for op in op_db if op.name in chosen and torch.float32 in op.dtypes]
    causes: Counter[str] = Counter()
    for op in ops:
        cause = failure(op, most)
        if cause:
            print(f"  {op.name} {op.variant_test_name}: {cause}", flush=True)
            causes[cause] += 1
    print(f"{title}: {len(ops) - causes.total()} of {len(ops)} pass")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--most", type=int, default=4, help="samples of each operator")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.names:
        compared("named", options.names, options.most)
        return
    compared("transformer, CNN and RNN", MODELS, options.most)
    others = dict.fromkeys(op.name for op in op_db if op.name not in MODELS)
    drawn = [name for name in others if not any(part in name for part in (*RANDOM, "empty"))]
    compared("others", drawn[:: max(1, len(drawn) // 150)][:150], options.most)


if __name__ == "__main__":
    main()
