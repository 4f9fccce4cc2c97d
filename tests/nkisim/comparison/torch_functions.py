"""Functions of torch of x, y [8, 40]; those with a sum again from the definition.

A definition has the sum as an argument, ``total(terms)`` along the last axis, which it keeps.
"""

import torch
from torch.nn import functional as F

ELEMENTWISE = {
    "exp": lambda x, y: torch.exp(x),
    "log": lambda x, y: torch.log(x.abs() + 0.5),
    "log1p": lambda x, y: torch.log1p(x.abs()),
    "sqrt": lambda x, y: torch.sqrt(x.abs()),
    "rsqrt": lambda x, y: torch.rsqrt(x * x + 1.0),
    "reciprocal": lambda x, y: torch.reciprocal(x.abs() + 1.0),
    "sigmoid": lambda x, y: torch.sigmoid(x),
    "tanh": lambda x, y: torch.tanh(x),
    "relu": lambda x, y: torch.relu(x),
    "gelu": lambda x, y: F.gelu(x),
    "gelu tanh": lambda x, y: F.gelu(x, approximate="tanh"),
    "silu": lambda x, y: F.silu(x),
    "softplus": lambda x, y: F.softplus(x),
    "mish": lambda x, y: F.mish(x),
    "elu": lambda x, y: F.elu(x),
    "hardswish": lambda x, y: F.hardswish(x),
    "erf": lambda x, y: torch.erf(x),
    "sin": lambda x, y: torch.sin(x),
    "atan": lambda x, y: torch.atan(x),
    "add": lambda x, y: x + y,
    "difference of squares": lambda x, y: x * x - y * y,
    "swiglu": lambda x, y: F.silu(x) * y,
    "where": lambda x, y: torch.where(x > y, x, 2.0 * y),
    "clamp": lambda x, y: torch.clamp(3.0 * x, -1.0, 2.0),
    "hypot": lambda x, y: torch.hypot(x, y),
    "sigmoid backward": lambda x, y: y * torch.sigmoid(x) * (1.0 - torch.sigmoid(x)),
    "tanh backward": lambda x, y: y * (1.0 - torch.tanh(x) ** 2),
    "fake quantisation": lambda x, y: torch.clamp(torch.round(x * 16.0), -127, 127) / 16.0,
}

ORDER = {
    "sort": lambda x, y: torch.sort(x, dim=-1).values,
    "cummax": lambda x, y: torch.cummax(x, dim=-1).values,
    "amax": lambda x, y: torch.amax(x, dim=-1, keepdim=True),
    "topk": lambda x, y: torch.topk(x, 5, dim=-1).values,
    "transpose": lambda x, y: x.T,
    "maximum": lambda x, y: torch.maximum(x, y),
}


def softmax_backward(x, y):
    p = torch.softmax(x, dim=-1)
    return p * (y - (y * p).sum(dim=-1, keepdim=True))


def log_softmax_backward(x, y):
    return y - torch.softmax(x, dim=-1) * y.sum(dim=-1, keepdim=True)


def rms_norm(x, y):
    return x * torch.rsqrt((x * x).mean(dim=-1, keepdim=True) + 1e-5)


def rms_norm_backward(x, y):
    r = torch.rsqrt((x * x).mean(dim=-1, keepdim=True) + 1e-5)
    return r * y - x * r**3 * (x * y).mean(dim=-1, keepdim=True)


def layer_norm_backward(x, y):
    centred = x - x.mean(dim=-1, keepdim=True)
    r = torch.rsqrt((centred * centred).mean(dim=-1, keepdim=True) + 1e-5)
    z = centred * r
    return r * (y - y.mean(dim=-1, keepdim=True) - z * (z * y).mean(dim=-1, keepdim=True))


def attention(x, y):
    return torch.softmax(x @ y.T / x.shape[-1] ** 0.5, dim=-1) @ y


SUMS = {
    "sum": lambda x, y: x.sum(dim=-1, keepdim=True),
    "mean": lambda x, y: x.mean(dim=-1, keepdim=True),
    "mean of squares": lambda x, y: (x * x).mean(dim=-1),
    "variance": lambda x, y: torch.var(x, dim=-1, correction=0),
    "standard deviation": lambda x, y: torch.std(x, dim=-1, keepdim=True),
    "l1 norm": lambda x, y: x.abs().sum(dim=-1),
    "l2 norm": lambda x, y: torch.linalg.vector_norm(x, dim=-1, keepdim=True),
    "normalize": lambda x, y: F.normalize(x, dim=-1, eps=1e-6),
    "logsumexp": lambda x, y: torch.logsumexp(x, dim=-1, keepdim=True),
    "softmax": lambda x, y: torch.softmax(x, dim=-1),
    "softmin": lambda x, y: F.softmin(x, dim=-1),
    "log_softmax": lambda x, y: torch.log_softmax(x, dim=-1),
    "softmax backward": softmax_backward,
    "log_softmax backward": log_softmax_backward,
    "rms_norm": rms_norm,
    "rms_norm backward": rms_norm_backward,
    "layer_norm": lambda x, y: F.layer_norm(x, (x.shape[-1],)),
    "layer_norm backward": layer_norm_backward,
    "centred": lambda x, y: x - x.mean(dim=-1, keepdim=True),
    "matmul": lambda x, y: x @ y.T,
    "matmul relu": lambda x, y: torch.relu(x @ y.T),
    "matmul softmax": lambda x, y: torch.softmax(x @ y.T, dim=-1),
    "linear": lambda x, y: F.linear(x, y, y[:, 0]),
    "weighted mean": lambda x, y: (x * y).sum(dim=-1) / (y * y + 1.0).sum(dim=-1),
    "gram": lambda x, y: x.T @ x,
    "attention": attention,
    "dot": lambda x, y: (x * y).sum(dim=-1),
    "mean squared error": lambda x, y: ((x - y) ** 2).mean(dim=-1),
    "cosine similarity": lambda x, y: F.cosine_similarity(x, y, dim=-1, eps=1e-6),
    "entropy": lambda x, y: (torch.softmax(x, -1) * torch.log_softmax(x, -1)).sum(-1, keepdim=True),
    "cumsum": lambda x, y: torch.cumsum(x, dim=-1),
}

INTEGERS = {
    "argmax": lambda x, y: torch.argmax(x, dim=-1, keepdim=True),
    "argsort": lambda x, y: torch.argsort(x, dim=-1, stable=True),
    "greater": lambda x, y: x > y,
    "count": lambda x, y: (x > y).sum(dim=-1),
    "bins": lambda x, y: torch.clamp(torch.floor(x * 10.0), 0, 100).to(torch.int32),
    "quantised": lambda x, y: torch.clamp(torch.round(x / 0.0175), -127, 127).to(torch.int8),
}
