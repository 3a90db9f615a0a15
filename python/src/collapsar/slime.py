"""slime: one flag, ``--custom-rollout-log-function-path collapsar.slime.log_rollouts``.

Figures go into the metrics that slime logs of a rollout. Options are a JSON object in the environment variable
COLLAPSAR_SLIME (``collapsar.watching.Watching``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .watching import Rollouts, SavedWatching, hook_options, logger, numbered

VARIABLE = "COLLAPSAR_SLIME"

_watching: SavedWatching | None = None


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
        rows = rollouts_of(samples, getattr(args, "reward_key", None))
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


def rollouts_of(samples: Sequence[Any], reward_key: str | None = None) -> Rollouts:
    """Rollouts of Sample objects, nested in groups or not; those that are removed, aborted or failed are left out."""
    flat = [each for sample in samples for each in (sample if isinstance(sample, (list, tuple)) else [sample])]
    used = [sample for sample in flat if not getattr(sample, "remove_sample", False) and _status(sample) not in _LOST]
    tokens = []
    prompts = []
    for sample in used:
        cut = len(sample.tokens) - sample.response_length
        response, mask = list(sample.tokens[cut:]), sample.loss_mask
        # Of several turns, the first one the policy wrote.
        end = next((at for at, own in enumerate(mask) if not own), len(mask)) if mask else len(response)
        tokens.append(response[:end])
        prompts.append(tuple(sample.tokens[:cut]))
    named = [sample.group_index for sample in used]
    groups = numbered(prompts if any(name is None for name in named) else named)
    return Rollouts(
        groups=groups,
        rewards=[_reward(sample.reward, reward_key) for sample in used],
        lengths=[len(row) for row in tokens],
        tokens=tokens,
        truncated=[_status(sample) == "truncated" for sample in used],
        response_lengths=[sample.response_length for sample in used],
    )


_LOST = ("aborted", "failed", "pending")


def _status(sample: Any) -> str:
    """An enum's value, or a string."""
    status = getattr(sample, "status", "completed")
    return str(getattr(status, "value", status))


def _reward(reward: Any, key: str | None) -> float:
    if isinstance(reward, dict):
        reward = reward[key] if key is not None else next(iter(reward.values()), None)
    return float("nan") if reward is None else float(reward)
