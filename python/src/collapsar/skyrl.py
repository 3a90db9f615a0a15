"""SkyRL 0.3 and later: two lines.

    from collapsar.skyrl import Callback
    trainer = RayPPOTrainer(..., callbacks=[Callback(filter={"strategy": "top_p", "value": 0.9})])

Rewards and uids are gone when callbacks hear of a step's end: ``postprocess_generator_output`` of the trainer is
wrapped, and ``on_log`` adds what it saw to the logs. The filter's figures are logged; it does not filter. ``generate``
is wrapped as well, for the data source of each prompt.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .spans import Reasoning
from .watching import Observation, Rollouts, SavedWatching, first_and_last, numbered


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
        self._tokenizer: Any = None
        #: by uid, of what was generated since the last look
        self._environments: dict[str, str] = {}

    def on_train_start(self, trainer: Any, callback_input: Any = None, control: Any = None) -> None:
        """Wraps the trainer's ``postprocess_generator_output`` and ``generate``."""
        self._tokenizer = getattr(trainer, "tokenizer", None)
        original = trainer.postprocess_generator_output
        if hasattr(original, "_collapsar"):
            return

        @functools.wraps(original)
        def postprocess(generator_output: Mapping[str, Any], uids: Sequence[str], *args: Any, **kwargs: Any) -> Any:
            self._observe(generator_output, uids)
            return original(generator_output, uids, *args, **kwargs)

        postprocess._collapsar = True  # type: ignore[attr-defined]
        trainer.postprocess_generator_output = postprocess
        generates = getattr(trainer, "generate", None)
        if generates is None:
            return

        @functools.wraps(generates)
        async def generate(input_batch: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
            # What names the rows must not stand in the way of making them.
            with contextlib.suppress(Exception):
                self._environments |= environments_of(input_batch)
            return await generates(input_batch, *args, **kwargs)

        trainer.generate = generate

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
            self.watching.note_reasoning(self._tokenizer)
            named, self._environments = self._environments, {}
            rows = rollouts_of(output, uids, self._tokenizer, self.watching.reasoning, named)
        except Exception as error:
            self.watching.generation += 1
            self.watching.fail(error)
            return
        self.last = self.watching.observe(rows)


def rollouts_of(
    output: Mapping[str, Any],
    uids: Sequence[str],
    tokenizer: Any = None,
    reasoning: Reasoning | None = None,
    environments: Mapping[str, str] | None = None,
) -> Rollouts:
    """Rollouts of a GeneratorOutput: one row a trajectory.

    Of step-wise trajectories, whose rows are turns, the first turn is the text and the last has the reward. Rewards may
    be one a token: their sum is meant.
    """
    rows = first_and_last(_trajectories(output))
    firsts = [first for first, _ in rows]
    masks, prompts, reasons = (output.get(name) for name in ("loss_masks", "prompt_token_ids", "stop_reasons"))
    responses = [list(output["response_ids"][at]) for at in firsts]
    spans = (reasoning or Reasoning()).spans(
        tokenizer,
        responses,
        [list(prompts[at]) for at in firsts] if prompts else None,
        [masks[at] for at in firsts] if masks else None,
    )
    tokens = [response[span.start : span.end] for response, span in zip(responses, spans, strict=True)]
    named = None if not environments else [environments.get(uids[at]) for at in firsts]
    return Rollouts(
        groups=numbered([uids[at] for at in firsts]),
        rewards=[float(np.sum(output["rewards"][last])) for _, last in rows],
        lengths=[len(row) for row in tokens],
        tokens=tokens,
        truncated=None if not reasons else [reasons[last] == "length" for _, last in rows],
        response_lengths=[len(response) for response in responses],
        environments=named,
    )


def _trajectories(output: Mapping[str, Any]) -> list[Any]:
    """What tells the turns of one trajectory from others; a row is one by itself where the output is not step-wise."""
    ids, is_last = output.get("trajectory_ids"), output.get("is_last_step")
    count = len(output["response_ids"])
    if not is_last:
        return list(range(count))
    if ids:
        return [(_id(own, "instance_id"), _id(own, "repetition_id")) for own in ids]
    # Turns of one stand together, up to the last.
    return np.cumsum([0, *map(int, is_last[:-1])]).tolist()


def _id(trajectory: Any, name: str) -> Any:
    return getattr(trajectory, name, str(trajectory))


def environments_of(batch: Mapping[str, Any]) -> dict[str, str]:
    """By uid, of a GeneratorInput: the data source among the data set's columns, else the environment's class."""
    ids, extras, classes = (batch.get(name) for name in ("trajectory_ids", "env_extras", "env_classes"))
    found = {}
    for at, trajectory in enumerate(ids or ()):
        extra = extras[at] if extras else None
        source = extra.get("data_source") if isinstance(extra, Mapping) else None
        name = source if source is not None else classes[at] if classes else None
        if name is not None:
            found[_id(trajectory, "instance_id")] = str(name)
    return found
