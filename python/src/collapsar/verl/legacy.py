"""verl's legacy trainer (RayPPOTrainer) and RAGEN's: a base class that watches their batches (DataProto)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..arrays import as_plain
from ..errors import ArgumentError
from ..spans import Reasoning
from ..watching import Observation, Rollouts, logger, numbered
from .batch import Batch, advantage_scale, batch_of, environments_of, prompts_of, rows_of, unpadded
from .options import VerlWatching, watching_of
from .scores import Sample, scorer, whole

#: columns in which RAGEN has the kind of an environment
TAGS = ("env_tags", "tags", "data_source")


class Watched:
    """Comes before the trainer among the base classes: ``class Trainer(Watched, RayPPOTrainer): pass``.

    Of RayPPOTrainer, ``_update_actor`` is watched: rewards and advantages are in the batch there, and the policy is
    the one that sampled it. With ``filter``, dropped rows leave the response mask, and so policy loss, KL and entropy
    bonus. Of RAGEN's trainer, which updates by itself, the rollout filter is watched before it filters.

    Options are those of COLLAPSAR_VERL.
    """

    def _update_actor(self, batch: Any) -> Any:
        return _watched_update(self, batch, super()._update_actor)  # type: ignore[misc]

    def init_workers(self) -> None:
        """As the trainer's own; then RAGEN's rollout filter is watched."""
        super().init_workers()  # type: ignore[misc]
        rollout_filter = getattr(self, "rollout_filter", None)
        if rollout_filter is None:
            return
        original = rollout_filter.filter

        def watched_filter(batch: Any, *args: Any, **kwargs: Any) -> Any:
            observation = _observe(self, watching_of(self), batch)
            kept, metrics = original(batch, *args, **kwargs)
            return kept, metrics | observation.logged

        rollout_filter.filter = watched_filter


def watched(original: Callable[..., Any]) -> Callable[..., Any]:
    """``_update_actor`` of RayPPOTrainer, which those of one-step-off and fully asynchronous training share."""

    @functools.wraps(original)
    def update_actor(self: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
        def update(batch: Any) -> Any:
            return original(self, batch, *args, **kwargs)

        # A Watched trainer has seen the batch already.
        return update(batch) if isinstance(self, Watched) else _watched_update(self, batch, update)

    return update_actor


def _watched_update(trainer: Any, batch: Any, update: Callable[[Any], Any]) -> Any:
    watching = watching_of(trainer)
    observation = _observe(trainer, watching, batch)
    if observation.keep is not None:
        try:
            _filter(trainer, batch, observation)
        except Exception as error:
            watching.fail(error)
    output = update(batch)
    # They are averaged and logged with the actor's own.
    output.meta_info["metrics"].update({key: [value] for key, value in observation.logged.items()})
    return output


def _observe(trainer: Any, watching: VerlWatching, data: Any) -> Observation:
    if watching.resting:
        return watching.skip()
    try:
        tokenizer = getattr(trainer, "tokenizer", None)
        columns = data.non_tensor_batch
        if "group_ids" in columns:
            batch = first_turns(data)
        else:
            watching.note_reasoning(tokenizer)
            batch = proto_batch(data, tokenizer, watching.reasoning)
        score = None
        if watching.verl.scores:
            score = scorer(batch, _Actor(trainer, data).log_probs, watching.verl.max_tokens)
            if score is None:
                logger.info("collapsar: no prompts to score under at step %d", watching.generation + 1)
    except Exception as error:
        watching.generation += 1
        watching.fail(error)
        return Observation(watching.generation)
    return watching.observe(batch.rollouts, score)


def proto_batch(data: Any, tokenizer: Any, reasoning: Reasoning) -> Batch:
    """A DataProto: prompts are padded on the left, responses on the right."""
    names = ("responses", "response_mask", "rm_scores", "token_level_scores", "entropys")
    found = {name: rows_of(data.batch[name]) for name in names if name in data.batch.keys()}  # noqa: SIM118
    fields = {
        "uid": list(data.non_tensor_batch["uid"]),
        "responses": found["responses"],
        "response_mask": found["response_mask"],
    }
    rewards = found.get("rm_scores", found.get("token_level_scores"))
    if rewards is not None:
        fields["rm_scores"] = rewards
    if "entropys" in found:
        fields["entropy"] = found["entropys"]
    if "prompts" in data.batch.keys() and "attention_mask" in data.batch.keys():  # noqa: SIM118
        prompts, mask = rows_of(data.batch["prompts"]), rows_of(data.batch["attention_mask"])
        width = len(prompts[0]) if prompts else 0
        fields["prompts"] = unpadded(prompts, [row[:width] for row in mask])
        lengths = [int(np.sum(row[width:])) for row in mask]
        fields["responses"] = [row[:length] for row, length in zip(fields["responses"], lengths, strict=True)]
        fields["response_mask"] = [row[:length] for row, length in zip(fields["response_mask"], lengths, strict=True)]
    if "data_source" in data.non_tensor_batch:
        fields["data_source"] = list(data.non_tensor_batch["data_source"])
    return batch_of(fields, range(len(fields["uid"])), tokenizer, reasoning)


def first_turns(data: Any) -> Batch:
    """RAGEN's rollouts: the first turn of each episode, where its own collapse metrics are due; else rewards alone."""
    columns = data.non_tensor_batch
    groups = numbered([str(group) for group in columns["group_ids"]])
    scores = data.batch["original_rm_scores" if "original_rm_scores" in data.batch.keys() else "rm_scores"]  # noqa: SIM118
    rewards = [float(np.sum(row)) for row in rows_of(scores)]
    name = next((name for name in TAGS if name in columns), None)
    environments = None if name is None else environments_of(list(columns[name]))
    if "first_turn_prompt_ids" not in columns:
        return Batch(Rollouts(groups=groups, rewards=rewards, environments=environments), [], [])
    prompts, reasonings = (
        [_ids(row) for row in columns[name]] for name in ("first_turn_prompt_ids", "first_turn_reasoning_ids")
    )
    rollouts = Rollouts(
        groups=groups,
        rewards=rewards,
        lengths=[len(row) for row in reasonings],
        tokens=reasonings,
        prompt_tokens=prompts_of(groups, prompts),
        valid=[len(row) > 0 for row in reasonings],
        environments=environments,
    )
    return Batch(rollouts, reasonings, [0] * len(reasonings))


