"""TRL: two lines watch a GRPOTrainer, a RLOOTrainer or a subclass of one.

    from collapsar.trl import watch
    watch(trainer, every=5, outcome="correct", filter={"strategy": "top_p", "value": 0.9})

Two methods are wrapped on the trainer's instance: ``_calculate_rewards``, which sees all rewards, and
``_generate_and_score_completions``, which returns the batch that is trained on. A callback alone would see neither: it
gets no trainer, and the rows that the loss sees are shuffled.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from accelerate.utils import broadcast_object_list, gather_object
from transformers import TrainerCallback

from .errors import ArgumentError, CollapsarError
from .hf import Row, cross_scores
from .monitor import Json
from .spans import Span, Tags
from .watching import Observation, Rollouts, Watching, logger

STATE_FILE = "collapsar.json"

#: Losses whose mean counts dropped rows, too: what remains is divided by the kept share.
MEANS_OVER_ROWS = ("grpo", "sapo", "dr_grpo", "luspo")
#: Losses whose normaliser is the batch's tokens, of the mask or of ``num_items_in_batch``.
MEANS_OVER_TOKENS = ("bnpo", "dapo", "cispo", "vespo")

Outcome = str | int | Callable[[list[dict[str, Any]]], Sequence[float]]


def watch(
    trainer: Any,
    *,
    every: int | Literal["never"] = 5,
    outcome: Outcome | None = None,
    environment: str | Callable[[dict[str, Any]], str | None] | None = None,
    filter: Mapping[str, Json] | None = None,
    tags: Tags = "auto",
    negatives: int | Literal["auto"] | None = "auto",
    max_tokens: int = 16384,
    cache: bool = True,
    texts: bool = True,
    log: Literal["default", "all"] = "default",
    stop: bool = False,
    on_error: Literal["warn", "raise"] = "warn",
    on_report: Callable[[Observation], None] | None = None,
    options: Mapping[str, Json] | None = None,
    threads: int | None = None,
    node: str | None = None,
    timeout: float = 30.0,
    serve: int | None = None,
    token: str | None = None,
    to: Sequence[str] = (),
) -> Watch:
    """Watches a trainer, from the next generation on.

    Args:
        trainer: a GRPOTrainer, a RLOOTrainer or a subclass, before ``train()``.
        every: cross-scores every so many generations, and at the start of the run; ``"never"``: texts alone.
        outcome: the reward function that says whether a row is right, by name or index; or a function of the batch's
            inputs. Default: none, rewards say it.
        environment: the data set's column that names the environment, task or data source of a prompt, for batches that
            mix several; or a function of a row of the data set. Default: they are one.
        filter: which prompts to train on (docs/reference/filter.md); None: all, and training is bit-identical to one
            that nobody watches.
        tags: what opens and closes the reasoning; None: the whole completion is; ``"auto"``: ``<think>``, ``</think>``
            where the tokenizer or its chat template has them.
        negatives: prompts besides its own that a row is scored under; ``"auto"``: 4 from 16 prompts on, all below.
        max_tokens: bounds the memory of scoring (``collapsar.hf.cross_scores``).
        cache: one key-value cache a prompt; False for models whose cache cannot be repeated.
        texts: figures of texts at every generation.
        log: ``"default"``: the figures of docs/guide/trainers/trl.md; ``"all"``: everything.
        stop: whether an early stop of the monitor ends training.
        on_error: of faults while it trains. ``"warn"``: say it and train on, that generation unwatched and unfiltered;
            ``"raise"``. A sidecar that ends or hangs is replaced, and nothing is lost.
        on_report: called on the main process with each generation's observation.
        options: more options of docs/guide/monitor.md, in snake_case.
        threads, node, serve, token, to: of ``collapsar.Monitor``; ``serve=7577`` shows the run in a browser, at the
            address that is logged.
        timeout: seconds to wait for a sidecar that is at work; one that shows no sign of life for two is replaced.

    Returns:
        The watch: ``last`` is the last observation, ``generation`` counts them.

    Raises:
        ArgumentError: the trainer is none of these, or cannot be filtered; or an option is wrong, whatever
            ``on_error`` says.
        NodeError: Node or the engine is not there.
    """
    for name in ("_generate_and_score_completions", "_calculate_rewards", "_metrics", "accelerator"):
        if not hasattr(trainer, name):
            raise ArgumentError(
                f"{type(trainer).__name__} has no {name}, expected a GRPOTrainer or RLOOTrainer of TRL ≥ 0.20",
                "trainer",
            )
    open_watching = functools.partial(
        Watching,
        every=every,
        filter=filter,
        negatives=negatives,
        texts=texts,
        tags=tags,
        log=log,
        stop=stop,
        on_error=on_error,
        options=options,
        threads=threads,
        node=node,
        timeout=timeout,
        serve=serve,
        token=token,
        to=to,
    )
    watching = _on_all(trainer.accelerator, open_watching)
    try:
        return Watch(
            trainer,
            watching,
            outcome=outcome,
            environment=environment,
            max_tokens=max_tokens,
            cache=cache,
            on_report=on_report,
        )
    except BaseException:
        watching.close()
        raise


def _on_all(accelerator: Any, open_watching: Callable[..., Watching]) -> Watching:
    """The first process has the monitor; where it cannot be opened, all of them raise."""
    error: Exception | None = None
    try:
        watching = open_watching(asks=accelerator.is_main_process)
    except CollapsarError as raised:
        error = raised
    told = [None if error is None else f"{type(error).__name__}: {error}"]
    if accelerator.num_processes > 1:
        broadcast_object_list(told)
    if error is not None:
        raise error
    if told[0] is not None:
        watching.close()
        raise CollapsarError(f"the first process: {told[0]}", "ERR_SIDECAR")
    return watching


class Watch(TrainerCallback):
    """The watch of one trainer; use ``watch()``."""

    def __init__(
        self,
        trainer: Any,
        watching: Watching,
        *,
        outcome: Outcome | None,
        environment: str | Callable[[dict[str, Any]], str | None] | None,
        max_tokens: int,
        cache: bool,
        on_report: Callable[[Observation], None] | None,
    ):
        if hasattr(trainer, "_collapsar"):
            raise ArgumentError("is watched already", "trainer")
        self.trainer = trainer
        self.watching = watching
        #: the last observation
        self.last: Observation | None = None
        self._outcome = outcome
        self._outcome_at = self._find_outcome(outcome)
        self._environment = environment
        self._max_tokens = max_tokens
        self._cache = cache
        self._on_report = on_report
        self._rewards: torch.Tensor | None = None
        #: or what the function of outcomes raised
        self._outcomes: Sequence[float] | Exception | None = None
        self._kept: _Kept | None = None
        self._loss_scale = 1.0
        self._stopping: str | None = None
        tokenizer = getattr(trainer.processing_class, "tokenizer", trainer.processing_class)
        self._tokenizer = tokenizer
        finder = watching.reasoning.finder(tokenizer)
        if finder is None:
            raise ArgumentError(
                f"{type(trainer).__name__} has no processing_class, which finds the reasoning", "trainer"
            )
        self._finder = finder
        self._check_environment()
        if watching.filter is not None:
            self._check_filter()
        self._wrap("_calculate_rewards", self._calculate_rewards)
        self._wrap("_generate_and_score_completions", self._generate_and_score_completions)
        if watching.filter is not None:
            self._wrap("compute_loss", self._compute_loss)
        if hasattr(trainer, "_load_optimizer_and_scheduler"):
            self._wrap("_load_optimizer_and_scheduler", self._load_optimizer_and_scheduler)
        trainer._collapsar = self
        trainer.add_callback(self)

    @property
    def generation(self) -> int:
        """Generations seen so far: the monitor's steps."""
        return self.watching.generation

    @property
    def report(self) -> dict[str, Json] | None:
        """The last report (docs/guide/monitor.md); None before the first, and on other ranks than the first."""
        return self.watching.report

    def close(self) -> None:
        """Ends the sidecar; with another generation, one starts again from where it stood."""
        self.watching.close()

    def _wrap(self, name: str, wrapper: Callable[..., Any]) -> None:
        original = getattr(self.trainer, name)
        setattr(self.trainer, name, functools.wraps(original)(functools.partial(wrapper, original)))

    # ---- what is wrapped

    def _calculate_rewards(self, original: Callable[..., torch.Tensor], *args: Any, **kwargs: Any) -> torch.Tensor:
        rewards = original(*args, **kwargs)
        if self.trainer.model.training:
            self._rewards = rewards.detach()
            if callable(self._outcome):
                inputs = kwargs["inputs"] if "inputs" in kwargs else args[0]
                completions = kwargs["completions"] if "completions" in kwargs else args[2]
                pairs = zip(inputs, completions, strict=True)
                try:
                    rows = [dict(example) | {"completion": said} for example, said in pairs]
                    self._outcomes = [float(value) for value in self._outcome(rows)]
                except Exception as error:
                    self._outcomes = error
        return rewards

    def _generate_and_score_completions(
        self, original: Callable[..., dict[str, Any]], *args: Any, **kwargs: Any
    ) -> dict[str, Any]:
        self._rewards = self._outcomes = None
        output = original(*args, **kwargs)
        # Evaluation is no step of the run.
        if not self.trainer.model.training:
            return output
        observation = self._guarded(output, kwargs["inputs"] if "inputs" in kwargs else args[0])
        self.last = observation
        logs = self.trainer._metrics["train"]
        # TRL logs the mean of what came since it logged last.
        for key, value in observation.logged.items():
            if key in observation.last:
                logs[key] = [value]
            elif key in observation.greatest:
                logs[key] = [max([value, *logs[key]])]
            else:
                logs[key].append(value)
        self._stopping = observation.stop
        if self.watching.filter is not None:
            self._apply(output, observation)
        if self._on_report is not None and self.trainer.accelerator.is_main_process:
            self._on_report(observation)
        return output

    def _compute_loss(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        trainer = self.trainer
        if self._kept is None or not trainer.model.training:
            return original(*args, **kwargs)
        inputs = kwargs["inputs"] if "inputs" in kwargs else args[1]
        weight = self._kept.tokens_weight(inputs)
        # Advantages have been divided by the kept share where the loss is a mean over rows; this is the same for KL.
        terms = {"beta": getattr(trainer, "beta", 0.0) * self._kept.scale}
        factor = self._loss_scale
        if getattr(trainer, "loss_type", None) == "bnpo":
            # A mean over the micro-batch's tokens, the entropy bonus included.
            factor *= weight
        elif getattr(trainer, "entropy_coef", 0.0) and not getattr(trainer, "use_adaptive_entropy", False):
            # The bonus is one, whatever the loss.
            terms["entropy_coef"] = trainer.entropy_coef * weight
        with _changed(trainer, terms):
            loss = original(*args, **kwargs)
        return loss if factor == 1.0 else loss * factor

    def _load_optimizer_and_scheduler(self, original: Callable[..., Any], checkpoint: str | None) -> Any:
        loaded = original(checkpoint)
        if checkpoint is not None:
            self._restore(os.path.join(checkpoint, STATE_FILE))
        return loaded

    # ---- the trainer's callbacks

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Puts the monitor's state into the checkpoint."""
        if state.is_world_process_zero:
            self.watching.write(os.path.join(args.output_dir, f"checkpoint-{state.global_step}", STATE_FILE))

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """Ends training where the monitor says so and was asked to."""
        if self._stopping is not None:
            if state.is_world_process_zero:
                logger.warning("collapsar ends training: %s", self._stopping)
            control.should_training_stop = True
        return control

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Ends the sidecar; another ``train()`` goes on from where it stood."""
        self.watching.close()

    def _restore(self, path: str) -> None:
        if not os.path.exists(path):
            logger.warning("collapsar: %s is not there, and the watch begins anew with generation 1", path)
            return
        self.watching.resume(path)

    # ---- one generation

    def _guarded(self, output: Mapping[str, Any], inputs: Sequence[Mapping[str, Any]]) -> Observation:
        """Whatever is wrong with a generation's rows ends no training."""
        before = self.watching.generation
        try:
            return self._observe(output, inputs)
        except Exception as error:
            if self.watching.on_error == "raise":
                raise
            self.watching.generation = before + 1
            self.watching.fail(error)
            return Observation(self.watching.generation)

    def _observe(self, output: Mapping[str, Any], inputs: Sequence[Mapping[str, Any]]) -> Observation:
        """The same on every rank: the monitor is the main process's, and what it says is broadcast."""
        accelerator = self.trainer.accelerator
        if accelerator.is_main_process:
            self.watching.note_reasoning(self._tokenizer)
        rows: list[Any]
        try:
            if isinstance(self._outcomes, Exception):
                raise self._outcomes
            rows = self._local_rows(output)
            for row, name in zip(rows, self._local_environments(inputs, len(rows)), strict=True):
                row["environment"] = name
        except Exception as error:
            if accelerator.num_processes == 1:
                raise
            rows = [f"process {accelerator.process_index}: {type(error).__name__}: {error}"]
        everyone: list[Any] = gather_object(rows)
        for row in everyone:
            if isinstance(row, str):
                raise CollapsarError(row)
        mine = slice(accelerator.process_index * len(rows), (accelerator.process_index + 1) * len(rows))
        outcomes = None if self._outcomes is None else gather_object(list(self._outcomes))
        if accelerator.num_processes == 1:
            rollouts = self._rollouts(everyone, outcomes)
            prompts = rollouts.prompt_tokens or []
            return self.watching.observe(rollouts, lambda pairs: self._score(prompts, everyone, pairs, None))
        return self._observe_together(everyone, mine, outcomes)

    def _observe_together(
        self, everyone: list[dict[str, Any]], mine: slice, outcomes: Sequence[float] | None
    ) -> Observation:
        """Several processes: the first one asks the others to score when the monitor asks it."""
        accelerator = self.trainer.accelerator
        prompts = self._rollouts(everyone, outcomes).prompt_tokens or []
        if accelerator.is_main_process:
            asked = False

            def score(pairs: Mapping[int, npt.NDArray[np.int64]]) -> npt.NDArray[np.float64]:
                nonlocal asked
                asked = True
                broadcast_object_list([pairs])
                return self._score_together(prompts, everyone, mine, pairs)

            error: Exception | None = None
            observation = Observation(self.watching.generation)
            try:
                observation = self.watching.observe(self._rollouts(everyone, outcomes), score)
            except Exception as raised:
                error = raised
            if not asked:
                broadcast_object_list([None])
            # Reports are large, and the others need what follows from them alone.
            told = Observation(**(vars(observation) | {"report": None}))
            broadcast_object_list([(told, error if error is None else f"{type(error).__name__}: {error}")])
            if error is not None:
                raise error
            return observation
        wanted: list[Any] = [None]
        broadcast_object_list(wanted)
        if wanted[0] is not None:
            # Where a rank fails to score, all are told so when the scores are gathered.
            with contextlib.suppress(CollapsarError):
                self._score_together(prompts, everyone, mine, wanted[0])
        answer: list[Any] = [None]
        broadcast_object_list(answer)
        told_observation: Observation = answer[0][0]
        failure: str | None = answer[0][1]
        self.watching.generation = told_observation.step
        if failure is not None:
            raise CollapsarError(f"the first process: {failure}", "ERR_SIDECAR")
        return told_observation

    def _score_together(
        self,
        prompts: Sequence[Sequence[int]],
        everyone: list[dict[str, Any]],
        mine: slice,
        pairs: Mapping[int, npt.NDArray[np.int64]],
    ) -> npt.NDArray[np.float64]:
        """Each rank scores its own rows; [R, P] on all of them."""
        own = {
            prompt: np.asarray([row - mine.start for row in rows if mine.start <= row < mine.stop], dtype=np.int64)
            for prompt, rows in pairs.items()
        }
        found: Any
        try:
            found = self._score(prompts, everyone[mine], own, self._most_passes)
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        parts = gather_object([found])
        for rank, part in enumerate(parts):
            if isinstance(part, str):
                raise CollapsarError(f"process {rank} could not score: {part}", "ERR_SCORES")
        return np.concatenate(parts)

    def _most_passes(self, planned: int) -> int:
        return int(max(gather_object([planned])))

    def _score(
        self,
        prompts: Sequence[Sequence[int]],
        rows: Sequence[Mapping[str, Any]],
        pairs: Mapping[int, npt.NDArray[np.int64]],
        passes: Callable[[int], int] | None,
    ) -> npt.NDArray[np.float64]:
        trainer = self.trainer
        return cross_scores(
            self._scored_model(),
            prompts,
            [Row(row["ids"][: row["span"].end], row["span"].start) for row in rows],
            pairs=pairs,
            temperature=float(getattr(trainer, "temperature", 1.0) or 1.0),
            max_tokens=self._max_tokens,
            cache=self._cache,
            passes=passes,
            autocast=trainer.accelerator.autocast,
        )

    def _scored_model(self) -> torch.nn.Module:
        """Sharded parameters come together in the wrapper's forward alone; DDP's would synchronise, and is left out."""
        trainer = self.trainer
        sharded = getattr(trainer, "is_fsdp_enabled", False) or getattr(trainer, "is_deepspeed_enabled", False)
        model = trainer.model_wrapped if sharded else trainer.accelerator.unwrap_model(trainer.model)
        return model  # type: ignore[no-any-return]

    def _local_rows(self, output: Mapping[str, Any]) -> list[dict[str, Any]]:
        """This rank's rows as they were generated, without padding."""
        trainer = self.trainer
        prompt_ids, prompt_mask = output["prompt_ids"].tolist(), output["prompt_mask"].bool().tolist()
        completion_ids = output["completion_ids"].tolist()
        completion_mask = output["completion_mask"].sum(-1).tolist()
        tool_mask = output["tool_mask"].tolist() if output.get("tool_mask") is not None else None
        masks_truncated = bool(getattr(trainer, "mask_truncated_completions", False))
        rows = []
        for at, ids in enumerate(completion_ids):
            # A row that is masked for being cut off has no mask left to count.
            length = completion_mask[at]
            own = None if tool_mask is None else tool_mask[at]
            if length == 0 and masks_truncated:
                length, own = self._unpadded(ids), None
            # Padded on the left: selected by the mask, as its tokens may be the text's, too.
            prompt = [token for token, is_real in zip(prompt_ids[at], prompt_mask[at], strict=True) if is_real]
            completion = ids[:length]
            span = self._finder.find(completion, prompt, None if own is None else own[:length])
            rows.append({"prompt": prompt, "ids": completion, "span": span})
        return rows

    def _local_environments(self, inputs: Sequence[Mapping[str, Any]], rows: int) -> list[str | None]:
        """Of this rank's rows, as the data set has them."""
        name = self._environment
        if name is None:
            return [None] * rows
        if len(inputs) != rows:
            return [None] * rows
        found = [example.get(name) if isinstance(name, str) else name(dict(example)) for example in inputs]
        return [None if value is None else str(value) for value in found]

    def _unpadded(self, ids: list[int]) -> int:
        tokenizer = getattr(self.trainer.processing_class, "tokenizer", self.trainer.processing_class)
        length = len(ids)
        while length > 0 and ids[length - 1] == tokenizer.pad_token_id:
            length -= 1
        return length

    def _rollouts(self, rows: list[dict[str, Any]], outcomes: Sequence[float] | None) -> Rollouts:
        """Groups are ``num_generations`` rows together over all processes."""
        size = int(self.trainer.num_generations)
        groups = [at // size for at in range(len(rows))]
        prompts: list[list[int]] = [rows[at]["prompt"] for at in range(0, len(rows), size)]
        if any(row["prompt"] != prompts[group] for row, group in zip(rows, groups, strict=True)):
            groups, prompts = _by_prompt(rows, size)
        spans: list[Span] = [row["span"] for row in rows]
        return Rollouts(
            groups=groups,
            rewards=self._total_rewards(len(rows)),
            lengths=[span.length for span in spans],
            tokens=[row["ids"][span.start : span.end] for row, span in zip(rows, spans, strict=True)],
            prompt_tokens=prompts,
            valid=[span.valid for span in spans],
            truncated=[span.truncated for span in spans],
            response_lengths=[len(row["ids"]) for row in rows],
            outcomes=self._row_outcomes(outcomes),
            environments=None if self._environment is None else [row["environment"] for row in rows],
        )

    def _total_rewards(self, rows: int) -> npt.NDArray[np.float32] | None:
        """The weighted sum that TRL makes advantages of; NaN where no function gave a reward."""
        if self._rewards is None or len(self._rewards) != rows:
            return None
        rewards = self._rewards
        total = (rewards * self.trainer.reward_weights.to(rewards.device).unsqueeze(0)).nansum(dim=1)
        total[torch.isnan(rewards).all(dim=1)] = torch.nan
        return total.float().cpu().numpy()  # type: ignore[no-any-return]

    def _row_outcomes(self, outcomes: Sequence[float] | None) -> npt.NDArray[Any] | None:
        if outcomes is None and self._outcome_at is not None and self._rewards is not None:
            outcomes = self._rewards[:, self._outcome_at].tolist()
        if outcomes is None or not np.isfinite(outcomes).all():
            return None
        return np.asarray(outcomes, dtype=np.float64)

    # ---- the filter

    def _apply(self, output: dict[str, Any], observation: Observation) -> None:
        """Takes dropped rows out of the loss: policy term, KL and entropy alike.

        Their mask goes, and with it their tokens from every normaliser. Zero advantages would leave the KL term, and
        the tokens in the denominator.
        """
        self._kept, self._loss_scale = None, observation.loss_scale
        keep = observation.keep
        if keep is None or bool(keep.all()):
            if self._loss_scale != 1.0:
                self._kept = _Kept()
            return
        accelerator = self.trainer.accelerator
        completion_mask = output["completion_mask"]
        count = completion_mask.shape[0]
        first = accelerator.process_index * count
        mine = torch.as_tensor(keep[first : first + count], device=completion_mask.device)
        kept = float(keep.mean())
        scale = 1.0 / kept if kept > 0 and self._counts_rows() else 1.0
        output["advantages"] = output["advantages"] * scale
        if not hasattr(self.trainer, "loss_type"):
            # RLOO's loss is one number a row, whose advantage alone it has (KL is part of the reward).
            shape = [-1] + [1] * (output["advantages"].dim() - 1)
            output["advantages"] = output["advantages"] * mine.view(shape).to(output["advantages"].dtype)
            self._kept = _Kept(scale)
            return
        tool_mask = output.get("tool_mask")
        mask = torch.ones_like(completion_mask) if tool_mask is None else tool_mask
        output["tool_mask"] = mask * mine.unsqueeze(1).to(mask.dtype)
        tokens = accelerator.gather((completion_mask * output["tool_mask"]).sum()).sum()
        if output.get("num_items_in_batch") is not None:
            output["num_items_in_batch"] = tokens
        parts = int(self.trainer.args.steps_per_generation) * accelerator.num_processes
        self._kept = _Kept(scale, float(tokens) / parts)

    def _counts_rows(self) -> bool:
        loss = getattr(self.trainer, "loss_type", None)
        return loss is None or loss in MEANS_OVER_ROWS

    def _check_filter(self) -> None:
        trainer = self.trainer
        loss = getattr(trainer, "loss_type", None)
        if loss is not None and loss not in MEANS_OVER_ROWS + MEANS_OVER_TOKENS:
            known = ", ".join(MEANS_OVER_ROWS + MEANS_OVER_TOKENS)
            raise ArgumentError(f"cannot be applied to loss_type {loss!r}; known are {known}", "filter")
        if getattr(trainer, "use_liger_kernel", False) or getattr(trainer, "use_liger_loss", False):
            raise ArgumentError("cannot be applied to Liger's fused loss: train without use_liger_kernel", "filter")

    # ---- arguments

    def _check_environment(self) -> None:
        """A name that the data set does not have is found before training begins."""
        columns = getattr(getattr(self.trainer, "train_dataset", None), "column_names", None)
        name = self._environment
        if isinstance(name, str) and isinstance(columns, list) and name not in columns:
            raise ArgumentError(f"got {name!r}, expected a column of the data set: {', '.join(columns)}", "environment")

    def _find_outcome(self, outcome: Outcome | None) -> int | None:
        if outcome is None or callable(outcome):
            return None
        names = list(getattr(self.trainer, "reward_func_names", []))
        if isinstance(outcome, int) and 0 <= outcome < len(names):
            return outcome
        if outcome in names:
            return names.index(outcome)
        raise ArgumentError(f"got {outcome!r}, expected a reward function: {', '.join(names)}", "outcome")


@dataclass(frozen=True)
class _Kept:
    """What the loss of a generation must know of the rows that the filter keeps."""

    #: 1 / their share of all rows, where the loss is a mean over rows
    scale: float = 1.0
    #: their tokens in a micro-batch, on average over all of the generation; None where that does not matter
    mean_tokens: float | None = None

    def tokens_weight(self, inputs: Mapping[str, Any]) -> float:
        """Weight of a micro-batch: with it, a mean of its means over tokens is the mean over all tokens."""
        if not self.mean_tokens:
            return 1.0
        return float((inputs["completion_mask"] * inputs["tool_mask"]).sum()) / self.mean_tokens


@contextlib.contextmanager
def _changed(owner: Any, attributes: Mapping[str, float]) -> Iterator[None]:
    """Attributes with other values for a while."""
    before = {name: getattr(owner, name) for name in attributes if hasattr(owner, name)}
    try:
        for name in before:
            setattr(owner, name, attributes[name])
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


def _by_prompt(rows: list[dict[str, Any]], size: int) -> tuple[list[int], list[list[int]]]:
    """Groups of rows whose environment reset to different observations: by what they really saw."""
    numbers: dict[tuple[int, tuple[int, ...]], int] = {}
    for at, row in enumerate(rows):
        numbers.setdefault((at // size, tuple(row["prompt"])), len(numbers))
    groups = [numbers[at // size, tuple(row["prompt"])] for at, row in enumerate(rows)]
    return groups, [list(prompt) for _, prompt in numbers]
