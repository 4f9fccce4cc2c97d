"""What the kernels compute, from the definition, and shapes to judge them on."""

import numpy as np


def softmax(x):
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def rms_norm(x):
    return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5)


def attention(q, k, v):
    return softmax(q.T @ k) @ v


def matmul(a, b):
    return a.T @ b


REFERENCES = {
    "scale": lambda x: 1.5 * x,
    "add": lambda a, b: a + b,
    "relu": lambda x: np.maximum(x, 0.0),
    "row_sum": lambda x: x.sum(axis=1, keepdims=True),
    "softmax": softmax,
    "rms_norm": rms_norm,
    "matmul": matmul,
    "matmul_relu": lambda a, b: np.maximum(a.T @ b, 0.0),
    "transpose": lambda x: x.T,
    "attention": attention,
}

SHAPES = {
    "add": "a=f32[128,256] b=f32[128,256]",
    "matmul": "a=f32[256,128] b=f32[256,512]",
    "matmul_relu": "a=f32[256,64] b=f32[256,256]",
    "transpose": "x=f32[128,64]",
    "attention": "q=f32[64,128] k=f32[64,256] v=f32[256,64]",
}
ROWS = "x=f32[128,256]"
