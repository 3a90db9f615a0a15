"""verl#7894: a hook before advantages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .legacy import proto_batch
from .options import VerlWatching


class Hook:
    """A ``PreAdvantageHook`` of verl#7894: ``trainer.pre_advantage_hooks.collapsar.hook_class=collapsar.verl.Hook``.

    Args:
        config: of the trainer.
        hook_config: keyword arguments of ``collapsar.watching.Watching`` and ``VerlOptions``, besides ``hook_class``
            and ``enable``. With ``filter``, the response masks of dropped rows are zeroed. Cross-scores are not taken.
    """

    def __init__(self, config: Any, hook_config: Mapping[str, Any]):
        options = {key: value for key, value in dict(hook_config).items() if key not in ("hook_class", "enable")}
        self.watching = VerlWatching({"on_error": "raise"} | options)

    def __call__(self, data: Any, *, trainer: Any) -> tuple[Any, dict[str, float]]:
        """Watches a batch before its advantages are computed."""
        tokenizer = getattr(trainer, "tokenizer", None)
        self.watching.note_reasoning(tokenizer)
        batch = proto_batch(data, tokenizer, self.watching.reasoning)
        observation = self.watching.observe(batch.rollouts)
        if observation.keep is not None:
            mask = data.batch["response_mask"]
            keep = mask.new_tensor(observation.keep.tolist())
            data.batch["response_mask"] = mask * keep.unsqueeze(-1).to(mask.dtype)
        return data, observation.logged
