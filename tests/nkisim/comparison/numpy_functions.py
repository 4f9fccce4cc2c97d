"""Functions of NumPy of x, y [8, 40], and definitions of all functions with a sum."""

import numpy as np

ELEMENTWISE = {
    "np.expm1": lambda x, y: np.expm1(x),
    "np.arctan2": lambda x, y: np.arctan2(x, y * y + 1.0),
    "np.sort": lambda x, y: np.sort(x, axis=-1),
    "np.maximum.accumulate": lambda x, y: np.maximum.accumulate(x, axis=-1),
}


def softmax(x, y):
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


SUMS = {
    "np.mean": lambda x, y: np.mean(x, axis=-1),
    "np.std": lambda x, y: np.std(x, axis=-1),
    "np.softmax": softmax,
    "np.cumsum": lambda x, y: np.cumsum(x, axis=-1),
    "np.matmul": lambda x, y: np.matmul(x, y.T),
    "np.linalg.norm": lambda x, y: np.linalg.norm(x, axis=-1),
}


def _powers(x):
    return np.exp(x - x.max(axis=-1, keepdims=True))


def _p(x, total):
    powers = _powers(x)
    return powers / total(powers)


def _log_p(x, total):
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(total(np.exp(shifted)))


def _mean(x, total):
    return total(x) / x.shape[-1]


def _var(x, total):
    return _mean((x - _mean(x, total)) ** 2, total)


def _product(x, y, total):
    """Return x @ y.T."""
    return total(x[:, None, :] * y[None, :, :])[..., 0]


def _rms(x, total):
    return 1.0 / np.sqrt(_mean(x * x, total) + 1e-5)


def _layer_norm_backward(x, y, total):
    centred = x - _mean(x, total)
    r = 1.0 / np.sqrt(_mean(centred * centred, total) + 1e-5)
    z = centred * r
    return r * (y - _mean(y, total) - z * _mean(z * y, total))


def _attention(x, y, total):
    return _product(_p(_product(x, y, total) / np.sqrt(x.shape[-1]), np_total), y.T, np_total)


def _cumsum(x, total):
    return np.concatenate([total(x[..., : n + 1]) for n in range(x.shape[-1])], axis=-1)


def np_total(terms):
    return terms.sum(axis=-1, keepdims=True)


def half(terms):
    return terms[..., : (terms.shape[-1] + 1) // 2].sum(axis=-1, keepdims=True)


def one_less(terms):
    return terms[..., : max(terms.shape[-1] - 1, 1)].sum(axis=-1, keepdims=True)


DEFINITIONS = {
    "sum": lambda x, y, t: t(x),
    "mean": lambda x, y, t: _mean(x, t),
    "mean of squares": lambda x, y, t: _mean(x * x, t)[..., 0],
    "variance": lambda x, y, t: _var(x, t)[..., 0],
    "standard deviation": lambda x, y, t: np.sqrt(_var(x, t) * x.shape[-1] / (x.shape[-1] - 1)),
    "l1 norm": lambda x, y, t: t(np.abs(x))[..., 0],
    "l2 norm": lambda x, y, t: np.sqrt(t(x * x)),
    "normalize": lambda x, y, t: x / np.maximum(np.sqrt(t(x * x)), 1e-6),
    "logsumexp": lambda x, y, t: np.log(t(_powers(x))) + x.max(axis=-1, keepdims=True),
    "softmax": lambda x, y, t: _p(x, t),
    "softmin": lambda x, y, t: _p(-x, t),
    "log_softmax": lambda x, y, t: _log_p(x, t),
    "softmax backward": lambda x, y, t: _p(x, np_total) * (y - t(y * _p(x, np_total))),
    "log_softmax backward": lambda x, y, t: y - _p(x, np_total) * t(y),
    "rms_norm": lambda x, y, t: x * _rms(x, t),
    "rms_norm backward": lambda x, y, t: _rms(x, t) * y - x * _rms(x, t) ** 3 * _mean(x * y, t),
    "layer_norm": lambda x, y, t: (x - _mean(x, t)) / np.sqrt(_var(x, t) + 1e-5),
    "layer_norm backward": _layer_norm_backward,
    "centred": lambda x, y, t: x - _mean(x, t),
    "matmul": _product,
    "matmul relu": lambda x, y, t: np.maximum(_product(x, y, t), 0.0),
    "matmul softmax": lambda x, y, t: _p(_product(x, y, t), np_total),
    "linear": lambda x, y, t: _product(x, y, t) + y[:, 0],
    "weighted mean": lambda x, y, t: (t(x * y) / t(y * y + 1.0))[..., 0],
    "gram": lambda x, y, t: _product(x.T, x.T, t),
    "attention": _attention,
    "dot": lambda x, y, t: t(x * y)[..., 0],
    "mean squared error": lambda x, y, t: _mean((x - y) ** 2, t)[..., 0],
    "cosine similarity": lambda x, y, t: (
        t(x * y) / (np.maximum(np.sqrt(t(x * x)), 1e-6) * np.maximum(np.sqrt(t(y * y)), 1e-6))
    )[..., 0],
    "entropy": lambda x, y, t: t(_p(x, np_total) * _log_p(x, np_total)),
    "cumsum": lambda x, y, t: _cumsum(x, t),
    "count": lambda x, y, t: t((x > y).astype(np.float64))[..., 0],
    "np.mean": lambda x, y, t: _mean(x, t)[..., 0],
    "np.std": lambda x, y, t: np.sqrt(_var(x, t))[..., 0],
    "np.softmax": lambda x, y, t: _p(x, t),
    "np.cumsum": lambda x, y, t: _cumsum(x, t),
    "np.matmul": _product,
    "np.linalg.norm": lambda x, y, t: np.sqrt(t(x * x))[..., 0],
}
