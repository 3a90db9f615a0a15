"""Cross-scores by verl's actor: rows that stand for (row, prompt) pairs go through its own log-prob computation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import CollapsarError
from .batch import Batch


@dataclass(frozen=True)
class Sample:
    """A response after a prompt that need not be its own."""

    prompt: Sequence[int]
    response: Sequence[int]


#: samples -> log-probs of each one's response tokens
LogProbs = Callable[[Sequence[Sample]], Sequence[npt.ArrayLike]]


def scorer(
    batch: Batch, log_probs: LogProbs, max_tokens: int
) -> Callable[[Mapping[int, npt.NDArray[np.int64]]], npt.NDArray[np.float64]] | None:
    """What ``Watching.observe`` takes; None where rows of a prompt saw different ones, or prompts are not known."""
    prompts = batch.rollouts.prompt_tokens
    if prompts is None:
        return None

    def score(pairs: Mapping[int, npt.NDArray[np.int64]]) -> npt.NDArray[np.float64]:
        sums = np.full((len(batch.responses), len(prompts)), np.nan)
        for some in _chunks(batch, prompts, pairs, max_tokens):
            samples = [Sample(prompts[prompt], batch.responses[row]) for row, prompt in some]
            found = log_probs(samples)
            for (row, prompt), sample, values in zip(some, samples, found, strict=True):
                taken = np.asarray(values, dtype=np.float64)
                if taken.shape != (len(sample.response),):
                    raise CollapsarError(
                        f"the actor gave {taken.shape} log-probs of row {row} under prompt {prompt}, "
                        f"expected {len(sample.response)}",
                        "ERR_SCORES",
                    )
                sums[row, prompt] = taken[batch.starts[row] :].sum()
        return sums

    return score


def _chunks(
    batch: Batch, prompts: Sequence[Sequence[int]], pairs: Mapping[int, npt.NDArray[np.int64]], max_tokens: int
) -> Iterator[list[tuple[int, int]]]:
    """Pairs with a response, so many at once that prompts and responses have at most so many tokens."""
    some: list[tuple[int, int]] = []
    tokens = 0
    for prompt, rows in sorted(pairs.items()):
        for row in rows.tolist():
            length = len(prompts[prompt]) + len(batch.responses[row])
            if some and tokens + length > max_tokens:
                yield some
                some, tokens = [], 0
            some.append((row, prompt))
            tokens += length
    if some:
        yield some


def whole(samples: Sequence[Sample], size: int) -> list[Sample]:
    """As many more that every rank of the actor has as many: the last one again."""
    return [*samples, *[samples[-1]] * (-len(samples) % max(1, size))]
