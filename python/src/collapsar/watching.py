"""What the hooks of all trainers share: a run's monitor, the figures that are logged, verdicts said once, errors."""

from __future__ import annotations

import concurrent.futures
import contextlib
import inspect
import json
import logging
import math
import os
import re
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from .arrays import as_array, as_plain, is_tensor
from .errors import ArgumentError, CollapsarError, SidecarError, StateError
from .monitor import Json, Monitor, Report, Step, _camel
from .spans import Reasoning, Tags
from .state_file import read_state, write_state

logger = logging.getLogger("collapsar")

#: negatives a row where there are many prompts
NEGATIVES = 4
#: from so many prompts on
MANY_PROMPTS = 16

#: seconds without a sign of life after which a sidecar is replaced
PATIENCE = 2.0
#: seconds of a generation that a sidecar which fails and is replaced may take
STALL = 4.5
#: longest pause between attempts, in seconds
LONGEST_PAUSE = 60.0

#: of the logger
LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "critical": logging.ERROR}

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
    #: [R] environment, task or data source of each row's prompt; None where it has none
    environments: Sequence[str | None] | None = None

    def __post_init__(self) -> None:
        """Takes tensors of any library as lists; rewards keep their dtype, which says how they were rounded."""
        for column in fields(self):
            value = getattr(self, column.name)
            keeps = column.name in ("rewards", "outcomes") and is_tensor(value)
            setattr(self, column.name, as_array(value) if keeps else as_plain(value))


#: what notes of one kind differ in
_NUMBER = re.compile(r"[-+]?\d[\d.,]*(?:e[-+]?\d+)?")

#: given prompt -> rows: [R, P] sums, NaN where nothing was asked
Score = Callable[[Mapping[int, npt.NDArray[np.int64]]], npt.ArrayLike]


@dataclass
class Observation:
    """What one generation came to."""

    step: int
    #: keys and values for the trainer's logger
    logged: dict[str, float] = field(default_factory=dict)
    #: those of these keys that are categories or 0 and 1: of several steps, the last and the greatest, and no mean
    last: tuple[str, ...] = ()
    greatest: tuple[str, ...] = ()
    #: [R] rows to train on; None: all
    keep: npt.NDArray[np.bool_] | None = None
    loss_scale: float = 1.0
    #: a sentence that says why the run should end
    stop: str | None = None
    #: sentences of verdicts that are new
    verdicts: list[str] = field(default_factory=list)
    #: what to know before trusting the figures, where it was not said before
    notes: list[str] = field(default_factory=list)
    report: dict[str, Json] | None = None
    seconds: float = 0.0