def _ids(row: Any) -> list[int]:
    return [] if row is None else [int(token) for token in as_plain(row)]


class _Actor:
    """Log-probs of samples by the trainer's own computation: a DataProto of them in, one with log-probs out."""

    def __init__(self, trainer: Any, data: Any):
        self._trainer = trainer
        self._data = data

    def log_probs(self, samples: Sequence[Sample]) -> list[list[float]]:
        """Of each sample's response tokens, at the temperature of the batch."""
        import torch

        trainer, data = self._trainer, self._data
        if "position_ids" in data.batch.keys() and data.batch["position_ids"].dim() > 2:  # noqa: SIM118
            raise ArgumentError("is of a model with several positions a token, whose pairs are not made", "batch")
        made = whole(samples, int(getattr(trainer.actor_rollout_wg, "world_size", 1)))
        before = max(len(sample.prompt) for sample in made)
        after = max(1, *(len(sample.response) for sample in made))
        ids = torch.full((len(made), before + after), self._pad(), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for at, (prompt, response) in enumerate((sample.prompt, sample.response) for sample in made):
            row = slice(before - len(prompt), before + len(response))
            ids[at, row] = torch.tensor([*prompt, *response])
            mask[at, row] = 1
        tensors = {
            "input_ids": ids,
            "attention_mask": mask,
            "position_ids": (mask.cumsum(-1) - 1).clamp(min=0),
            "prompts": ids[:, :before],
            "responses": ids[:, before:],
            "response_mask": mask[:, before:],
        }
        batch = type(data).from_dict(tensors=tensors, meta_info=dict(data.meta_info or {}))
        if hasattr(trainer, "_compute_old_log_prob"):
            output = trainer._compute_old_log_prob(batch)
        else:
            output = trainer.actor_rollout_wg.compute_log_prob(batch)
        if isinstance(output, tuple):
            output = output[0]
        found = output.batch["old_log_probs"].double().tolist()
        return [row[: len(sample.response)] for row, sample in zip(found, samples, strict=False)]

    def _pad(self) -> int:
        pad = getattr(getattr(self._trainer, "tokenizer", None), "pad_token_id", None)
        return 0 if pad is None else int(pad)


def _filter(trainer: Any, batch: Any, observation: Observation) -> None:
    """As the wrapped trainer of today does it."""
    import torch

    keep = torch.as_tensor(observation.keep)
    mask, advantages = batch.batch["response_mask"], batch.batch["advantages"]
    kept = keep.to(mask.device).view(-1, *[1] * (mask.dim() - 1))
    if not bool(keep.any()):
        # A batch without tokens has no mean.
        batch.batch["advantages"] = torch.zeros_like(advantages)
        return
    batch.batch["response_mask"] = mask * kept.to(mask.dtype)
    batch.batch["advantages"] = advantages * advantage_scale(trainer, observation, np.asarray(observation.keep))
