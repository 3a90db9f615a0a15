"""The programs that the GPU check runs: each is stopped at its limit or on Ctrl-C, with all that it has started."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

# Each runs in a session of its own, so that it can be stopped with all that it has started: no Ctrl-C reaches it there.
RUNNING = set()
STOPPED = threading.Event()


def kill(process):
    with contextlib.suppress(ProcessLookupError):  # it may have ended just now
        os.killpg(process.pid, signal.SIGKILL)


def kill_all():
    for process in list(RUNNING):
        kill(process)


def stop(number, _frame):
    """On Ctrl-C or SIGTERM: nothing is left running, on the GPU above all."""
    STOPPED.set()
    kill_all()
    sys.exit(128 + number)


def stop_on_signals():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, stop)


def run(command, limit, cwd, env=None):
    """(status, output); status 124 after the limit, 127 where there is no such program."""
    if STOPPED.is_set():
        return 130, ""
    print("$ " + " ".join(str(part) for part in command), flush=True)
    try:
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=cwd,
            env=dict(os.environ, PYTHONUNBUFFERED="1", **(env or {})),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return 127, f"{error}\n"
    RUNNING.add(process)
    if STOPPED.is_set():  # between the question above and now
        kill(process)
    try:
        output, _ = process.communicate(timeout=max(1.0, limit))
        return process.returncode, output
    except subprocess.TimeoutExpired:
        kill(process)
        return 124, rest_of(process) + f"\nstopped after {limit:.0f} s\n"
    finally:
        RUNNING.discard(process)


def rest_of(process):
    """What a killed one had printed. What it started in a session of its own may still hold the pipe: that ends here."""
    try:
        return process.communicate(timeout=2)[0]
    except subprocess.TimeoutExpired as held:
        return (held.stdout or b"").decode(errors="replace")


def run_together(commands, limit, cwd, at_once=16):
    """Several at once -> [(status, output)]; the limit holds for all."""
    until = time.monotonic() + limit
    with ThreadPoolExecutor(min(at_once, len(commands))) as pool:
        return list(pool.map(lambda command: run(command, until - time.monotonic(), cwd), commands))


def last_lines(output, count=30):
    return "\n".join(output.rstrip().splitlines()[-count:])


def json_lines(output, keys):
    """The output's JSON objects, one a line, that have all of the keys: libraries print what they like in between."""
    found = []
    for line in output.splitlines():
        with contextlib.suppress(ValueError):
            value = json.loads(line)
            if isinstance(value, dict) and value.keys() >= set(keys):
                found.append(value)
    return found
