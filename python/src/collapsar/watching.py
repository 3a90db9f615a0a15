"""What the hooks of all trainers share: a run's monitor, the figures that are logged, verdicts said once, errors."""

from __future__ import annotations

import json
import logging
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from .errors import ArgumentError, StateError
from .monitor import Json, Monitor, Report

logger = logging.getLogger("collapsar")

#: negatives a row where there are many prompts
NEGATIVES = 4
#: from so many prompts on
MANY_PROMPTS = 16

#: number of each regime in logs, where figures are numbers; -1: undecided
REGIMES = {"diverse": 0, "template_collapse": 1, "compressed": 2, "low_entropy_collapse": 3}


@dataclass
class Rollouts:
    """One generation of a trainer: R rows, in the order in which it holds them."""

    #: [R] prompt of each row, by number
    groups: Sequence[int]
    #: [R] total reward; NaN where there is none
    rewards: Sequence[float] | npt.NDArray[Any] | None = None
    #: [R] reasoning tokens
    lengths: Sequence[int] | None = None
    #: [R] token ids of the reasoning
    tokens: Sequence[Sequence[int]] | None = None
    #: or [R] its text
    texts: Sequence[str] | None = None
    #: token ids of each prompt, by rising group
    prompt_tokens: Sequence[Sequence[int]] | None = None
    #: or [R] the text of each row's prompt
    prompts: Sequence[str] | None = None
    #: [R] the reasoning was well formed
    valid: Sequence[bool] | None = None
    #: [R] the row was cut off by the length limit
    truncated: Sequence[bool] | None = None
    #: [R] tokens of the whole response
    response_lengths: Sequence[int] | None = None
    #: [R] task success
    outcomes: Sequence[float] | npt.NDArray[Any] | None = None
    #: [R] token mean of the policy's entropy
    entropies: Sequence[float] | None = None


#: given prompt -> rows: [R, P] sums, NaN where nothing was asked
Score = Callable[[Mapping[int, npt.NDArray[np.int64]]], npt.ArrayLike]


@dataclass
class Observation:
    """What one generation came to."""

    step: int
    #: keys and values for the trainer's logger
    logged: dict[str, float] = field(default_factory=dict)
    #: [R] rows to train on; None: all
    keep: npt.NDArray[np.bool_] | None = None
    loss_scale: float = 1.0
    #: a sentence that says why the run should end
    stop: str | None = None
    #: sentences of verdicts that are new
    verdicts: list[str] = field(default_factory=list)
    report: dict[str, Json] | None = None
    seconds: float = 0.0


