"""verl: text figures and the filter's figures of every step, in the trainer's own metrics.

verl 0.9 and later loads this module by itself (entry point ``verl.plugins``); 0.7.1 and later with
``VERL_USE_EXTERNAL_MODULES=collapsar.verl``. It runs in every process that imports verl, and does nothing there but
see to it that PPOTrainerSync, once it is imported, has its ``_compute_advantage`` wrapped. With verl#7894, ``Hook`` is
the class for ``trainer.pre_advantage_hooks.collapsar.hook_class``.

Options are a JSON object in the environment variable COLLAPSAR_VERL (``collapsar.watching.Watching``), or ``off``.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from .watching import Observation, Rollouts, SavedWatching, hook_options, logger, numbered

VARIABLE = "COLLAPSAR_VERL"
#: of the trainer that verl runs by default ("sync")
TRAINER_MODULE = "verl.trainer.ppo.v1.trainer_sync"
TRAINER_CLASS = "PPOTrainerSync"
#: read at each step; what a version lacks is left out
FIELDS = ("uid", "prompts", "responses", "response_mask", "rm_scores", "entropy")


def install() -> None:
    """Wraps the trainer, now or when it is imported. Safe to call twice."""
    if os.environ.get(VARIABLE) == "off":
        return
    module = sys.modules.get(TRAINER_MODULE)
    if module is not None:
        wrap(module)
    elif not any(isinstance(finder, _AfterImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterImport())


class _AfterImport(importlib.abc.MetaPathFinder):
    """Wraps the trainer as soon as its module is there: importing it from a plugin would be a circle."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != TRAINER_MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        loader = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            wrap(module)

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def wrap(module: ModuleType) -> None:
    """Wraps ``_compute_advantage`` of the module's trainer."""
    trainer = getattr(module, TRAINER_CLASS, None)
    original = getattr(trainer, "_compute_advantage", None)
    if trainer is None or original is None:
        logger.warning("collapsar: %s has no %s._compute_advantage: verl is not watched", module, TRAINER_CLASS)
        return
    if hasattr(original, "_collapsar"):
        return

    @functools.wraps(original)
    def compute_advantage(self: Any, batch: Any, metrics: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        result = original(self, batch, metrics, *args, **kwargs)
        metrics.update(_observe_batch(self, batch).logged)
        return result

    compute_advantage._collapsar = True  # type: ignore[attr-defined]
    trainer._compute_advantage = compute_advantage


def _watching_of(trainer: Any) -> SavedWatching:
    watching: SavedWatching | None = getattr(trainer, "_collapsar", None)
    if watching is None:
        options, state = hook_options(VARIABLE)
        watching = trainer._collapsar = SavedWatching(state=state, **options)
    return watching


def _observe_batch(trainer: Any, batch: Any) -> Observation:
    """What a batch of TransferQueue says."""
    watching = _watching_of(trainer)
    try:
        queue = sys.modules["verl.trainer.ppo.v1.trainer_base"].tq
        wanted = {"keys": batch.keys, "partition_id": batch.partition_id}
        data = queue.kv_batch_get(**wanted, select_fields=list(FIELDS))
        tags = getattr(batch, "tags", None) or [{}] * len(batch.keys)
        real = [at for at, tag in enumerate(tags) if not tag.get("is_padding")]
        rows = rollouts_of({name: _rows(data[name]) for name in FIELDS if name in data.keys()}, real)  # noqa: SIM118
    except Exception as error:
        watching.generation += 1
        watching.fail(error)
        return Observation(watching.generation)
    return watching.observe(rows)


def _rows(values: Any) -> list[Any]:
    """Rows of a padded or nested tensor, or of a column of objects."""
    if getattr(values, "is_nested", False):
        return [row.tolist() for row in values.unbind()]
    return list(values.tolist()) if hasattr(values, "tolist") else list(values)


def rollouts_of(fields: Mapping[str, list[Any]], rows: Sequence[int]) -> Rollouts:
    """Rollouts of rows of verl's fields: ``uid`` names the prompt, rewards stand at tokens."""
    masks = [_flat(fields["response_mask"][row]) for row in rows]
    responses = [_flat(fields["responses"][row]) for row in rows]
    # Of several turns, the first one the policy wrote.
    tokens = [_first_run(response, mask) for response, mask in zip(responses, masks, strict=True)]
    rewards = [float(np.sum(fields["rm_scores"][row])) for row in rows] if "rm_scores" in fields else None
    entropies = None
    if "entropy" in fields:
        entropies = [
            float(np.average(_flat(fields["entropy"][row])[: len(mask)], weights=mask)) if any(mask) else 0.0
            for row, mask in zip(rows, masks, strict=True)
        ]
    groups = numbered([str(_flat(fields["uid"][row])) for row in rows])
    return Rollouts(
        groups=groups,
        rewards=rewards,
        lengths=[len(row) for row in tokens],
        tokens=tokens,
        response_lengths=[int(np.sum(mask)) for mask in masks],
        entropies=entropies,
    )


def _flat(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def _first_run(ids: Sequence[int], mask: Sequence[float]) -> list[int]:
    first = next((at for at, own in enumerate(mask) if own), len(mask))
    last = next((at for at in range(first, len(mask)) if not mask[at]), len(mask))
    return list(ids[first:last])


class Hook:
    """A ``PreAdvantageHook`` of verl#7894: ``trainer.pre_advantage_hooks.collapsar.hook_class=collapsar.verl.Hook``.

    Args:
        config: of the trainer.
        hook_config: keyword arguments of ``collapsar.watching.Watching``, besides ``hook_class`` and ``enable``. With
            ``filter``, the response masks of dropped rows are zeroed.
    """

    def __init__(self, config: Any, hook_config: Mapping[str, Any]):
        options = {key: value for key, value in dict(hook_config).items() if key not in ("hook_class", "enable")}
        self.watching = SavedWatching(**{"on_error": "raise"} | options)

    def __call__(self, data: Any, *, trainer: Any) -> tuple[Any, dict[str, float]]:
        """Watches a batch before its advantages are computed."""
        names = {"prompts", "responses", "response_mask", "rm_scores", "token_level_scores"}
        fields = {name: _rows(data.batch[name]) for name in names if name in data.batch.keys()}  # noqa: SIM118
        fields.setdefault("rm_scores", fields.get("token_level_scores", []))
        fields["uid"] = list(data.non_tensor_batch["uid"])
        observation = self.watching.observe(rollouts_of(fields, range(len(fields["uid"]))))
        if observation.keep is not None:
            mask = data.batch["response_mask"]
            keep = mask.new_tensor(observation.keep.tolist())
            data.batch["response_mask"] = mask * keep.unsqueeze(-1).to(mask.dtype)
        return data, observation.logged


# The plugin's entry point is loaded and not called.
install()
