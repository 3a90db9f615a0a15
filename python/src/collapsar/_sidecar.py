"""The engine's process: lines out, lines back, and no wait without an end."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .errors import ArgumentError, SidecarError, from_answer

#: bytes a second that even a busy sidecar takes in
TAKES = 20e6
PING = b'{"id":"ping'
#: times the patience that a process gets which computes, and says nothing
BUSY = 4
#: seconds in which a process that was told to end does
ENDS_WITHIN = 5.0


class Sidecar:
    """A child process that answers lines of JSON.

    Threads of their own write to it and read from it: a pipe cannot be waited for with a limit everywhere, and a line
    that was begun is written to its end whatever becomes of the call that gave it.

    Raises:
        SidecarError: it does not start.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None):
        try:
            # In a session of its own: Ctrl-C is for the trainer, which may want to save before it ends. What it says
            # besides goes through a pipe, too: a file could be on a disk that is full.
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                # A limit on the size of files is an error of a write, as it is here, and no end.
                restore_signals=False,
                env=None if environment is None else {**os.environ, **environment},
            )
        except OSError as error:
            raise SidecarError(f"{' '.join(command)} does not start: {error}") from error
        self._id = 0
        self._requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._said: collections.deque[bytes] = collections.deque(maxlen=64)
        #: when it last took or gave something
        self._alive = time.monotonic()
        self._pings = self._pongs = 0
        self._threads = [
            threading.Thread(target=run, name="collapsar", daemon=True)
            for run in (self._write, self._read, self._drain)
        ]
        for thread in self._threads:
            thread.start()

    def ask(
        self,
        request: Mapping[str, Any],
        timeout: float,
        patience: float | None,
        on_silence: Callable[[], None] | None = None,
    ) -> dict[str, Any]:
        """Asks one question; writing it and waiting for its answer have one deadline.

        Args:
            request: without its id.
            timeout: seconds for an answer.
            patience: seconds without a sign of life (bytes taken, an answer to a ping), after which a process is given
                up that may be stopped; one that is seen to compute has four times as long. None: only ``timeout``
                counts.
            on_silence: called when a third of that has gone by, and again at the second.

        Raises:
            CollapsarError: what it answers.
            SidecarError: it has ended, does not answer in time, or says what nobody can read. It is ended then.
        """
        self._id += 1
        try:
            line = json.dumps({"id": self._id, **request}, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"is not plain JSON: {error}", str(request.get("op"))) from error
        began = self._alive = time.monotonic()
        if patience is not None:
            patience += len(line) / TAKES
        computed, busy = self._computed(), began
        self._requests.put(line)
        while True:
            now = time.monotonic()
            left, given = began + timeout - now, timeout
            if patience is not None:
                # On a machine that is very busy it may not get to answer.
                heard_of = max(self._alive, min(busy, self._alive + (BUSY - 1) * patience))
                if heard_of + patience - now < left:
                    left, given = heard_of + patience - now, patience
            try:
                # Once more at the end: this process may itself have been stopped for a while.
                heard = self._answers.get(timeout=max(0.05, left if patience is None else min(left, patience / 3)))
            except queue.Empty:
                if left <= 0:
                    self.kill()
                    raise SidecarError(f"the sidecar did not answer for {round(given, 1):g} s, and was ended") from None
                if patience is not None:
                    self._ping()
                    before, computed = computed, self._computed()
                    if computed != before:
                        busy = time.monotonic()
                    # Where the pipe is full, what it takes says that it is alive.
                    if on_silence is not None and time.monotonic() - self._alive > 0.3 * patience:
                        on_silence()
                continue
            answer = self._parsed(heard)
            self._alive = time.monotonic()
            # Others are late, of questions that were interrupted (Ctrl-C), or of pings.
            self._pongs += str(answer.get("id")).startswith("ping")
            if answer.get("id") == self._id:
                if "error" in answer:
                    raise from_answer(answer["error"])
                return answer
            if answer.get("id") is None:
                raise from_answer(answer["error"])

    def kill(self) -> None:
        """Ends it at once, stopped or not."""
        self.process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(ENDS_WITHIN)

    def close(self) -> None:
        """Ends it when all that it was asked is done, but does not wait for that for ever."""
        self._requests.put(None)
        try:
            self.process.wait(ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self.kill()

    def _computed(self) -> int | None:
        """A number that changes while it computes, or waits for a processor; None where that is not known."""
        try:
            with open(f"/proc/{self.process.pid}/stat", "rb") as file:
                state, *fields = file.read().rpartition(b")")[2].split()
        except OSError:
            return None
        return -time.monotonic_ns() if state == b"R" else int(fields[10]) + int(fields[11])

    def _ping(self) -> None:
        """Asks for a sign of life; one is enough at a time."""
        if self._requests.empty() and self._pings == self._pongs:
            self._pings += 1
            self._requests.put(PING + b'%d","op":"ping"}\n' % self._pings)

    def _write(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError), self.process.stdin as stdin:
            while (line := self._requests.get()) is not None:
                rest = memoryview(line)
                while rest:
                    taken = stdin.write(rest[:65536])
                    rest = rest[taken or 0 :]
                    # What is short goes into the pipe though nobody reads; of what is long, that says something.
                    if not line.startswith(PING):
                        self._alive = time.monotonic()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with contextlib.suppress(OSError), self.process.stdout as stdout:
            rest: list[bytes] = []
            while piece := stdout.read(1 << 20):
                *lines, last = piece.split(b"\n")
                for line in lines:
                    self._answers.put(b"".join([*rest, line]))
                    rest = []
                rest.append(last)
        self._answers.put(b"")

    def _drain(self) -> None:
        assert self.process.stderr is not None
        with contextlib.suppress(OSError), self.process.stderr as stderr:
            while piece := stderr.read(4096):
                self._said.append(piece)

    def _parsed(self, line: bytes) -> dict[str, Any]:
        if line == b"":
            raise self._gone()
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            self.kill()
            raise SidecarError(f"the sidecar said {line[:200]!r}, expected a line of JSON")
        return answer

    def _gone(self) -> SidecarError:
        """What is known of a sidecar that is there no more."""
        # Whoever asks next is told the same.
        self._answers.put(b"")
        try:
            status: int | None = self.process.wait(ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            status = None
            self.kill()
        self._threads[-1].join(1)
        said = b"".join(self._said)[-2000:].decode(errors="replace").strip()
        if status is None:
            how = "closed its output"
        else:
            how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        return SidecarError(f"the sidecar {how}{': ' + said if said else ''}", status, said)
