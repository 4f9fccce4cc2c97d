"""Cache of kernel constants as tensors, in the memory of the device that runs the kernels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.compiler import is_compiling
from torch.nn import Parameter

from trnfft._kernels.angles import roots
from trnfft._kernels.dft_constants import stft_constants
from trnfft._planning.doublefloat import DoublefloatPlan
from trnfft._planning.recipe import Array, Recipe
from trnsci.core.backend.device import neuron_device
from trnsci.core.numbers.constants import Constants
from trnsci.core.numbers.conversions import real_dtype


def constants(found: Recipe, path: str, dtype: torch.dtype = torch.float32) -> tuple[Tensor, ...]:
    """Return the constants of a recipe on the device of a launch on ``path``."""
    return _RECIPES(found, _home(path), dtype)


def frame_matrices(
    window: Tensor, onesided: bool, scale: float, path: str, dtype: torch.dtype
) -> tuple[Tensor, ...]:
    """Return the DFT matrices of frames, multiplied by the window and the scale.

    The cache key is the window's values, since a tensor may be modified in place.
    """
    values = window.detach().cpu().double().numpy()
    return _FRAMES((values.tobytes(), onesided, scale), _home(path), dtype)


def doublefloat_constants(found: DoublefloatPlan, path: str) -> tuple[Tensor, Tensor]:
    """Return the matrices and the tables of a plan on the device of a launch on ``path``."""
    home = _home(path)
    return *_MATRICES(found, home, torch.bfloat16), *_PLANES(found, home)  # type: ignore


def hann_window(length: int, like: Tensor) -> Tensor:
    """Return the periodic Hann window in the precision and on the device of ``like``."""
    dtype = real_dtype(like.dtype)
    if cacheable(like):
        return _WINDOWS(length, like.device, dtype)[0]
    return torch.hann_window(length, periodic=True, dtype=dtype, device=like.device)


def cacheable(like: Tensor) -> bool:
    """Return whether a computation with ``like`` may use a cached tensor.

    A traced graph must create its own.
    """
    return type(like) in _PLAIN and not is_compiling()


def clear_tables() -> None:
    """Clear the caches."""
    _RECIPES.clear()
    _FRAMES.clear()
    _MATRICES.clear()
    _PLANES.clear()
    _WINDOWS.clear()


def _home(path: str) -> torch.device:
    device = neuron_device() if path == "nki" else None
    return torch.device("cpu") if device is None else device.torch_device


def _of_recipe(found: Recipe) -> tuple[Array, ...]:
    return found.constants


def _of_frames(key: tuple[bytes, bool, float]) -> list[Array]:
    window, onesided, scale = key
    matrices = stft_constants(np.frombuffer(window), onesided, scale)
    return [matrix.astype(np.float32) for matrix in matrices]


def _of_window(length: int) -> list[npt.NDArray[np.float64]]:
    if length == 1:  # the formula gives a window of 0; torch and SciPy return 1
        return [np.ones(1)]
    cosine, _ = roots(length, np.arange(length, dtype=np.int64))
    return [0.5 - 0.5 * cosine]


_PLAIN = (Tensor, Parameter)
_RECIPES: Constants[Recipe] = Constants(_of_recipe)
_FRAMES: Constants[tuple[bytes, bool, float]] = Constants(_of_frames)
_MATRICES: Constants[DoublefloatPlan] = Constants(lambda found: [found.matrices()])
_PLANES: Constants[DoublefloatPlan] = Constants(lambda found: [found.tables()])
_WINDOWS: Constants[int] = Constants(_of_window, most_bytes=16 << 20)
