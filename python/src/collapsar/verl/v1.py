"""verl's trainers of today ("V1": sync, colocate_async, separate_async): the ``_compute_advantage`` that they share."""

from __future__ import annotations

import functools
import importlib
import sys
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..watching import Observation
from .batch import advantage_scale, batch_of, rows_of
from .options import watching_of
from .scores import Sample, scorer, whole

#: read at each step; what a version lacks is left out
FIELDS = ("uid", "prompts", "responses", "response_mask", "rm_scores", "entropy", "data_source")
#: of the TransferQueue, for rows that stand for pairs: no sampler looks there
PARTITION = "collapsar"


def watched(original: Callable[..., Any]) -> Callable[..., Any]:
    """``_compute_advantage`` of V1's trainer, whose metrics get the figures of the batch."""

    @functools.wraps(original)
    def compute_advantage(self: Any, batch: Any, metrics: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        result = original(self, batch, metrics, *args, **kwargs)
        metrics.update(_observe(self, batch).logged)
        return result

    return compute_advantage


def _observe(trainer: Any, meta: Any) -> Observation:
    """What a batch of TransferQueue says; its dropped rows are masked."""
    watching = watching_of(trainer)
    if watching.resting:
        return watching.skip()
    try:
        queue = sys.modules["verl.trainer.ppo.v1.trainer_base"].tq
        data = queue.kv_batch_get(keys=meta.keys, partition_id=meta.partition_id, select_fields=list(FIELDS))
        tags = getattr(meta, "tags", None) or [{}] * len(meta.keys)
        sessions = sessions_of(meta.keys, [at for at, tag in enumerate(tags) if not tag.get("is_padding")])
        fields = {name: rows_of(data[name]) for name in FIELDS if name in data.keys()}  # noqa: SIM118
        tokenizer = getattr(trainer, "tokenizer", None)
        watching.note_reasoning(tokenizer)
        firsts, lasts = ([outputs[at] for outputs in sessions] for at in (0, -1))
        batch = batch_of(fields, firsts, tokenizer, watching.reasoning, lasts)
        score = None
        if watching.verl.scores:
            score = scorer(batch, _Actor(trainer, queue, meta).log_probs, watching.verl.max_tokens)
    except Exception as error:
        watching.generation += 1
        watching.fail(error)
        return Observation(watching.generation)
    observation = watching.observe(batch.rollouts, score)
    try:
        _filter(trainer, queue, meta, sessions, observation)
    except Exception as error:
        watching.fail(error)
    return observation


class _Actor:
    """Log-probs of samples: rows of a partition of their own, which ``compute_log_prob`` reads and writes."""

    def __init__(self, trainer: Any, queue: Any, meta: Any):
        self._trainer = trainer
        self._queue = queue
        self._meta = meta

    def log_probs(self, samples: Sequence[Sample]) -> list[list[float]]:
        """Of each sample's response tokens, at the temperature of the sampling."""
        made = whole(samples, self._ranks())
        first = f"collapsar{uuid.uuid4().hex}"
        keys = [f"{first}_{at}_0" for at in range(len(made))]
        lengths = [(len(sample.prompt), len(sample.response)) for sample in made]
        tags = [
            {"prompt_len": prompt, "response_len": response, "seq_len": prompt + response}
            for prompt, response in lengths
        ]
        where = {"keys": keys, "partition_id": PARTITION}
        self._queue.kv_batch_put(**where, fields=self._fields(made, first), tags=tags)
        try:
            config = self._trainer.config.actor_rollout_ref.rollout
            asked = {"calculate_entropy": False, "compute_loss": False, "temperature": config.temperature}
            extra = dict(getattr(self._meta, "extra_info", None) or {}) | asked
            self._trainer.actor_rollout_wg.compute_log_prob(
                type(self._meta)(**where, tags=tags, fields=None, extra_info=extra)
            )
            found = rows_of(self._queue.kv_batch_get(**where, select_fields=["log_probs"])["log_probs"])
        finally:
            self._queue.kv_clear(**where)
        # At each place stands the log-prob of the next token.
        return [row[prompt - 1 : -1] for row, (prompt, _) in zip(found, lengths, strict=True)][: len(samples)]

    def _ranks(self) -> int:
        ranks = getattr(self._trainer.actor_rollout_wg, "_dispatch_info", {}).get("actor")
        return max(ranks) + 1 if ranks else 1

    def _fields(self, samples: Sequence[Sample], uid: str) -> Any:
        import torch

        wanted = ["position_ids", "multi_modal_inputs"]
        meta = self._meta
        like = self._queue.kv_batch_get(keys=meta.keys[:1], partition_id=meta.partition_id, select_fields=wanted)
        positions = like["position_ids"][0] if "position_ids" in like.keys() else torch.zeros(1)  # noqa: SIM118
        rows = []
        for sample in samples:
            prompt, response = torch.tensor(sample.prompt), torch.tensor(sample.response, dtype=torch.long)
            ids = torch.cat([prompt, response])
            own = torch.ones_like(response)
            row = {
                "uid": uid,
                "prompts": prompt,
                "responses": response,
                "input_ids": ids,
                "attention_mask": torch.ones_like(ids),
                # Of text alone: models with several positions a token have the same in each.
                "position_ids": torch.arange(len(ids)).expand(*positions.shape[:-1], -1).clone(),
                "response_mask": own,
                "loss_mask": own.clone(),
            }
            if "multi_modal_inputs" in like.keys():  # noqa: SIM118
                row["multi_modal_inputs"] = {}
            rows.append(row)
        return _table(rows)


def _table(rows: list[dict[str, Any]]) -> Any:
    return importlib.import_module("verl.utils.tensordict_utils").list_of_dict_to_tensordict(rows)


def sessions_of(keys: Sequence[str], rows: Sequence[int]) -> list[list[int]]:
    """Rows by session, in the order of their outputs. A key is uid_session_output; another is a session by itself.

    verl gives an episode of several outputs the reward of its last one, and to all the advantage that follows from it.
    """
    found: dict[str, list[tuple[int, int]]] = {}
    for row in rows:
        session, _, output = keys[row].rpartition("_")
        is_output = output.isdecimal() and session.count("_") > 0
        found.setdefault(session if is_output else f"row {row}", []).append((int(output) if is_output else 0, row))
    return [[row for _, row in sorted(outputs)] for outputs in found.values()]


def _filter(trainer: Any, queue: Any, meta: Any, sessions: Sequence[list[int]], observation: Observation) -> None:
    """Takes dropped rows out of policy loss, KL, entropy bonus and token counts by their masks.

    Losses that are means over rows divide by a number that verl has fixed: there advantages are divided by the kept
    share. Where nothing is kept advantages are 0, as a batch without tokens has no mean.
    """
    import torch

    if observation.keep is None:
        return
    kept_of = {row: kept for outputs, kept in zip(sessions, observation.keep.tolist(), strict=True) for row in outputs}
    keep = np.array(list(kept_of.values()))
    scale = advantage_scale(trainer, observation, keep)
    changed = [at for at, kept in kept_of.items() if not kept or scale != 1.0]
    if not changed:
        return
    keys = [meta.keys[at] for at in changed]
    wanted = ["response_mask", "loss_mask", "advantages"]
    data = queue.kv_batch_get(keys=keys, partition_id=meta.partition_id, select_fields=wanted)
    rows = []
    for place, at in enumerate(changed):
        row = {name: data[name][place].clone() for name in wanted if name in data.keys()}  # noqa: SIM118
        if kept_of[at]:
            row["advantages"] *= scale
        elif keep.any():
            for name in ("response_mask", "loss_mask"):
                if name in row:
                    row[name] = torch.zeros_like(row[name])
        else:
            row["advantages"] = torch.zeros_like(row["advantages"])
        rows.append(row)
    queue.kv_batch_put(keys=keys, partition_id=meta.partition_id, fields=_table(rows))