class Watching:
    """One run: its monitor is opened at once, so that a wrong option is an error where it is given.

    A generation that cannot be measured is left out, and the next one is tried again, later and later while that goes
    on. A sidecar that ends or hangs is replaced within the generation, from the state after the one before: what is
    measured is what would have been measured anyway.

    Args:
        every: cross-scores every so many generations, and at the run's start; ``"never"``: none.
        filter: options of docs/reference/filter.md: ``{"strategy": "top_p", "value": 0.9}``; None: train on everything.
        negatives: prompts besides its own that each row is scored under; ``"auto"``: 4 from 16 prompts on, all below;
            None: all.
        texts: figures of the texts at every step.
        tags: what opens and closes the reasoning, for hooks that take it out of responses; None: the whole response is
            the reasoning; ``"auto"``: ``<think>``, ``</think>`` where the tokenizer or its chat template has them.
        log: ``"default"``: the figures of docs/guide/trainers/trl.md; ``"all"``: everything.
        stop: whether an early stop of the monitor ends the run.
        on_error: ``"warn"``: say it and train on, that generation unwatched and unfiltered; ``"raise"``.
        options: more options of docs/guide/monitor.md, in snake_case.
        threads, node, serve, token, to: of ``collapsar.Monitor``.
        timeout: seconds to wait for an answer of a sidecar that is at work. One that shows no sign of life for two is
            replaced.
        asks: whether this process has the monitor; of a job's processes, one has.

    Raises:
        ArgumentError: an option is unknown or out of range, whatever ``on_error`` says.
        NodeError: Node or the engine is not there.
    """

    def __init__(
        self,
        *,
        every: int | Literal["never"] = 5,
        filter: Mapping[str, Json] | None = None,
        negatives: int | Literal["auto"] | None = "auto",
        texts: bool = True,
        tags: Tags | Sequence[str] = "auto",
        log: Literal["default", "all"] = "default",
        stop: bool = False,
        on_error: Literal["warn", "raise"] = "warn",
        options: Mapping[str, Json] | None = None,
        threads: int | None = None,
        node: str | None = None,
        timeout: float = 30.0,
        serve: int | None = None,
        token: str | None = None,
        to: Sequence[str] = (),
        prefix: str = "collapsar/",
        asks: bool = True,
    ):
        if log not in ("default", "all"):
            raise ArgumentError(f"got {log!r}, expected 'default' or 'all'", "log")
        if on_error not in ("warn", "raise"):
            raise ArgumentError(f"got {on_error!r}, expected 'warn' or 'raise'", "on_error")
        if not (every == "never" or (isinstance(every, int) and not isinstance(every, bool) and every >= 1)):
            raise ArgumentError(f"got {every!r}, expected a number of generations from 1 on, or 'never'", "every")
        for name, given in (("filter", filter), ("options", options)):
            if given is not None and not isinstance(given, Mapping):
                raise ArgumentError(f"got {given!r}, expected names and values", name)
        self.every = every
        self.filter = None if filter is None else dict(filter)
        self.negatives = negatives
        self.texts = texts
        #: where the reasoning stands in responses
        self.reasoning = Reasoning(tags)
        self.log = log
        self.stop = stop
        self.on_error = on_error
        self.prefix = prefix
        #: generations seen so far
        self.generation = 0
        #: the last report
        self.report: dict[str, Json] | None = None
        #: why the last generation was left out; None where it was not
        self.failure: Exception | None = None
        #: seconds spent here, beside scoring
        self.seconds = 0.0
        self._options = dict(options or {})
        self._process: dict[str, Any] = {
            "threads": threads,
            "node": node,
            "timeout": timeout,
            "serve": serve,
            "token": token,
            "to": to,
        }
        self._asks = asks
        self._said: set[str] = set()
        self._monitor: Monitor | None = None
        #: a sidecar that starts beside the training
        self._starting: concurrent.futures.Future[Monitor] | None = None
        #: of the monitor, after the last generation that was measured
        self._state: Mapping[str, Json] | None = None
        #: generations in succession that were left out
        self._left_out = 0
        #: when to try again, and how long that was put off
        self._again = self._pause = 0.0
        self._unwritten: str | None = None
        if asks:
            self._monitor = self._new_monitor()
            if self._monitor.page is not None:
                logger.warning("collapsar shows this run at %s", self._monitor.page)

    @property
    def page(self) -> str | None:
        """Address of the live page; None where there is none."""
        return None if self._monitor is None else self._monitor.page

    @property
    def resting(self) -> bool:
        """Whether something failed, and it is too early to try again."""
        return self.failure is not None and time.monotonic() < self._again

    def observe(self, rollouts: Rollouts, score: Score | None = None) -> Observation:
        """Takes one generation; ``score`` is called where cross-scores are due, once at most.

        Raises:
            Exception: what failed, with ``on_error="raise"``. Otherwise it is told, and the observation is empty.
        """
        if self.resting:
            return self.skip()
        self.generation += 1
        try:
            observation = self._observe(rollouts, score)
        except Exception as error:
            self.fail(error)
            return Observation(self.generation)
        if self.failure is not None:
            logger.warning(
                "collapsar watches again from generation %d on; it left out %d before", self.generation, self._left_out
            )
            self.failure, self._left_out = None, 0
        return observation

    def skip(self) -> Observation:
        """Counts a generation that is not looked at."""
        self.generation += 1
        self._left_out += 1
        return Observation(self.generation)

    def fail(self, error: Exception) -> None:
        """Leaves this generation out, or ends the run: as ``on_error`` says.

        Raises:
            Exception: the error, with ``on_error="raise"``.
        """
        is_news = self.failure is None or str(self.failure) != str(error)
        # At the next generation, then after 1, 2, 4, … seconds.
        self._pause = 0.0 if self.failure is None else min(LONGEST_PAUSE, max(1.0, 2 * self._pause))
        self._again = time.monotonic() + self._pause
        self.failure = error
        self._left_out += 1
        if self.on_error == "raise":
            raise error
        if is_news:
            logger.warning(
                "collapsar stops watching at generation %d, and training goes on unwatched%s till it can: %s: %s",
                self.generation,
                "" if self.filter is None else " and unfiltered",
                type(error).__name__,
                error,
            )

    def note(self, text: str) -> bool:
        """Says what to know before trusting the figures, each kind once a run: notes that differ in numbers are of one.

        Returns:
            Whether it was new.
        """
        kind = _NUMBER.sub("#", text)
        if kind in self._said:
            return False
        self._said.add(kind)
        logger.warning("collapsar, generation %d, note: %s", self.generation, text)
        return True

    def note_reasoning(self, tokenizer: Any) -> None:
        """Says it where the whole response is taken for the reasoning, though nobody asked for that."""
        if self.texts and self.reasoning.tags is not None and not self.reasoning.has_tags(tokenizer):
            why = "there is no tokenizer" if tokenizer is None else "the tokenizer has no <think>"
            self.note(
                f"the whole response is measured, answer and all, as {why}: where answers depend on the prompt, "
                'reasoning that does not would go unseen. Name what stands around the reasoning (tags=("…", "…")), '
                "or say tags=None"
            )

    def save(self) -> dict[str, Json]:
        """What the next generations depend on, as plain JSON: of the last generation that was measured.

        Raises:
            StateError: there have been generations, and none of them was measured.
        """
        if self._state is None and self.generation > 0:
            raise StateError(f"none of {self.generation} generations was measured, so there is nothing to go on from")
        return {
            "format": "collapsar/watch",
            "version": 1,
            "generation": self.generation,
            "notes": sorted(self._said),
            "monitor": self._state,
        }

    def restore(self, saved: Mapping[str, Json]) -> None:
        """Continues from what ``save`` gave.

        Raises:
            StateError: it is foreign or damaged; all is as it was then.
        """
        if saved.get("format") != "collapsar/watch" or saved.get("version") != 1:
            found = f"format {saved.get('format')!r}, version {saved.get('version')!r}"
            raise StateError(f"got {found}, expected what save() of this release gives")
        generation, state, notes = saved.get("generation"), saved.get("monitor"), saved.get("notes", [])
        if not isinstance(generation, int) or not (state is None or isinstance(state, Mapping)):
            raise StateError(f"got generation {generation!r} and a monitor of {type(state).__name__}: it is damaged")
        if not (isinstance(notes, list) and all(isinstance(note, str) for note in notes)):
            raise StateError(f"got notes {notes!r}, expected a list of text: it is damaged")
        if self._asks:
            self._take(state)
            if state is not None:
                self._adopt_options()
        self._said.update(notes)
        self._state, self.generation, self.failure, self._left_out = state, generation, None, 0

    def resume(self, path: str) -> None:
        """Continues from a file; where that cannot be, it is told, and the watch begins anew.

        Raises:
            Exception: what is wrong with it, with ``on_error="raise"``.
        """
        try:
            self.restore(read_state(path))
        except (OSError, CollapsarError) as error:
            if self.on_error == "raise":
                raise
            logger.warning("collapsar: the watch begins anew with generation 1, as %s: %s", type(error).__name__, error)

    def write(self, path: str) -> None:
        """Saves into a file; where that cannot be, it is told, and training goes on, watched.

        Raises:
            Exception: what is wrong, with ``on_error="raise"``.
        """
        try:
            write_state(path, self.save())
            self._unwritten = None
        except (OSError, CollapsarError) as error:
            if self.on_error == "raise":
                raise
            if self._unwritten != str(error):
                self._unwritten = str(error)
                logger.warning("collapsar: generation %d is not saved, training goes on: %s", self.generation, error)

    def close(self) -> None:
        """Ends the sidecar, if there is one; a generation that comes after all starts another from where this stood."""
        monitor, self._monitor = self._monitor, None
        if monitor is not None:
            monitor.close()
        self._drop_started()

    def __getstate__(self) -> dict[str, Any]:
        """Copies in other processes start a sidecar of their own."""
        return vars(self) | {"_monitor": None, "_starting": None}

    def _observe(self, rollouts: Rollouts, score: Score | None) -> Observation:
        began = time.perf_counter()
        once = None if score is None else _Once(score)

        def spent() -> float:
            return time.perf_counter() - began - (0.0 if once is None else once.seconds)

        lost: SidecarError | None = None
        while True:
            monitor = self._ready(STALL - spent())
            monitor.patience = min(PATIENCE, max(0.5, STALL - spent()))
            # Two cannot show the page at one address.
            monitor.on_silence = None if monitor.page is not None else self._start
            try:
                report = self._measure(monitor, rollouts, once)
                self._state = monitor.save()
                break
            except SidecarError as error:
                self._monitor = None
                monitor.close()
                self._start()
                if lost is not None:
                    raise
                lost = error
        self._drop_started()
        if lost is not None:
            logger.warning("collapsar: %s; another took its place at generation %d", lost, self.generation)
        seconds = spent()
        self.seconds += seconds
        self.report = report.raw
        return self._observation(report, len(rollouts.groups), seconds)

    def _measure(self, monitor: Monitor, rollouts: Rollouts, score: Score | None) -> Report:
        if self._state is None:
            options = self._run_options(len(set(rollouts.groups)))
            if options["negatives"] != monitor.options["negatives"]:
                monitor.reopen(**options)
        outcomes = self._outcomes(rollouts)
        never = score is None or rollouts.lengths is None
        rows = self._text_rows(rollouts)
        step = monitor.step(
            self.generation,
            groups=rollouts.groups,
            lengths=rollouts.lengths,
            prompt_tokens=rollouts.prompt_tokens,
            environments=rollouts.environments,
            due=False if never else None,
        )
        with _aborted(step):
            if rows is not None:
                step.rollouts(**rows)
            if step.due and score is not None:
                step.score_all(score(step.pairs))
            return step.finish(**outcomes)

    def _ready(self, seconds: float) -> Monitor:
        """The monitor; one that is starting is waited for, but not for longer than training should be."""
        if self._monitor is not None and self._monitor.is_usable:
            return self._monitor
        self._start()
        assert self._starting is not None
        try:
            # Ending a run is worse than holding it up.
            self._monitor = self._starting.result(None if self.on_error == "raise" else max(0.1, seconds))
        except concurrent.futures.TimeoutError:
            raise SidecarError("a new sidecar is starting, and has not answered yet") from None
        except Exception:
            self._starting = None
            raise
        self._starting = None
        return self._monitor

    def _take(self, state: Mapping[str, Json] | None) -> None:
        """Has the monitor go on from a state, or begin; its page stays where it can."""
        if self._monitor is not None and self._monitor.is_usable and state is not None:
            with contextlib.suppress(SidecarError):
                self._monitor.restore(state, **self._options)
                return
        self.close()
        before, self._state = self._state, state
        try:
            self._monitor = self._new_monitor()
        except BaseException:
            self._state = before
            raise

    def _adopt_options(self) -> None:
        """Goes on as the run was begun, which its figures depend on, and says so where other options are given."""
        assert self._monitor is not None
        begun = self._monitor.options
        every, filtered, negatives = begun["everySteps"], begun["filter"], begun["negatives"]
        told = []
        if every != self.every:
            told.append(f"every={every!r} (not {self.every!r})")
        wanted = None if self.filter is None else _camel(self.filter)
        is_filtered = isinstance(filtered, Mapping)
        if (wanted is not None) != is_filtered or any(filtered.get(name) != of for name, of in (wanted or {}).items()):
            told.append(f"filter={filtered!r} (not {self.filter!r})")
        if self.negatives not in ("auto", negatives):
            told.append(f"negatives={negatives!r} (not {self.negatives!r})")
        if told:
            how = ", ".join(told)
            logger.warning(
                "collapsar: the resumed run goes on as it was begun, with %s: other options need a new run", how
            )
        self.every, self.filter = every, filtered

    def _start(self) -> None:
        """Starts a sidecar beside the training, if none is starting."""
        if self._starting is not None:
            return
        started: concurrent.futures.Future[Monitor] = concurrent.futures.Future()

        def run() -> None:
            try:
                started.set_result(self._new_monitor())
            except BaseException as error:
                started.set_exception(error)

        self._starting = started
        threading.Thread(target=run, name="collapsar", daemon=True).start()

    def _drop_started(self) -> None:
        """Ends one that is not needed."""
        starting, self._starting = self._starting, None
        if starting is not None:
            starting.add_done_callback(_close_started)

    def _new_monitor(self) -> Monitor:
        """Opened from the last state, or as a new run."""
        state = self._state
        options = self._options if state is not None else self._run_options()
        monitor = Monitor(state=state, **self._process, **options)
        if monitor.page is not None:
            # One that takes its place is found at the same address.
            address = urllib.parse.urlsplit(monitor.page)
            self._process["serve"] = address.port
            self._process["token"] = urllib.parse.parse_qs(address.query).get("token", [""])[0]
        return monitor

    def _run_options(self, prompts: int = 0) -> dict[str, Json]:
        """Of a new run whose generations have so many prompts; that is known with the first one."""
        negatives = self.negatives
        if negatives == "auto":
            negatives = NEGATIVES if prompts >= MANY_PROMPTS else None
        options = {"every_steps": self.every, "negatives": negatives} | self._options
        if self.filter is not None:
            # A row without a reward is none of the filter's.
            options["filter"] = {"non_finite": "exclude"} | self.filter
        return options

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
        new = [verdict for verdict in report.verdicts if verdict["said"] == report.step]
        said = [f"{verdict['severity']}: {verdict['sentence']} {verdict['advice']}" for verdict in new]
        for verdict, sentence in zip(new, said, strict=True):
            logger.log(LEVELS[verdict["severity"]], "collapsar, generation %d: %s", report.step, sentence)
        notes = [note for note in report.notes if self.note(note)]
        figures = every_figure(report) if self.log == "all" else main_figures(report)
        stop = report.stop
        return Observation(
            step=report.step,
            logged={self.prefix + key: value for key, value in figures.items()},
            last=(self.prefix + "regime",),
            greatest=(self.prefix + "alarm",),
            keep=keep,
            loss_scale=report.loss_scale,
            stop=stop["sentence"] if self.stop and stop is not None else None,
            verdicts=said,
            notes=notes,
            report=report.raw,
            seconds=seconds,
        )


