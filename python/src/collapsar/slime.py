"""slime: one flag, ``--custom-rollout-log-function-path collapsar.slime.log_rollouts``.

Figures go into the metrics that slime logs of a rollout. Options are a JSON object in the environment variable
COLLAPSAR_SLIME (``collapsar.watching.Watching``). The reasoning is found with the tokenizer of ``args.hf_checkpoint``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .spans import Reasoning
from .watching import Rollouts, SavedWatching, first_and_last, hook_options, logger, numbered

VARIABLE = "COLLAPSAR_SLIME"

_watching: SavedWatching | None = None
#: by checkpoint; None where it has no tokenizer that can be loaded
_tokenizers: dict[str, Any] = {}


def log_rollouts(
    rollout_id: int,
    args: Any,
    samples: Sequence[Any],
    rollout_extra_metrics: dict[str, Any] | None,
    rollout_time: float,
) -> bool:
    """Adds the figures of one rollout to ``rollout_extra_metrics``.

    Returns:
        False: slime goes on with its own logging.
    """
    global _watching
    if _watching is None:
        options, state = hook_options(VARIABLE)
        _watching = SavedWatching(state=state, **options)
    try:
        tokenizer = _tokenizer_of(args) if _watching.reasoning.tags is not None else None
        _watching.note_reasoning(tokenizer)
        rows = rollouts_of(samples, getattr(args, "reward_key", None), tokenizer, _watching.reasoning)
    except Exception as error:
        _watching.generation += 1
        _watching.fail(error)
        return False
    observation = _watching.observe(rows)
    if rollout_extra_metrics is not None:
        rollout_extra_metrics.update(observation.logged)
    else:
        logger.info("collapsar, rollout %d: %s", rollout_id, observation.logged)
    return False


def rollouts_of(
    samples: Sequence[Any],
    reward_key: str | None = None,
    tokenizer: Any = None,
    reasoning: Reasoning | None = None,
) -> Rollouts:
    """Rollouts of Sample objects, nested in groups or not; those that are removed, aborted or failed are left out.

    Samples that one execution was split into (``rollout_id``: turns of an agent, its subagents) are one row: the first
    for its text, the last for its reward.
    """
    used = [
        sample
        for sample in _flat(samples)
        if not getattr(sample, "remove_sample", False) and _status(sample) not in _LOST
    ]
    rows = first_and_last(executions_of(used))
    firsts = [used[first] for first, _ in rows]
    responses, prompts, masks = [], [], []
    for sample in firsts:
        cut = len(sample.tokens) - sample.response_length
        responses.append(list(sample.tokens[cut:]))
        prompts.append(list(sample.tokens[:cut]))
        masks.append(sample.loss_mask)
    spans = (reasoning or Reasoning()).spans(tokenizer, responses, prompts, masks)
    tokens = [response[span.start : span.end] for response, span in zip(responses, spans, strict=True)]
    named = [sample.group_index for sample in firsts]
    groups = numbered([tuple(prompt) for prompt in prompts] if any(name is None for name in named) else named)
    environments = [environment_of(sample) for sample in firsts]
    return Rollouts(
        groups=groups,
        rewards=[_reward(used[last].reward, reward_key) for _, last in rows],
        lengths=[len(row) for row in tokens],
        tokens=tokens,
        truncated=[_status(used[last]) == "truncated" for _, last in rows],
        response_lengths=[sample.response_length for sample in firsts],
        environments=environments if any(environments) else None,
    )


def _flat(samples: Any) -> list[Any]:
    if not isinstance(samples, (list, tuple)):
        return [samples]
    return [each for sample in samples for each in _flat(sample)]


def executions_of(samples: Sequence[Any]) -> list[Any]:
    """What tells samples of one execution from others: each is one by itself where there is no ``rollout_id``."""
    ids = [getattr(sample, "rollout_id", None) for sample in samples]
    if len({sample.group_index for sample in samples}) > 1 and len(set(ids)) == 1:
        # The number of the whole rollout.
        ids = [None] * len(samples)
    return [
        (sample.group_index, "alone", at) if own is None else (sample.group_index, "execution", own)
        for at, (sample, own) in enumerate(zip(samples, ids, strict=True))
    ]


def environment_of(sample: Any) -> str | None:
    """Where slime's own ``get_source`` finds it, or as data sets call it."""
    metadata = getattr(sample, "metadata", None) or {}
    named = [getattr(sample, "source", None), *(metadata.get(name) for name in _SOURCES)]
    found = next((name for name in named if name), None)
    return None if found is None else str(found)


_SOURCES = ("source_name", "environment", "data_source")


def _tokenizer_of(args: Any) -> Any:
    """As slime loads it; None where that fails: it is said what is then measured."""
    checkpoint = getattr(args, "hf_checkpoint", None)
    if checkpoint is None:
        return None
    if checkpoint not in _tokenizers:
        try:
            from transformers import AutoTokenizer

            _tokenizers[checkpoint] = AutoTokenizer.from_pretrained(checkpoint, trust_remote_code=True)
        except Exception as error:
            logger.warning("collapsar: no tokenizer of %s: %s: %s", checkpoint, type(error).__name__, error)
            _tokenizers[checkpoint] = None
    return _tokenizers[checkpoint]


_LOST = ("aborted", "failed", "pending")


def _status(sample: Any) -> str:
    """An enum's value, or a string."""
    status = getattr(sample, "status", "completed")
    return str(getattr(status, "value", status))


def _reward(reward: Any, key: str | None) -> float:
    if isinstance(reward, dict):
        reward = reward[key] if key is not None else next(iter(reward.values()), None)
    return float("nan") if reward is None else float(reward)
