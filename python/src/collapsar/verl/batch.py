"""verl's columns as rows: what each response is, where its reasoning stands, which rows a prompt has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import as_plain
from ..spans import Reasoning
from ..watching import Observation, Rollouts, numbered

#: losses whose mean counts dropped rows, too: verl divides by a number of rows that it has fixed
MEANS_OVER_ROWS = ("seq-mean-token-sum", "seq-mean-token-sum-norm", "seq-mean-token-mean")


@dataclass(frozen=True)
class Batch:
    """Rows of a step, and what it takes to score them."""

    rollouts: Rollouts
    #: [R] token ids of the response, up to the end of the reasoning
    responses: Sequence[Sequence[int]]
    #: [R] where the reasoning begins in them
    starts: Sequence[int]


def batch_of(
    fields: Mapping[str, Sequence[Any]],
    rows: Sequence[int],
    tokenizer: Any,
    reasoning: Reasoning,
    rewarded: Sequence[int] | None = None,
) -> Batch:
    """Some rows of columns without padding.

    Args:
        fields: ``uid`` names the prompt; ``responses`` and ``response_mask`` (1: the policy's token); ``prompts``,
            ``rm_scores`` (rewards at tokens), ``entropy`` and ``data_source`` where there are any.
        rows: those that are no padding.
        tokenizer: of the trainer; None: the whole response is the reasoning.
        reasoning: finds it.
        rewarded: [R] the row that has the reward of each, where it is another: the last output of a session.
    """
    masks = [list(as_plain(fields["response_mask"][row])) for row in rows]
    responses = [list(as_plain(fields["responses"][row])) for row in rows]
    prompts = [list(as_plain(fields["prompts"][row])) for row in rows] if "prompts" in fields else None
    spans = reasoning.spans(tokenizer, responses, prompts, masks)
    groups = numbered([str(as_plain(fields["uid"][row])) for row in rows])
    entropies = None
    if "entropy" in fields:
        entropies = [
            float(np.average(as_plain(fields["entropy"][row])[: len(mask)], weights=mask)) if any(mask) else 0.0
            for row, mask in zip(rows, masks, strict=True)
        ]
    rollouts = Rollouts(
        groups=groups,
        rewards=[float(np.sum(fields["rm_scores"][row])) for row in rewarded or rows]
        if "rm_scores" in fields
        else None,
        lengths=[span.length for span in spans],
        tokens=[response[span.start : span.end] for response, span in zip(responses, spans, strict=True)],
        prompt_tokens=None if prompts is None else prompts_of(groups, prompts),
        truncated=[span.truncated for span in spans] if tokenizer is not None else None,
        response_lengths=[int(np.sum(mask)) for mask in masks],
        entropies=entropies,
        environments=environments_of([fields["data_source"][row] for row in rows]) if "data_source" in fields else None,
    )
    scored = [response[: span.end] for response, span in zip(responses, spans, strict=True)]
    return Batch(rollouts, scored, [span.start for span in spans])


def environments_of(names: Sequence[Any]) -> list[str | None] | None:
    """Names as text; None where no row has one."""
    found = [None if (flat := as_plain(name)) is None or flat == "" else str(flat) for name in names]
    return found if any(name is not None for name in found) else None


def prompts_of(groups: Sequence[int], prompts: Sequence[list[int]]) -> list[list[int]] | None:
    """One a group; None where rows of a group saw different ones, as later outputs of a session do."""
    found: list[list[int]] = []
    for group, prompt in zip(groups, prompts, strict=True):
        if group == len(found):
            found.append(prompt)
        elif found[group] != prompt:
            return None
    return found


def rows_of(values: Any) -> list[Any]:
    """Rows of a padded or nested tensor, or of a column of objects."""
    if getattr(values, "is_nested", False):
        return [row.tolist() for row in values.unbind()]
    return list(as_plain(values))


def unpadded(ids: Sequence[Sequence[int]], mask: Sequence[Sequence[float]]) -> list[list[int]]:
    """What the mask has of each row."""
    return [
        [token for token, real in zip(row, real_of, strict=True) if real]
        for row, real_of in zip(ids, mask, strict=True)
    ]


def advantage_scale(trainer: Any, observation: Observation, keep: npt.NDArray[np.bool_]) -> float:
    """Factor for the advantages of kept rows: the loss scale, and 1 / their share where the loss is a mean of rows."""
    scale = observation.loss_scale
    if keep.any() and trainer.config.actor_rollout_ref.actor.loss_agg_mode in MEANS_OVER_ROWS:
        scale /= float(keep.mean())
    return scale
