"""Measures the shards of an analysis as tasks of a Ray cluster, then writes the results: python driver.py TASKS.json

TASKS.json is written by `collapsar submit --engine ray`. Each shard is a task that runs shard.sh; a task whose node or worker
dies is started again on another by Ray (max_retries), one that fails by itself by this driver. A shard that fails for good does
not stop the others. At the end finish.sh, also a task, looks whether all journals are whole and writes the results.

Needs only the package `ray`. Exit status: that of finish.sh (`collapsar analyze`), or 1 when the cluster is lost.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time

import ray

# Tasks handed to Ray and not yet done: enough for any cluster, few enough for its memory.
MOST_AT_A_TIME = 10_000
# Exit status of wrong usage: the same every time.
USAGE = 2
PR_SET_PDEATHSIG = 1


def end_with_parent():
    """Runs in the child: a worker that is killed, or whose node is, takes collapsar with it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def run_script(words, log):
    """Runs a script, what it writes going to the end of the file `log`; gives its exit status."""
    with open(log, "ab") as out:
        return subprocess.run(
            ["/bin/sh", *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            preexec_fn=end_with_parent if sys.platform == "linux" else None,
            check=False,
        ).returncode


def say(text):
    print(time.strftime("%H:%M:%S"), text, flush=True)


class Shards:
    """The shards of a submission on their way through the cluster."""

    def __init__(self, tasks, remote):
        self.tasks = tasks
        self.remote = remote
        self.waiting = list(reversed(tasks["shards"]))
        self.running = {}
        self.tries = {}
        self.failed = []
        self.done = 0

    def start_some(self):
        most = self.tasks["throttle"] or MOST_AT_A_TIME
        while self.waiting and len(self.running) < most:
            shard = self.waiting.pop()
            log = os.path.join(self.tasks["logs"], f"shard-{shard:05d}.log")
            self.running[self.remote.remote([self.tasks["shard"], str(shard)], log)] = shard

    def take(self, task):
        shard = self.running.pop(task)
        try:
            status = ray.get(task)
        except (ray.exceptions.RayError, OSError) as error:
            # Ray has started it again as often as it may.
            say(f"shard {shard}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
            self.failed.append(shard)
            return
        if status == 0:
            self.done += 1
            return
        tries = self.tries.get(shard, 0) + 1
        self.tries[shard] = tries
        again = status != USAGE and tries <= self.tasks["retries"]
        say(f"shard {shard}: exit status {status}{', is tried again' if again else ''}")
        if again:
            self.waiting.insert(0, shard)
        else:
            self.failed.append(shard)

    def run(self):
        total = len(self.waiting)
        said = time.monotonic()
        self.start_some()
        while self.running:
            ready, _ = ray.wait(list(self.running), num_returns=1, timeout=10)
            for task in ready:
                self.take(task)
            self.start_some()
            if time.monotonic() - said > 30:
                said = time.monotonic()
                say(f"{self.done} of {total} shards, {len(self.running)} on their way, {len(self.failed)} failed")
        say(f"{self.done} of {total} shards, {len(self.failed)} failed")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        tasks = json.load(file)
    # "auto" fails where there is no cluster; without an address Ray would start one of its own here.
    address = tasks["address"] or os.environ.get("RAY_ADDRESS") or "auto"
    ray.init(address=address, logging_level="ERROR", log_to_driver=False)
    options = {
        "num_cpus": tasks["cpus"],
        "max_retries": tasks["retries"],
        "scheduling_strategy": "SPREAD",
        "resources": tasks["resources"],
    }
    if tasks["memory"] is not None:
        options["memory"] = tasks["memory"]
    remote = ray.remote(run_script).options(**options)
    Shards(tasks, remote).run()
    log = os.path.join(tasks["logs"], "finish.log")
    status = ray.get(remote.remote([tasks["finish"]], log))
    say(f"results: exit status {status}")
    return status


if __name__ == "__main__":
    sys.exit(main())
