"""Tensors of torch as arrays of NumPy, and back."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch  # type: ignore

from bitstep_gradients.vectors import BFloat16

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def check_tensor(tensor) -> None:
    """Raise TypeError unless a tensor is dense and holds floats."""
    if tensor.layout != torch.strided:
        raise TypeError(f"gradients must be dense, but one of shape {tuple(tensor.shape)} is "
                        f"{tensor.layout}; make its layer with sparse=False")
    if tensor.dtype not in FLOATS:
        raise TypeError("gradients must be of float16, bfloat16, float32 or float64, not "
                        f"{tensor.dtype}")


def to_vector(tensor) -> "np.ndarray | BFloat16":
    """Values of a dense tensor of floats, on the CPU; those of a CPU tensor are not copied."""
    values = tensor.detach().cpu().contiguous()
    if tensor.dtype == torch.bfloat16:
        return BFloat16(values.view(torch.int16).numpy().view(np.uint16))
    return values.numpy()


def in_range(values, dtype):
    """Values of float32, clipped to the largest number of a type of 16 bits: dithers go beyond it
    where a gradient is near it.
    """
    if dtype not in (torch.float16, torch.bfloat16):
        return values
    most = torch.finfo(dtype).max
    return values.clamp(-most, most)


def tensors_of(state: Any) -> Any:
    """A state whose arrays are tensors: ``torch.save`` and ``torch.load`` take it as it is."""
    if isinstance(state, Mapping):
        return {name: tensors_of(one) for name, one in state.items()}
    if isinstance(state, (list, tuple)):
        return [tensors_of(one) for one in state]
    if isinstance(state, np.ndarray):
        return torch.from_numpy(state.copy())
    return state.item() if isinstance(state, np.generic) else state


def arrays_of(state: Any) -> Any:
    """A state whose tensors are arrays."""
    if isinstance(state, Mapping):
        return {name: arrays_of(one) for name, one in state.items()}
    if isinstance(state, (list, tuple)):
        return [arrays_of(one) for one in state]
    if isinstance(state, torch.Tensor):
        return state.detach().cpu().numpy().copy()
    return state
