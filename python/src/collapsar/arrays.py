"""Tensors of any library as numpy's arrays: torch's (bfloat16, on a GPU, with gradients), JAX's, all with DLPack."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def is_tensor(values: Any) -> bool:
    """Whether this is an array of a library, numpy's included, and not a list, a number or a text."""
    return hasattr(values, "__dlpack__") or (hasattr(values, "__array__") and hasattr(values, "dtype"))


def as_array(values: Any, dtype: npt.DTypeLike = None) -> npt.NDArray[Any]:
    """Gives an array in this process's memory, without a copy where it lies there and has the dtype.

    Gradients are left behind. bfloat16, which numpy does not have, becomes float32 without loss. Of a list, each entry
    may be a tensor.
    """
    array, is_bfloat16 = as_stored(values)
    if is_bfloat16:
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array if dtype is None else array.astype(dtype, copy=False)


def as_stored(values: Any) -> tuple[npt.NDArray[Any], bool]:
    """Gives the array, and whether it holds the bits of bfloat16, as unsigned integers of 16 bits."""
    if hasattr(values, "detach"):  # torch
        tensor = values.detach().cpu()
        if str(tensor.dtype) == "torch.bfloat16":
            import torch

            return tensor.contiguous().view(torch.int16).numpy().view(np.uint16), True
        return tensor.numpy(), False
    if isinstance(values, (list, tuple)):
        entries = [as_array(entry) if is_tensor(entry) else entry for entry in values]
        return np.asarray(entries), False
    if not hasattr(values, "__array__") and hasattr(values, "__dlpack__"):
        return np.from_dlpack(values), False
    array = np.asarray(values)
    return (array.view(np.uint16), True) if array.dtype.name == "bfloat16" else (array, False)


def as_plain(values: Any) -> Any:
    """The same with tensors as lists of Python's numbers, at any depth; texts, numbers and None stay."""
    if is_tensor(values):
        return as_array(values).tolist()
    if isinstance(values, (list, tuple)) and not (values and isinstance(values[0], (int, float, str))):
        return [as_plain(entry) for entry in values]
    return values
