"""`collapsar export FILE…`: pickled rollouts of trainers as JSON lines, Parquet or step files for `collapsar analyze`.

Step files have cross-scores, which a model of transformers takes (``--model``): the weights that sampled the step.

A pickle can run any code when it is loaded. What torch can load without that (``weights_only``) is loaded so; anything
else only with ``--trust-pickle``, for files that you wrote yourself.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

from .errors import ArgumentError, CollapsarError
from .slime import environment_of, executions_of
from .spans import SpanFinder, tags_of
from .step_file import write_step
from .watching import numbered

TRUST = (
    "it holds objects that only a pickle can bring back, which may run any code of whoever wrote it: give "
    "--trust-pickle if you wrote it yourself"
)


def export(paths: Iterable[str | os.PathLike[str]], out: str | os.PathLike[str], trust_pickle: bool = False) -> int:
    """Writes the rollouts of files as rows of step, group, prompt, output, tokens, reward, …

    Args:
        paths: ``.pt`` of slime; ``.pkl`` and ``.pt`` of verl, RAGEN and SkyRL (DataProto and training batches, or
            dictionaries of columns).
        out: a file to make, ``.jsonl`` or ``.parquet`` (needs pyarrow).
        trust_pickle: load what only a pickle can bring back.

    Returns:
        Rows written.

    Raises:
        CollapsarError: a file that cannot be read, or has no rollouts; nothing is written then.
    """
    target = Path(out)
    if target.suffix not in (".jsonl", ".parquet"):
        raise ArgumentError(f"got {target.name}, expected a name that ends in .jsonl or .parquet", "out")
    temporary = target.with_name(target.name + ".tmp")
    rows = (row for path in paths for row in rows_of(Path(path), trust_pickle))
    try:
        count = _write_parquet(temporary, rows) if target.suffix == ".parquet" else _write_lines(temporary, rows)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return count


def export_steps(
    paths: Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    model: Any,
    tokenizer: Any,
    *,
    trust_pickle: bool = False,
    tags: tuple[str, str] | Literal["auto"] | None = "auto",
    temperature: float = 1.0,
    max_tokens: int = 16384,
    name: str | None = None,
) -> list[Path]:
    """Scores the rollouts of files and writes a step file for each step.

    Args:
        paths: as for ``export``; rows need token ids and groups.
        out: a folder, made where it is not there.
        model: causal LM of transformers that sampled them.
        tokenizer: of the model.
        trust_pickle: load what only a pickle can bring back.
        tags: what opens and closes the reasoning; None: the whole response; ``"auto"``: ``<think>``, ``</think>`` where
            the tokenizer or its chat template has them.
        temperature: of the sampling.
        max_tokens: bounds the memory of scoring (``collapsar.hf.cross_scores``).
        name: of the model, for the files' metadata.

    Returns:
        The files, by step.

    Raises:
        CollapsarError: a file that cannot be read, or a step that cannot be scored.
    """
    steps: dict[int, list[dict[str, Any]]] = {}
    for path in paths:
        for row in rows_of(Path(path), trust_pickle):
            steps.setdefault(row["step"], []).append(row)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    finder = SpanFinder(tokenizer, tags_of(tokenizer) if tags == "auto" else tags)
    written = []
    for step, rows in sorted(steps.items()):
        target = folder / f"step_{step:05d}.safetensors"
        described = {"temperature": str(temperature), "scored_by": "collapsar.export"}
        _write_step(target, step, rows, finder, model, temperature, max_tokens, described | _named(name))
        written.append(target)
    return written


def _named(model: str | None) -> dict[str, str]:
    return {} if model is None else {"model": model}


def _write_step(
    path: Path,
    step: int,
    rows: list[dict[str, Any]],
    finder: SpanFinder,
    model: Any,
    temperature: float,
    max_tokens: int,
    metadata: dict[str, str],
) -> None:
    from .hf import Row, cross_scores

    for name in ("group", "tokens", "prompt_tokens"):
        missing = next((at for at, row in enumerate(rows) if not row.get(name) and row.get(name) != 0), None)
        if missing is not None:
            raise CollapsarError(f"step {step}, row {missing}: has no {name}, and cannot be scored", "ERR_FILE")
    group = numbered([row["group"] for row in rows])
    prompts: list[list[int]] = []
    for at, (of, row) in enumerate(zip(group, rows, strict=True)):
        if of == len(prompts):
            prompts.append(row["prompt_tokens"])
        elif prompts[of] != row["prompt_tokens"]:
            raise CollapsarError(f"step {step}, row {at}: has another prompt than its group's first row", "ERR_FILE")
    spans = [finder.find(row["tokens"], row["prompt_tokens"]) for row in rows]
    scored = [Row(row["tokens"][: span.end], span.start) for row, span in zip(rows, spans, strict=True)]
    rewards = [row["reward"] for row in rows if "reward" in row]
    write_step(
        path,
        step,
        cross_scores(model, prompts, scored, temperature=temperature, max_tokens=max_tokens),
        lengths=[span.length for span in spans],
        group=group,
        prompts=prompts,
        rewards=rewards if len(rewards) == len(rows) else None,
        valid=[span.valid for span in spans],
        environments=[row.get("environment") for row in rows] if any("environment" in row for row in rows) else None,
        metadata=metadata,
    )


def rows_of(path: Path, trust_pickle: bool = False) -> Iterator[dict[str, Any]]:
    """Rows of one file."""
    data = _load(path, trust_pickle)
    step = _step_of(path, data)
    count = 0
    for row in _slime_rows(data) if _is_slime(data) else _batch_rows(path, data):
        count += 1
        yield {"step": step} | {name: value for name, value in row.items() if value is not None}
    if count == 0:
        raise CollapsarError(f"{path}: has no rollouts", "ERR_FILE")


def _load(path: Path, trust_pickle: bool) -> Any:
    if not path.is_file():
        raise CollapsarError(f"{path}: there is no such file", "ERR_FILE")
    is_torch = path.suffix in (".pt", ".pth", ".bin") or path.read_bytes()[:2] == b"PK"
    try:
        if not is_torch:
            if not trust_pickle:
                raise CollapsarError(f"{path}: {TRUST}", "ERR_FILE")
            with path.open("rb") as file:
                return pickle.load(file)
        import torch

        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError:
            if not trust_pickle:
                raise CollapsarError(f"{path}: {TRUST}", "ERR_FILE") from None
        return torch.load(path, map_location="cpu", weights_only=False)
    except (EOFError, ValueError, RuntimeError, ModuleNotFoundError, AttributeError, pickle.UnpicklingError) as error:
        raise CollapsarError(f"{path}: cannot be loaded: {type(error).__name__}: {error}", "ERR_FILE") from error


def _step_of(path: Path, data: Any) -> int:
    """What the file says, or the last number of its name."""
    if isinstance(data, Mapping):
        for name in ("rollout_id", "step", "global_step", "global_steps"):
            if isinstance(data.get(name), int):
                return int(data[name])
    numbers = re.findall(r"\d+", path.stem)
    return int(numbers[-1]) if numbers else 0


# ---- slime


def _is_slime(data: Any) -> bool:
    return isinstance(data, Mapping) and isinstance(data.get("samples"), (list, tuple))


def _slime_rows(data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    samples = [
        SimpleNamespace(**(sample if isinstance(sample, Mapping) else vars(sample))) for sample in data["samples"]
    ]
    for sample in samples:
        sample.group_index = getattr(sample, "group_index", None)
    executions = executions_of(samples)
    sizes, turns = Counter(executions), Counter[Any]()
    for sample, execution in zip(samples, executions, strict=True):
        tokens, length = list(getattr(sample, "tokens", None) or ()), int(getattr(sample, "response_length", 0) or 0)
        cut = len(tokens) - length
        reward = getattr(sample, "reward", None)
        status = getattr(sample, "status", "completed")
        prompt = getattr(sample, "prompt", None)
        # Of an execution that was split into several samples, these are its turns.
        is_turn = sizes[execution] > 1
        yield {
            "group": sample.group_index,
            "sample": getattr(sample, "index", None) if not is_turn else None,
            "episode": sample.rollout_id if is_turn else None,
            "turn": turns[execution] if is_turn else None,
            "prompt": prompt if isinstance(prompt, str) else None,
            "prompt_tokens": tokens[:cut],
            "output": getattr(sample, "response", None),
            "tokens": tokens[cut:],
            "reward": next(iter(reward.values()), None) if isinstance(reward, Mapping) else reward,
            "truncated": str(getattr(status, "value", status)) == "truncated",
            "environment": environment_of(sample),
        }
        turns[execution] += 1


# ---- verl, RAGEN, SkyRL


def _batch_rows(path: Path, data: Any) -> Iterator[dict[str, Any]]:
    """Columns of a DataProto (``batch``, ``non_tensor_batch``), of a training batch, or of a dictionary."""
    columns: dict[str, Any] = {}
    for part in (getattr(data, "batch", None), getattr(data, "non_tensor_batch", None), data):
        if isinstance(part, Mapping) or hasattr(part, "keys"):
            columns |= {str(name): part[name] for name in part.keys()}  # type: ignore[union-attr, index] # noqa: SIM118
    metadata = getattr(data, "metadata", None) or {}
    columns |= {name: metadata[name] for name in ("uids",) if name in metadata}
    responses = _column(columns, "responses", "response_ids")
    if responses is None:
        found = ", ".join(sorted(columns)) or type(data).__name__
        raise CollapsarError(f"{path}: has no responses, but {found}", "ERR_FILE")
    masks = _column(columns, "response_mask", "loss_mask", "loss_masks")
    prompts = _column(columns, "prompts", "prompt_token_ids")
    attention = _column(columns, "attention_mask")
    rewards = _column(columns, "rm_scores", "token_level_scores", "rewards", "reward")
    groups = _column(columns, "uid", "uids", "group_ids")
    environments = _column(columns, "data_source", "data_sources", "environment", "env_tags")
    for at, response in enumerate(responses):
        width = len(prompts[at]) if prompts is not None else 0
        seen = attention[at] if attention is not None and len(attention[at]) == width + len(response) else None
        real = seen[width:] if seen is not None else masks[at] if masks is not None else [1] * len(response)
        prompt = None
        if prompts is not None:
            prompt = [token for token, own in zip(prompts[at], seen or [1] * width, strict=False) if own]
        yield {
            "group": None if groups is None else groups[at],
            "prompt_tokens": prompt,
            "tokens": [token for token, own in zip(response, real, strict=False) if own],
            "reward": None if rewards is None else _total(rewards[at]),
            "environment": None if environments is None or environments[at] is None else str(environments[at]),
        }


def _column(columns: Mapping[str, Any], *names: str) -> list[Any] | None:
    for name in names:
        if name in columns:
            values = columns[name]
            return list(values.tolist()) if hasattr(values, "tolist") else list(values)
    return None


def _total(reward: Any) -> float:
    return float(sum(reward)) if isinstance(reward, (list, tuple)) else float(reward)


# ---- writing


def _write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
            count += 1
    return count


def _write_parquet(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    try:
        import pyarrow  # type: ignore[import-untyped, unused-ignore]
        import pyarrow.parquet  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise ArgumentError("Parquet needs pyarrow: pip install pyarrow, or write .jsonl", "out") from None
    table = pyarrow.Table.from_pylist(list(rows))
    pyarrow.parquet.write_table(table, path)
    return int(table.num_rows)


def main(arguments: list[str]) -> int:
    """The command `collapsar export`."""
    parser = argparse.ArgumentParser(prog="collapsar export", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="+", metavar="FILE", help=".pt or .pkl of slime, verl, RAGEN or SkyRL")
    parser.add_argument(
        "--out", required=True, help="file to make: .jsonl, or .parquet (needs pyarrow); with --model, a folder"
    )
    parser.add_argument("--trust-pickle", action="store_true", help="load what only a pickle can bring back")
    parser.add_argument("--model", help="score with this model of transformers, and write step files")
    parser.add_argument("--temperature", type=float, default=1.0, help="of the sampling (default: 1)")
    parser.add_argument("--max-tokens", type=int, default=16384, help="bounds the memory of scoring (default: 16384)")
    given = parser.parse_args(arguments)
    try:
        if given.model is None:
            said = f"{export(given.files, given.out, given.trust_pickle)} rows"
        else:
            said = f"{len(_export_with(given))} step files"
    except (CollapsarError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{given.out}: {said}", file=sys.stderr)
    return 0


def _export_with(given: argparse.Namespace) -> list[Path]:
    try:
        import torch
        import transformers
    except ImportError as error:
        raise ArgumentError(f"needs torch and transformers ({error})", "--model") from error
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(given.model, dtype="auto")
    return export_steps(
        given.files,
        given.out,
        model.to(device),
        transformers.AutoTokenizer.from_pretrained(given.model),
        trust_pickle=given.trust_pickle,
        temperature=given.temperature,
        max_tokens=given.max_tokens,
        name=given.model,
    )
