"""Constants of kernels as tensors, made once and kept where the kernels run."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from trnfft._kernels.dft_constants import stft_constants
from trnfft._recipe import Array, Recipe
from trnsci.core.constants import Constants
from trnsci.core.device import neuron_device

__all__ = ["constants", "forget_tables", "frame_matrices"]


def constants(found: Recipe, path: str, dtype: torch.dtype = torch.float32) -> tuple[Tensor, ...]:
    """Return the constants of a recipe in the memory that a launch on ``path`` reads."""
    return _RECIPES(found, _home(path), dtype)


def frame_matrices(
    window: Tensor, onesided: bool, scale: float, path: str, dtype: torch.dtype
) -> tuple[Tensor, ...]:
    """Return the DFT matrices of frames with the window and the scale in them.

    The values of the window are their key: a tensor may be written to, or be another one at the
    same address.
    """
    values = window.detach().cpu().double().numpy()
    return _FRAMES((values.tobytes(), onesided, scale), _home(path), dtype)


def forget_tables() -> None:
    """Forget all tensors that are kept."""
    _RECIPES.clear()
    _FRAMES.clear()


def _home(path: str) -> torch.device:
    device = neuron_device() if path == "nki" else None
    return torch.device("cpu") if device is None else device.torch_device


def _of_recipe(found: Recipe) -> tuple[Array, ...]:
    return found.constants


def _of_frames(key: tuple[bytes, bool, float]) -> list[Array]:
    window, onesided, scale = key
    matrices = stft_constants(np.frombuffer(window), onesided, scale)
    return [matrix.astype(np.float32) for matrix in matrices]


_RECIPES: Constants[Recipe] = Constants(_of_recipe)
_FRAMES: Constants[tuple[bytes, bool, float]] = Constants(_of_frames)
