"""Cross-scores from a causal LM of transformers: log-prob sums of every row's reasoning under every prompt.

One key-value cache a prompt: its tokens are read once, and rows after it in batches of about one length. Memory is
bounded by ``max_tokens``.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from .arrays import as_plain
from .errors import ArgumentError

Ids = Sequence[int]


@dataclass(frozen=True)
class Row:
    """A row to score: ``tokens[start:]`` is the reasoning, what stands before is context after the prompt."""

    tokens: Ids
    start: int = 0

    @property
    def length(self) -> int:
        """Reasoning tokens."""
        return len(self.tokens) - self.start


@dataclass(frozen=True)
class Batch:
    """Rows that go through the model together, after one prompt."""

    prompt: int
    rows: tuple[int, ...]
    #: tokens of the longest
    width: int


def cross_scores(
    model: torch.nn.Module,
    prompts: Sequence[Ids],
    rows: Sequence[Row | Ids],
    *,
    pairs: Mapping[int, Sequence[int] | npt.NDArray[Any]] | None = None,
    temperature: float = 1.0,
    max_tokens: int = 16384,
    cache: bool = True,
    passes: Callable[[int], int] | None = None,
    autocast: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext,
    progress: Callable[[int, int], None] | None = None,
) -> npt.NDArray[np.float64]:
    """Sums of log p(reasoning token | prompt, tokens before) over each row's reasoning, in nats.

    The model is in ``eval()`` and under ``no_grad`` meanwhile, and left as it was. No random number is drawn.

    Args:
        model: causal LM; ``model(input_ids=…)`` gives ``logits``.
        prompts: P lists of token ids, one or more each, without padding.
        rows: R rows, or lists of token ids that are reasoning as a whole.
        pairs: prompt -> rows to score under it (``step.pairs``). Default: all under all.
        temperature: logits are divided by it, as the trainer does.
        max_tokens: most tokens, padding and cached prompt included, that are in memory at once. The logits of at most
            1/8 of them are there together. Bounds the peak; a row that has more alone goes through in pieces.
        cache: False: read the prompt anew with every row, for models whose cache cannot be repeated.
        passes: given the number of forward passes here, says how many to make (FSDP, ZeRO-3: the most of all ranks).
        autocast: context of the forward passes, such as the trainer's.
        progress: called with passes made and passes planned.

    Returns:
        [R, P] float64; NaN where ``pairs`` does not ask, 0 for rows without reasoning tokens.

    Raises:
        ArgumentError: an empty prompt, a row that starts behind its end, indices out of range.

    Source: RAGEN-2 (arXiv 2604.06268), Eq. 1, for what is scored.
    """
    prompts = [as_plain(prompt) for prompt in prompts]
    taken = [Row(as_plain(row.tokens), row.start) if isinstance(row, Row) else Row(as_plain(row)) for row in rows]
    _check(prompts, taken, temperature, max_tokens)
    wanted = _wanted(prompts, taken, pairs)
    scorer = _Scorer(model, prompts, taken, temperature, max_tokens, cache, autocast)
    batches = scorer.plan(wanted)
    sums = np.full((len(taken), len(prompts)), np.nan)
    for prompt, scored in wanted.items():
        for row in scored:
            if taken[row].length == 0:
                sums[row, prompt] = 0.0
    planned = scorer.passes_of(batches)
    total = planned if passes is None else passes(planned)
    if total < planned:
        raise ArgumentError(f"says {total} passes, but {planned} are needed here", "passes")
    # Module by module: some may be in eval() for good.
    training = [module for module in model.modules() if module.training]
    made = 0
    try:
        model.eval()
        with torch.no_grad():
            for batch, values, done in scorer.run(batches):
                made += done
                for row, value in zip(batch.rows, values, strict=True):
                    sums[row, batch.prompt] = value
                if progress is not None:
                    progress(made, total)
            for _ in range(total - made):
                scorer.dummy()
    finally:
        for module in training:
            module.training = True
    return sums


def _check(prompts: Sequence[Ids], rows: Sequence[Row], temperature: float, max_tokens: int) -> None:
    for at, prompt in enumerate(prompts):
        if len(prompt) == 0:
            raise ArgumentError("is empty: a first token needs something to be predicted from", f"prompts[{at}]")
    for at, row in enumerate(rows):
        if not 0 <= row.start <= len(row.tokens):
            raise ArgumentError(f"starts at {row.start} of {len(row.tokens)} tokens", f"rows[{at}]")
    if not temperature > 0:
        raise ArgumentError(f"got {temperature}, expected a number above 0", "temperature")
    if max_tokens < 1:
        raise ArgumentError(f"got {max_tokens}, expected 1 or more", "max_tokens")


def _wanted(
    prompts: Sequence[Ids], rows: Sequence[Row], pairs: Mapping[int, Sequence[int] | npt.NDArray[Any]] | None
) -> dict[int, list[int]]:
    if pairs is None:
        return {prompt: list(range(len(rows))) for prompt in range(len(prompts))}
    wanted = {int(prompt): [int(row) for row in scored] for prompt, scored in sorted(pairs.items())}
    for prompt, scored in wanted.items():
        if not 0 <= prompt < len(prompts):
            raise ArgumentError(f"has prompt {prompt}, expected 0 to {len(prompts) - 1}", "pairs")
        if scored and not (min(scored) >= 0 and max(scored) < len(rows)):
            raise ArgumentError(f"has row {max(scored)} under prompt {prompt}, expected 0 to {len(rows) - 1}", "pairs")
    return wanted


class _Scorer:
    def __init__(
        self,
        model: torch.nn.Module,
        prompts: Sequence[Ids],
        rows: Sequence[Row],
        temperature: float,
        max_tokens: int,
        cache: bool,
        autocast: Callable[[], contextlib.AbstractContextManager[Any]],
    ):
        self._model = model
        self._device = next(model.parameters()).device
        self._prompts = prompts
        self._rows = rows
        self._temperature = temperature
        self._most = max_tokens
        # Logits are the largest thing: of a vocabulary for each token.
        self._piece = max(1, max_tokens // 8)
        # Of recurrent models, whose state is no cache of keys and values.
        self._cached = cache and not getattr(model, "_is_stateful", False)
        self._autocast = autocast
        self._keeps_logits = "logits_to_keep" in inspect.signature(model.forward).parameters
        self._cache_name = _cache_name(model)

    def plan(self, wanted: Mapping[int, list[int]]) -> list[Batch]:
        """Batches by rising prompt; rows of about one length together, the longest first."""
        batches = []
        for prompt, scored in wanted.items():
            rows = sorted((row for row in scored if self._rows[row].length > 0), key=self._by_length)
            before = len(self._prompts[prompt])
            while rows:
                width = len(self._rows[rows[0]].tokens)
                count = max(1, min(len(rows), self._most // (before + width)))
                batches.append(Batch(prompt, tuple(rows[:count]), width))
                rows = rows[count:]
        return batches

    def _by_length(self, row: int) -> tuple[int, int]:
        return -len(self._rows[row].tokens), row

    def passes_of(self, batches: Sequence[Batch]) -> int:
        """Forward passes that ``run`` makes: the same on every rank that has the same plan."""
        passes, prompt = 0, None
        for batch in batches:
            if self._cached and batch.prompt != prompt:
                passes += self._pieces(1, len(self._prompts[batch.prompt]) - 1)
            prompt = batch.prompt
            width = batch.width + (0 if self._cached else len(self._prompts[prompt]) - 1)
            passes += self._pieces(len(batch.rows), width)
        return passes

    def _pieces(self, rows: int, width: int) -> int:
        return -(-width // self._piece_of(rows))

    def _piece_of(self, rows: int) -> int:
        """Tokens of each of so many rows that go through at once."""
        return max(1, self._piece // rows)

    def run(self, batches: Sequence[Batch]) -> Iterator[tuple[Batch, list[float], int]]:
        """Each batch with its sums and the passes that were made for it."""
        prompt, prefix = None, None
        for batch in batches:
            passes = 0
            if self._cached and batch.prompt != prompt:
                prefix, passes = self._read_prompt(batch.prompt)
                prompt = batch.prompt
            sums, made = self._score(batch, prefix)
            yield batch, sums, passes + made

    def _read_prompt(self, prompt: int) -> tuple[Any, int]:
        """Cache of a prompt but for its last token, from which the first of each row is predicted."""
        ids = self._prompts[prompt][:-1]
        if len(ids) == 0:
            return None, 0
        past, passes = None, 0
        step = self._piece_of(1)
        for first in range(0, len(ids), step):
            piece = torch.tensor([list(ids[first : first + step])], device=self._device)
            output = self._forward(piece, past, keep=1 if self._keeps_logits else None)
            past = getattr(output, self._cache_name)
            passes += 1
        return past, passes

    def _score(self, batch: Batch, prefix: Any) -> tuple[list[float], int]:
        prompt = self._prompts[batch.prompt]
        lead = list(prompt[-1:]) if self._cached else list(prompt)
        width = len(lead) - 1 + batch.width
        inputs = torch.zeros(len(batch.rows), width, dtype=torch.long)
        targets = torch.zeros_like(inputs)
        counted = torch.zeros(inputs.shape, dtype=torch.bool)
        for at, row in enumerate(batch.rows):
            tokens, start = list(self._rows[row].tokens), self._rows[row].start
            ids = torch.tensor(lead + tokens)
            inputs[at, : len(ids) - 1] = ids[:-1]
            targets[at, : len(ids) - 1] = ids[1:]
            counted[at, len(lead) - 1 + start : len(ids) - 1] = True
        inputs, targets, counted = (each.to(self._device) for each in (inputs, targets, counted))
        # Padding stands on the right, where no token that counts looks: no mask is needed.
        past = None if prefix is None else _repeated(prefix, len(batch.rows))
        sums = torch.zeros(len(batch.rows), dtype=torch.float64, device=self._device)
        step = self._piece_of(len(batch.rows))
        passes = 0
        for first in range(0, width, step):
            piece = slice(first, first + step)
            output = self._forward(inputs[:, piece], past, use_cache=first + step < width)
            past = getattr(output, self._cache_name, None)
            passes += 1
            logits = output.logits.float() / self._temperature
            chosen = logits.gather(-1, targets[:, piece, None]).squeeze(-1)
            logprobs = chosen - logits.logsumexp(-1)
            # Selected, not multiplied: padding may be anything.
            sums += torch.where(counted[:, piece], logprobs, 0.0).double().sum(-1)
            del output, logits
        return sums.tolist(), passes

    def _forward(self, ids: torch.Tensor, past: Any, use_cache: bool = True, keep: int | None = None) -> Any:
        given = {self._cache_name: past} | ({} if keep is None else {"logits_to_keep": keep})
        with self._autocast():
            return self._model(input_ids=ids, use_cache=use_cache or past is not None, **given)

    def dummy(self) -> None:
        """A pass that means nothing, for ranks that must make as many as the others."""
        self._forward(torch.zeros(1, 1, dtype=torch.long, device=self._device), None, use_cache=False)


def _cache_name(model: torch.nn.Module) -> str:
    """What the model calls its cache, as an argument and in its output: ``cache`` from transformers 5.24 on."""
    parameters = inspect.signature(model.forward).parameters
    for name in ("past_key_values", "cache"):
        if name in parameters:
            return name
    # A wrapper, such as PEFT's, hands on what it is given.
    with contextlib.suppress(ImportError):
        from transformers.modeling_outputs import CausalLMOutputWithPast

        if "cache" in CausalLMOutputWithPast.__dataclass_fields__:
            return "cache"
    return "past_key_values"


def _repeated(cache: Any, times: int) -> Any:
    """A copy of a cache of one row for so many: a forward pass adds to the one it is given."""
    copied = copy.deepcopy(cache)
    if times > 1:
        copied.batch_repeat_interleave(times)
    return copied
