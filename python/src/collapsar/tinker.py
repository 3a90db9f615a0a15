"""Tinker: one line, an evaluator that samples some prompts and scores every sample under each of them.

    config = Config(..., evaluator_builders=[collapsar.tinker.evaluator(prompts)])

``prompts`` are lists of token ids, 8 to 32 of the training set; figures appear among the evaluator's metrics. The
reasoning is found with the tokenizer of the sampling client.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import ArgumentError, CollapsarError
from .spans import Span
from .watching import Rollouts, SavedWatching, logger


def evaluator(
    prompts: Sequence[Sequence[int]],
    *,
    samples: int = 8,
    max_tokens: int = 512,
    temperature: float = 1.0,
    most_at_once: int = 64,
    environments: Sequence[str | None] | None = None,
    **options: Any,
) -> Callable[[], Evaluator]:
    """A builder for ``Config.evaluator_builders``.

    Args:
        prompts: P lists of token ids, at least two.
        samples: completions of each prompt.
        max_tokens: of a completion.
        temperature: of sampling. Scores are log-probs at temperature 1, as ``compute_logprobs`` gives them.
        most_at_once: requests under way at once.
        environments: P names, of the environment that each prompt is of.
        options: of ``collapsar.watching.Watching``, and ``state``, a file.
    """
    if len(prompts) < 2 or any(len(prompt) == 0 for prompt in prompts):
        raise ArgumentError("expected two prompts or more, none of them empty", "prompts")
    if environments is not None and len(environments) != len(prompts):
        raise ArgumentError(f"got {len(environments)} for {len(prompts)} prompts", "environments")
    watching = SavedWatching(**{"every": 1} | options)
    taken = [[int(token) for token in prompt] for prompt in prompts]
    named = None if environments is None else list(environments)
    return lambda: Evaluator(watching, taken, samples, max_tokens, temperature, most_at_once, named)


class Evaluator:
    """A SamplingClientEvaluator; use ``evaluator()``."""

    def __init__(
        self,
        watching: SavedWatching,
        prompts: list[list[int]],
        samples: int,
        max_tokens: int,
        temperature: float,
        most_at_once: int,
        environments: list[str | None] | None = None,
    ):
        self.watching = watching
        self._prompts = prompts
        self._samples = samples
        self._max_tokens = max_tokens
        self._temperature = temperature
        self._environments = environments
        self._tokenizer: Any = None
        self._turns = asyncio.Semaphore(most_at_once)

    async def __call__(self, sampling_client: Any) -> dict[str, float]:
        """Samples, scores, and gives the figures."""
        import tinker  # type: ignore[import-not-found, unused-ignore]

        sampled = await asyncio.gather(*(self._sample(sampling_client, tinker, prompt) for prompt in self._prompts))
        rows = list(itertools.chain.from_iterable(sampled))
        groups = [group for group, own in enumerate(sampled) for _ in own]
        spans = await self._spans(sampling_client, rows, groups)
        rollouts = Rollouts(
            groups=groups,
            lengths=[span.length for span in spans],
            tokens=[row[span.start : span.end] for row, span in zip(rows, spans, strict=True)],
            prompt_tokens=self._prompts,
            response_lengths=[len(row) for row in rows],
            environments=None if self._environments is None else [self._environments[group] for group in groups],
        )
        loop = asyncio.get_running_loop()

        def score(pairs: Mapping[int, npt.NDArray[np.int64]]) -> npt.NDArray[np.float64]:
            scoring = self._score_all(sampling_client, tinker, rows, spans, pairs)
            return asyncio.run_coroutine_threadsafe(scoring, loop).result()

        # The monitor waits for its sidecar: beside the event loop, which scores meanwhile.
        observation = await asyncio.to_thread(self.watching.observe, rollouts, score)
        return observation.logged

    async def _spans(self, client: Any, rows: list[list[int]], groups: list[int]) -> list[Span]:
        """Where the reasoning stands in each sample."""
        reasoning = self.watching.reasoning
        if self._tokenizer is None and reasoning.tags is not None and hasattr(client, "get_tokenizer"):
            try:
                found = client.get_tokenizer()
                self._tokenizer = await found if inspect.isawaitable(found) else found
            except Exception as error:
                logger.warning("collapsar: no tokenizer of the client: %s: %s", type(error).__name__, error)
        self.watching.note_reasoning(self._tokenizer)
        return reasoning.spans(self._tokenizer, rows, [self._prompts[group] for group in groups])

    async def _sample(self, client: Any, tinker: Any, prompt: list[int]) -> list[list[int]]:
        settings = tinker.SamplingParams(max_tokens=self._max_tokens, temperature=self._temperature)
        async with self._turns:
            answer = await _answer(
                client.sample(
                    prompt=tinker.ModelInput.from_ints(prompt), num_samples=self._samples, sampling_params=settings
                )
            )
        return [list(sequence.tokens) for sequence in answer.sequences]

    async def _score_all(
        self,
        client: Any,
        tinker: Any,
        rows: list[list[int]],
        spans: list[Span],
        pairs: Mapping[int, npt.NDArray[np.int64]],
    ) -> npt.NDArray[np.float64]:
        sums = np.full((len(rows), len(self._prompts)), np.nan)
        # Then the server takes what stands before from its cache of prefixes.
        last_alone = "prompt_logprobs_last_n" in inspect.signature(client.compute_logprobs).parameters

        async def one(row: int, prompt: int) -> None:
            # What stands before the reasoning is context, as the prompt is.
            context = self._prompts[prompt] + rows[row][: spans[row].start]
            ids = context + rows[row][spans[row].start : spans[row].end]
            asked = {"prompt_logprobs_last_n": spans[row].length} if last_alone and spans[row].length > 0 else {}
            async with self._turns:
                logprobs = await _answer(client.compute_logprobs(tinker.ModelInput.from_ints(ids), **asked))
            scored = list(logprobs)[len(context) :]
            if len(logprobs) != len(ids) or any(value is None for value in scored):
                raise CollapsarError(
                    f"compute_logprobs gave {len(logprobs)} values for {len(ids)} tokens of row {row} under prompt "
                    f"{prompt}, or none for one of them",
                    "ERR_SCORES",
                )
            sums[row, prompt] = sum(scored)

        await asyncio.gather(*(one(int(row), prompt) for prompt, scored in pairs.items() for row in scored))
        return sums


async def _answer(future: Any) -> Any:
    """What a future of the SDK comes to: one that can be awaited, or, of older versions, one of a thread."""
    return await (future if inspect.isawaitable(future) else asyncio.wrap_future(future))