def hook_options(variable: str, others: Sequence[str] = ()) -> tuple[dict[str, Json], str | None]:
    """Options of a hook that no line of code configures: a JSON object in an environment variable.

    Args:
        variable: its name.
        others: names of options that are the hook's own.

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
    known = [*others, *(name for name in inspect.signature(Watching).parameters if name not in ("prefix", "asks"))]
    for name in given:
        if name not in known:
            raise ArgumentError(f"unknown option {name!r}; known are state, {', '.join(known)}", variable)
    return given, state


class SavedWatching(Watching):
    """A watching whose state goes into a file after every generation, for trainers whose checkpoints it cannot join.

    A file that is cut is told of, kept beside as ``….damaged``, and the watch begins anew.

    Raises:
        StateError: the file is something else, which must not be overwritten.
    """

    def __init__(self, *, state: str | None = None, **options: Any):
        super().__init__(**options)
        self._path = state
        if state is None or not os.path.exists(state):
            return
        try:
            found = read_state(state)
        except (OSError, CollapsarError) as error:
            if self.on_error == "raise":
                self.close()
                raise
            with contextlib.suppress(OSError):
                os.replace(state, f"{state}.damaged")
            logger.warning("collapsar: the watch begins anew with generation 1, as %s: %s", type(error).__name__, error)
            return
        try:
            self.restore(found)
        except BaseException:
            self.close()
            raise

    def observe(self, rollouts: Rollouts, score: Score | None = None) -> Observation:
        """As ``Watching.observe``, and saves."""
        observation = super().observe(rollouts, score)
        if self._path is not None and self.failure is None:
            self.write(self._path)
        return observation


class _Once:
    """A generation's scores, taken once: a sidecar that takes another's place asks for the same ones."""

    def __init__(self, score: Score):
        self._score = score
        self._pairs: Mapping[int, npt.NDArray[np.int64]] | None = None
        self._sums: npt.ArrayLike = ()
        self.seconds = 0.0

    def __call__(self, pairs: Mapping[int, npt.NDArray[np.int64]]) -> npt.ArrayLike:
        if self._pairs is None:
            began = time.perf_counter()
            try:
                self._sums = self._score(pairs)
            finally:
                self.seconds = time.perf_counter() - began
            self._pairs = pairs
        elif pairs.keys() != self._pairs.keys() or any(
            not np.array_equal(rows, self._pairs[prompt]) for prompt, rows in pairs.items()
        ):
            raise StateError("the sidecar that was started again asks for the scores of other pairs")
        return self._sums


@contextlib.contextmanager
def _aborted(step: Step) -> Iterator[None]:
    """Gives a step up that is not finished."""
    try:
        yield
    except SidecarError:
        raise
    except BaseException:
        with contextlib.suppress(CollapsarError):
            step.abort()
        raise


def _close_started(started: concurrent.futures.Future[Monitor]) -> None:
    if started.exception() is None:
        started.result().close()


def first_and_last(executions: Sequence[Any]) -> list[tuple[int, int]]:
    """Places of the first and the last row of each execution (trajectory, session), in the order of the first ones.

    An execution of several turns is one draw given its prompt: its first turn is the one that has seen the prompt
    alone, and its last one is what it was rewarded for.
    """
    places: dict[Any, tuple[int, int]] = {}
    for at, execution in enumerate(executions):
        places[execution] = (places[execution][0] if execution in places else at, at)
    return list(places.values())


def numbered(ids: Sequence[Any]) -> list[int]:
    """Numbers of any ids, in the order in which they first come."""
    numbers: dict[Any, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in ids]


def main_figures(report: Report) -> dict[str, float]:
    """A few figures a step: of cross-scores where they were taken, of texts, and whether there is an alarm."""
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
            # Of a batch of several environments, what tells prompts of one environment apart: with it, there are ten.
            **(
                {"mi_within": found["mi_within"]}
                if "mi_within" in found
                else {"mi_leave_one_out": found.get("mi_seq_loo_estimate")}
            ),
            "conditional_entropy": found.get("conditional_entropy_est"),
            "retrieval": None if retrieval is None else found[retrieval],
            "retrieval_chance": None if retrieval is None else chance,
            "p_value": of.get("pValue") if isinstance(of.get("pValue"), (int, float)) else None,
        }
    if "text/mi_bound" in logged:
        figures |= {
            "text_mi": logged.get("text/mi_bound"),
            "text_mi_within": logged.get("text/mi_bound_within"),
            "text_p_value": report.certainty.get("text/mi_bound_p_value"),
            "template_share": logged.get("text/template_share"),
        }
    kept = report.row_mask
    figures["kept_share"] = None if kept is None else float(kept.mean()) if kept.size else 0.0
    judgement = report.raw.get("judgement")
    if judgement:
        figures["alarm"] = float(any(verdict["severity"] != "info" for verdict in report.verdicts))
        if report.due:
            figures["regime"] = float(REGIMES.get(str(judgement["regime"]["regime"]), -1))
    return _finite(figures)


def every_figure(report: Report) -> dict[str, float]:
    """These, and everything under its own key."""
    return main_figures(report) | _finite(report.metrics)


def _finite(figures: Mapping[str, float | None]) -> dict[str, float]:
    """Loggers choke on what is no number."""
    return {key: float(value) for key, value in figures.items() if value is not None and math.isfinite(value)}