class Watching:
    """One run: a monitor that is opened with the first generation, when the number of prompts is known.

    Args:
        every: cross-scores every so many generations, and at the run's start; ``"never"``: none.
        filter: options of docs/reference/filter.md: ``{"strategy": "top_p", "value": 0.9}``; None: train on everything.
        negatives: prompts besides its own that each row is scored under; ``"auto"``: 4 from 16 prompts on, all below;
            None: all.
        texts: figures of the texts at every step.
        log: ``"default"``: at most ten figures a step; ``"all"``: everything.
        stop: whether an early stop of the monitor ends the run.
        on_error: ``"warn"``: say it once and train on without figures; ``"raise"``.
        options: more options of docs/guide/monitor.md, in snake_case.
        threads, node, timeout, serve, to: of ``collapsar.Monitor``.
    """

    def __init__(
        self,
        *,
        every: int | Literal["never"] = 5,
        filter: Mapping[str, Json] | None = None,
        negatives: int | Literal["auto"] | None = "auto",
        texts: bool = True,
        log: Literal["default", "all"] = "default",
        stop: bool = False,
        on_error: Literal["warn", "raise"] = "warn",
        options: Mapping[str, Json] | None = None,
        threads: int | None = None,
        node: str | None = None,
        timeout: float = 600.0,
        serve: int | None = None,
        to: Sequence[str] = (),
        prefix: str = "collapsar/",
    ):
        if log not in ("default", "all"):
            raise ArgumentError(f"got {log!r}, expected 'default' or 'all'", "log")
        if on_error not in ("warn", "raise"):
            raise ArgumentError(f"got {on_error!r}, expected 'warn' or 'raise'", "on_error")
        if not (every == "never" or (isinstance(every, int) and every >= 1)):
            raise ArgumentError(f"got {every!r}, expected a number of generations from 1 on, or 'never'", "every")
        self.every = every
        self.filter = None if filter is None else dict(filter)
        self.negatives = negatives
        self.texts = texts
        self.log = log
        self.stop = stop
        self.on_error = on_error
        self.prefix = prefix
        #: generations seen so far
        self.generation = 0
        #: the last report
        self.report: dict[str, Json] | None = None
        #: why there are no more figures, or None
        self.failure: Exception | None = None
        #: seconds spent here, beside scoring
        self.seconds = 0.0
        self._options = dict(options or {})
        self._process: dict[str, Any] = {
            "threads": threads,
            "node": node,
            "timeout": timeout,
            "serve": serve,
            "to": to,
        }
        self._monitor: Monitor | None = None
        self._state: Mapping[str, Json] | None = None

    def observe(self, rollouts: Rollouts, score: Score | None = None) -> Observation:
        """Takes one generation; ``score`` is called where cross-scores are due.

        Raises:
            Exception: what failed, with ``on_error="raise"``. Otherwise it is told once, and the observation is empty.
        """
        self.generation += 1
        if self.failure is not None:
            return Observation(self.generation)
        try:
            return self._observe(rollouts, score)
        except Exception as error:
            self.fail(error)
            return Observation(self.generation)

    def fail(self, error: Exception) -> None:
        """Ends the watch, or the run: as ``on_error`` says.

        Raises:
            Exception: the error, with ``on_error="raise"``.
        """
        self.close()
        self.failure = error
        if self.on_error == "raise":
            raise error
        logger.warning(
            "collapsar stops watching at generation %d, and training goes on unwatched%s: %s: %s",
            self.generation,
            "" if self.filter is None else " and unfiltered",
            type(error).__name__,
            error,
        )

    def save(self) -> dict[str, Json]:
        """What the next generations depend on, as plain JSON."""
        state = self._state if self._monitor is None else self._monitor.save()
        return {"format": "collapsar/watch", "version": 1, "generation": self.generation, "monitor": state}

    def restore(self, saved: Mapping[str, Json]) -> None:
        """Continues from what ``save`` gave."""
        if saved.get("format") != "collapsar/watch" or saved.get("version") != 1:
            found = f"format {saved.get('format')!r}, version {saved.get('version')!r}"
            raise StateError(f"got {found}, expected what save() of this release gives")
        self.close()
        self.failure = None
        self.generation = int(saved["generation"])
        self._state = saved["monitor"]

    def close(self) -> None:
        """Ends the sidecar, if there is one."""
        if self._monitor is not None:
            self._monitor.close()
            self._monitor = None

    def _observe(self, rollouts: Rollouts, score: Score | None) -> Observation:
        began = time.perf_counter()
        scoring = 0.0
        monitor = self._open(rollouts)
        outcomes = self._outcomes(rollouts)
        never = score is None or rollouts.lengths is None
        rows = self._text_rows(rollouts)
        step = monitor.step(
            self.generation,
            groups=rollouts.groups,
            lengths=rollouts.lengths,
            prompt_tokens=rollouts.prompt_tokens,
            due=False if never else None,
        )
        if rows is not None:
            step.rollouts(**rows)
        if step.due and score is not None:
            before = time.perf_counter()
            sums = score(step.pairs)
            scoring = time.perf_counter() - before
            step.score_all(sums)
        report = step.finish(**outcomes)
        seconds = time.perf_counter() - began - scoring
        self.seconds += seconds
        self.report = report.raw
        return self._observation(report, len(rollouts.groups), seconds)

    def _open(self, rollouts: Rollouts) -> Monitor:
        if self._monitor is None:
            options = dict(self._options)
            if self._state is None:
                negatives = self.negatives
                if negatives == "auto":
                    negatives = NEGATIVES if len(set(rollouts.groups)) >= MANY_PROMPTS else None
                options = {"every_steps": self.every, "negatives": negatives} | options
                if self.filter is not None:
                    # A row without a reward is none of the filter's.
                    options["filter"] = {"non_finite": "exclude"} | self.filter
            self._monitor = Monitor(state=self._state, **self._process, **options)
            self._state = None
        return self._monitor

    def _outcomes(self, rollouts: Rollouts) -> dict[str, Json]:
        rewards = rollouts.rewards
        if rewards is not None and self.filter is None and not np.isfinite(np.asarray(rewards, dtype=float)).all():
            # Only a filter says what to do with them.
            rewards = None
        named = {
            "rewards": rewards,
            "valid": None if rollouts.valid is None else [bool(valid) for valid in rollouts.valid],
            "response_lengths": rollouts.response_lengths,
            "outcomes": rollouts.outcomes,
            "entropies": rollouts.entropies,
        }
        return {name: values for name, values in named.items() if values is not None}

    def _text_rows(self, rollouts: Rollouts) -> dict[str, Json] | None:
        if not self.texts or (rollouts.tokens is None and rollouts.texts is None):
            return None
        rows: dict[str, Json] = {}
        # Groups and the prompts' tokens are the step's.
        if rollouts.tokens is not None:
            rows["tokens"] = rollouts.tokens
        else:
            rows["texts"] = list(rollouts.texts or ())
        if rollouts.prompts is not None:
            rows["prompts"] = list(rollouts.prompts)
        if rollouts.truncated is not None:
            rows["truncated"] = [bool(cut) for cut in rollouts.truncated]
        return rows

    def _observation(self, report: Report, rows: int, seconds: float) -> Observation:
        keep = report.row_mask
        if keep is not None and keep.shape != (rows,):
            raise StateError(f"the filter speaks of {keep.shape[0]} rows, expected {rows}")
        new = [verdict for verdict in report.verdicts if verdict["raised"] == report.step]
        said = [f"{verdict['severity']}: {verdict['sentence']} {verdict['advice']}" for verdict in new]
        for sentence in said:
            logger.warning("collapsar, generation %d: %s", report.step, sentence)
        figures = every_figure(report) if self.log == "all" else ten_figures(report)
        stop = report.stop
        return Observation(
            step=report.step,
            logged={self.prefix + key: value for key, value in figures.items()},
            keep=keep,
            loss_scale=report.loss_scale,
            stop=stop["sentence"] if self.stop and stop is not None else None,
            verdicts=said,
            report=report.raw,
            seconds=seconds,
        )


