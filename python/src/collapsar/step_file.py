"""Step files: a step with its cross-scores, as docs/reference/step-file.md describes it."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .arrays import as_array
from .errors import ArgumentError

_DTYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32", "uint8": "U8"}


def write_step(
    path: str | os.PathLike[str],
    step: int,
    sums: npt.ArrayLike,
    *,
    lengths: Sequence[int],
    group: Sequence[int],
    prompts: Sequence[Sequence[int]],
    rewards: Sequence[float] | None = None,
    valid: Sequence[bool] | None = None,
    environments: Sequence[str | None] | None = None,
    run: str | None = None,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes a step file, whole or not at all.

    Args:
        path: ``….safetensors``.
        step: number of the training step.
        sums: [R, P] log p(reasoning of row | prompt), nats; ``collapsar.hf.cross_scores`` gives them.
        lengths: [R] reasoning tokens.
        group: [R] prompt of each row: index of a column.
        prompts: P lists of token ids.
        rewards: [R].
        valid: [R] the reasoning was well formed.
        environments: [R] name of the environment, task or data source of each row's prompt; None where it has none.
        run: name of the run. Default: that of the folder.
        metadata: anything else: ``temperature``, ``model``, …
    """
    scores = np.ascontiguousarray(as_array(sums, np.float64))
    if scores.shape != (len(lengths), len(prompts)):
        raise ArgumentError(f"got shape {list(scores.shape)}, expected {[len(lengths), len(prompts)]}", "sums")
    ids = np.full((len(prompts), max(map(len, prompts))), -1, dtype=np.int64)
    for at, prompt in enumerate(prompts):
        ids[at, : len(prompt)] = as_array(prompt)
    tensors = {
        "cross_logprob_sums": scores,
        "lengths": as_array(lengths, np.int64),
        "group": as_array(group, np.int64),
        "prompt_ids": ids,
        "prompt_lengths": np.asarray([len(prompt) for prompt in prompts], dtype=np.int64),
    }
    if rewards is not None:
        tensors["rewards"] = as_array(rewards, np.float64)
    if valid is not None:
        tensors["valid"] = as_array(valid, np.uint8)
    named: dict[str, str] = {}
    if environments is not None:
        names = sorted({str(name) for name in environments if name is not None})
        number = {name: at for at, name in enumerate(names)}
        ids = [-1 if name is None else number[str(name)] for name in environments]
        tensors["environment"] = np.asarray(ids, dtype=np.int32)
        named = {"environment_names": json.dumps(names)}
    described = dict(metadata or {}) | named | {"step": str(int(step))} | ({} if run is None else {"run": run})
    target = Path(path)
    temporary = target.with_name(target.name + ".tmp")
    try:
        with temporary.open("wb") as file:
            write_safetensors(file, tensors, described)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def write_safetensors(
    file: Any,
    tensors: Mapping[str, npt.NDArray[Any]],
    metadata: Mapping[str, str],
    bfloat16: Collection[str] = (),
) -> None:
    """Writes named arrays into an open file; those named in ``bfloat16`` hold its bits as unsigned integers.

    Raises:
        ArgumentError: an array of another type.
    """
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    place = 0
    for name, array in tensors.items():
        dtype = "BF16" if name in bfloat16 else _DTYPES.get(str(array.dtype))
        if dtype is None:
            raise ArgumentError(f"got {array.dtype}, expected {', '.join(_DTYPES)}", name)
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [place, place + array.nbytes]}
        place += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for array in tensors.values():
        np.ascontiguousarray(array).tofile(file)
