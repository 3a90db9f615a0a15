"""SkyRL 0.3 and later: two lines.

    from collapsar.skyrl import Callback
    trainer = RayPPOTrainer(..., callbacks=[Callback(filter={"strategy": "top_p", "value": 0.9})])

Rewards and uids are gone when callbacks hear of a step's end: ``postprocess_generator_output`` of the trainer is
wrapped, and ``on_log`` adds what it saw to the logs. The filter's figures are logged; it does not filter.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .watching import Observation, Rollouts, SavedWatching, numbered


def _base() -> type:
    try:
        from skyrl.train.utils.callbacks import TrainingCallback  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return object
    return TrainingCallback  # type: ignore[no-any-return]


class Callback(_base()):  # type: ignore[misc]
    """A TrainingCallback that watches; takes arguments of ``collapsar.watching.Watching``, and ``state``, a file."""

    def __init__(self, **options: Any):
        self.watching = SavedWatching(**options)
        self.last: Observation | None = None

    def on_train_start(self, trainer: Any, callback_input: Any = None, control: Any = None) -> None:
        """Wraps the trainer's ``postprocess_generator_output``."""
        original = trainer.postprocess_generator_output
        if hasattr(original, "_collapsar"):
            return

        @functools.wraps(original)
        def postprocess(generator_output: Mapping[str, Any], uids: Sequence[str], *args: Any, **kwargs: Any) -> Any:
            self._observe(generator_output, uids)
            return original(generator_output, uids, *args, **kwargs)

        postprocess._collapsar = True  # type: ignore[attr-defined]
        trainer.postprocess_generator_output = postprocess

    # Both names have been in use.
    on_train_begin = on_train_start

    def on_log(self, trainer: Any, callback_input: Any, control: Any = None) -> None:
        """Adds the last generation's figures to the logs."""
        logs = getattr(callback_input, "logs", None)
        if self.last is not None and logs is not None:
            logs.update(self.last.logged)
            self.last = None

    def _observe(self, output: Mapping[str, Any], uids: Sequence[str]) -> None:
        try:
            rows = rollouts_of(output, uids)
        except Exception as error:
            self.watching.generation += 1
            self.watching.fail(error)
            return
        self.last = self.watching.observe(rows)


def rollouts_of(output: Mapping[str, Any], uids: Sequence[str]) -> Rollouts:
    """Rollouts of a GeneratorOutput. A trajectory's rewards may be one a token: their sum is meant."""
    masks = output.get("loss_masks")
    tokens = []
    for at, response in enumerate(output["response_ids"]):
        mask = masks[at] if masks else [1] * len(response)
        end = next((place for place, own in enumerate(mask) if not own), len(mask))
        tokens.append(list(response[:end]))
    reasons = output.get("stop_reasons")
    return Rollouts(
        groups=numbered(uids),
        rewards=[float(np.sum(reward)) for reward in output["rewards"]],
        lengths=[len(row) for row in tokens],
        tokens=tokens,
        truncated=None if reasons is None else [reason == "length" for reason in reasons],
        response_lengths=[len(response) for response in output["response_ids"]],
    )