def hook_options(variable: str) -> tuple[dict[str, Json], str | None]:
    """Options of a hook that no line of code configures: a JSON object in an environment variable.

    Returns:
        Keyword arguments of ``Watching``, and the path of ``state``, a file that carries the run over restarts.

    Raises:
        ArgumentError: it is no JSON object.
    """
    text = os.environ.get(variable, "{}")
    try:
        given = json.loads(text)
    except ValueError as error:
        raise ArgumentError(f"is no JSON: {error}", variable) from error
    if not isinstance(given, dict):
        raise ArgumentError(f'got {text}, expected a JSON object such as {{"every": 5}}', variable)
    state = given.pop("state", None)
    return given, state


class SavedWatching(Watching):
    """A watching whose state goes into a file after every generation, for trainers whose checkpoints it cannot join."""

    def __init__(self, *, state: str | None = None, **options: Any):
        super().__init__(**options)
        self._path = state
        if state is not None and os.path.exists(state):
            with open(state, encoding="utf-8") as file:
                self.restore(json.load(file))

    def observe(self, rollouts: Rollouts, score: Score | None = None) -> Observation:
        """As ``Watching.observe``, and saves."""
        observation = super().observe(rollouts, score)
        if self._path is not None and self.failure is None:
            with open(self._path + ".tmp", "w", encoding="utf-8") as file:
                json.dump(self.save(), file)
            os.replace(self._path + ".tmp", self._path)
        return observation


def numbered(ids: Sequence[Any]) -> list[int]:
    """Numbers of any ids, in the order in which they first come."""
    numbers: dict[Any, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in ids]


def ten_figures(report: Report) -> dict[str, float]:
    """At most ten figures a step: of cross-scores where they were taken, of texts elsewhere."""
    found = report.figures
    logged = report.metrics
    certainty = report.raw.get("stepMetrics", {}).get("certainty", {})
    figures: dict[str, float | None] = {}
    if report.due and found:
        of = certainty.get("mi_seq_estimate", {})
        batch = of.get("batch", {}) if isinstance(of, Mapping) else {}
        among = [
            key for key in ("retrieval_accuracy", "retrieval_accuracy_of_4", "retrieval_accuracy_of_2") if key in found
        ]
        retrieval = among[0] if among else None
        chances = {"retrieval_accuracy_of_4": 0.25, "retrieval_accuracy_of_2": 0.5}
        chance = chances.get(retrieval or "", found.get("retrieval_chance_level"))
        figures = {
            "mi": found.get("mi_seq_estimate"),
            "mi_low": batch.get("low"),
            "mi_high": batch.get("high"),
            "mi_leave_one_out": found.get("mi_seq_loo_estimate"),
            "conditional_entropy": found.get("conditional_entropy_est"),
            "retrieval": None if retrieval is None else found[retrieval],
            "retrieval_chance": None if retrieval is None else chance,
            "p_value": of.get("pValue") if isinstance(of.get("pValue"), (int, float)) else None,
        }
    elif "text/mi_bound" in logged:
        figures = {
            "text_mi": logged.get("text/mi_bound"),
            "text_p_value": logged.get("text/mi_bound_p_value"),
            "template_share": logged.get("text/template_share"),
        }
    kept = report.row_mask
    figures["kept_share"] = None if kept is None else float(kept.mean()) if kept.size else 0.0
    if report.due:
        judgement = report.raw.get("judgement")
        regime = judgement["regime"]["regime"] if judgement else None
        figures["regime"] = float(REGIMES.get(str(regime), -1)) if judgement else None
    return _finite(figures)


def every_figure(report: Report) -> dict[str, float]:
    """The ten, and everything under its own key."""
    return ten_figures(report) | _finite(report.metrics)


def _finite(figures: Mapping[str, float | None]) -> dict[str, float]:
    """Loggers choke on what is no number."""
    return {key: float(value) for key, value in figures.items() if value is not None and math.isfinite(value)}
