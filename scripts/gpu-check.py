#!/usr/bin/env python3
"""Everything that takes a GPU, in one go: builds the CUDA backend, checks it, times it, and compares it with its peers.

  scripts/gpu-check.py                            all sections; about eight minutes on a machine of 16 cores
  scripts/gpu-check.py check time                 these only (build is always done)
  scripts/gpu-check.py --budget 300               stops starting sections after so many seconds
  scripts/gpu-check.py --dry-run                  without a GPU: its own logic, on the emulated device

Sections
  build      CMake: collapsar_cuda.so for this GPU, cuda_check, cuda_timing. No Node.
  check      every operation against float64 on the CPU: random, adversarial, golden inputs, fresh seeds; poisoned
             results
  time       by the GPU's clock, against a pure read of the same bytes
  ipc        from another process's handle to results, beyond the kernel's own time (needs PyTorch)
  peers      torch eager, torch.compile, a plain Triton kernel, on the same tensors (needs PyTorch)
  sanitize   compute-sanitizer: memcheck, racecheck, initcheck, synccheck, on small shapes
  addon      test/engine-device*.test.ts on the real device (needs Node, in the environment's NODE or on the PATH, and
             node_modules; builds the addon)

Prints one table and writes bench/results/gpu-<date>-<time>-<card>.json (a dry run: build/gpu-dry-run.json).

Exit status
  0  all passed, and every goal of the sections asked for was reached
  1  a section failed
  2  it could not start
  3  nothing failed, but a goal was missed or not measured: its peer failed, or its section was skipped
What is not there is skipped by name and fails nothing; to leave its goals out too, name the other sections.
"""

import argparse
import contextlib
import datetime
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECTIONS = ("build", "check", "time", "ipc", "peers", "sanitize", "addon")
# Seconds after which a section is stopped.
LIMITS = {"build": 240, "check": 200, "time": 150, "ipc": 60, "peers": 200, "sanitize": 150, "addon": 240}

# (case, must, aim): fractions of the read's speed.
READ_GOALS = (
    ("logits bf16 8192x151936", 0.90, 0.97),
    ("scores f32 65536x4096", 0.88, 0.96),
    ("scores f32 1048576x256", 0.60, 0.85),
    ("tokens bf16 [64,2048,4096]", 0.88, 0.95),
    ("logits bf16 32x1048576", 0.60, 0.85),
)
# (peer, must): how many times as fast as it logitStats is.
PEER_GOALS = (("torch eager", 14.0), ("torch.compile", 2.0), ("plain Triton", 1.15))
IPC_GOAL = (200e-6, 50e-6)

DRY_PEER = {
    "operation": "logit_stats",
    "shape": "8192x151936",
    "dtype": "bfloat16",
    "seconds": 1.0,
    "ours_seconds": 0.5,
    "times_faster": 2.0,
    "problem": "DRY RUN: not measured",
}


# Each runs in a session of its own, so that it can be stopped with all that it has started: no Ctrl-C reaches it there.
RUNNING = set()
STOPPED = threading.Event()


def kill(process):
    with contextlib.suppress(ProcessLookupError):  # it may have ended just now
        os.killpg(process.pid, signal.SIGKILL)


def stop(number, _frame):
    """On Ctrl-C or SIGTERM: nothing is left running, on the GPU above all."""
    STOPPED.set()
    for process in list(RUNNING):
        kill(process)
    sys.exit(128 + number)


def stop_on_signals():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, stop)


def run(command, limit, env=None, cwd=ROOT):
    """(status, output); status 124 after the limit."""
    if STOPPED.is_set():
        return 130, ""
    print("$ " + " ".join(str(part) for part in command), flush=True)
    merged = dict(os.environ, PYTHONUNBUFFERED="1", **(env or {}))
    process = subprocess.Popen(
        [str(part) for part in command],
        cwd=cwd,
        env=merged,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    RUNNING.add(process)
    if STOPPED.is_set():  # between the question above and now
        kill(process)
    try:
        output, _ = process.communicate(timeout=max(1.0, limit))
        return process.returncode, output
    except subprocess.TimeoutExpired:
        kill(process)
        output, _ = process.communicate()
        return 124, output + f"\nstopped after {limit:.0f} s\n"
    finally:
        RUNNING.discard(process)


def run_together(commands, limit, at_once=16):
    """Several at once -> [(status, output)]; the limit holds for all."""
    from concurrent.futures import ThreadPoolExecutor

    until = time.monotonic() + limit
    with ThreadPoolExecutor(min(at_once, len(commands))) as pool:
        return list(pool.map(lambda command: run(command, until - time.monotonic()), commands))


def last_lines(output, count=30):
    return "\n".join(output.rstrip().splitlines()[-count:])


def find_tool(name, *others):
    found = shutil.which(name)
    if found is None:
        found = next((str(place) for place in map(Path, others) if place.exists()), None)
    return found


def commit_here():
    """The commit that is checked out; None without git, which the machine need not have."""
    try:
        git = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return None
    return git.stdout.strip() or None


class GpuCheck:
    def __init__(self, options):
        self.options = options
        self.dry = options.dry_run
        self.until = time.monotonic() + options.budget
        self.begun = datetime.datetime.now(datetime.timezone.utc)
        self.build_folder = ROOT / "build" / ("gpu-dry-run" if self.dry else "gpu")
        # name -> {"status": passed | FAILED | skipped, "seconds", "note"}, and "traceback" if the section itself broke
        self.sections = {}
        self.times, self.peers, self.ipc = [], [], None
        chosen = options.sections or SECTIONS
        self.wanted = [name for name in SECTIONS if name == "build" or name in chosen]
        self.card = self.find_card()

    def left(self, section):
        return min(LIMITS[section], self.until - time.monotonic())

    # --- the machine ---------------------------------------------------------------------------------------------

    def find_card(self):
        if self.dry:
            return {"name": "emulated GPU", "driver": None, "capability": "9.0", "memory": None}
        query = "name,driver_version,compute_cap,memory.total"
        try:
            line = subprocess.run(
                ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"],
                capture_output=True,
                text=True,
                check=True,
                timeout=60,
            ).stdout.splitlines()[0]
        except (OSError, subprocess.SubprocessError, IndexError) as error:
            exit_with(f"there is no GPU to check: nvidia-smi says nothing ({error}). --dry-run needs none.")
        name, driver, capability, memory = (part.strip() for part in line.split(","))
        return {"name": name, "driver": driver, "capability": capability, "memory": memory}

    def backend(self):
        return self.build_folder / ("collapsar_cuda_emulated.so" if self.dry else "Release/collapsar_cuda.so")

    def tool(self, name):
        return self.build_folder / name

    def python_with_torch(self):
        for python in dict.fromkeys((sys.executable, shutil.which("python3"))):
            if python is None:
                continue
            probe = "import torch, sys; sys.exit(0 if torch.cuda.is_available() else 1)"
            with contextlib.suppress(subprocess.TimeoutExpired):
                if subprocess.run([python, "-c", probe], capture_output=True, timeout=60).returncode == 0:
                    return python
        return None

    # --- the sections: each returns (passed, note) or None for skipped with a note in self.why ---------------------

    def build(self):
        nvcc = find_tool("nvcc", "/usr/local/cuda/bin/nvcc")
        if nvcc is None and not self.dry:
            return False, "there is no nvcc on the PATH or in /usr/local/cuda/bin"
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        configure = ["cmake", "-S", ROOT, "-B", self.build_folder, *generator, "-DCOLLAPSAR_TESTS=ON"]
        if self.dry:
            configure.append("-DCOLLAPSAR_CUDA=OFF")
            targets = ["collapsar_cuda_emulated"]
        else:
            architecture = self.card["capability"].replace(".", "")
            configure += ["-DCOLLAPSAR_CUDA=ON", f"-DCOLLAPSAR_CUDA_ARCHITECTURES={architecture}-real"]
            targets = ["collapsar_cuda"]
        env = {} if nvcc is None else {"CUDACXX": nvcc}
        status, output = run(configure, self.left("build"), env)
        if status == 0:
            parallel = ["--parallel", str(os.cpu_count() or 2)]
            targets += ["cuda_check", "cuda_timing"]
            command = ["cmake", "--build", self.build_folder, *parallel, "--target", *targets]
            status, output = run(command, self.left("build"), env)
        if status != 0:
            print(last_lines(output, 60))
        return status == 0, f"for {self.card['name']}, compute capability {self.card['capability']}"

    def check(self):
        seed = int(time.time()) % 100000
        size = "--quick" if self.dry else "--large"
        parts = ("fused", "memory", "repeats", "errors")
        if not self.dry:
            parts = ("logits", "scores", "tokens", *parts)
        commands = [
            [self.tool("cuda_check"), self.backend(), size, "--seed", seed, "--only", part] for part in parts
        ]
        results = run_together(commands, self.left("check"))
        for part, (status, output) in zip(parts, results):
            lines = output.splitlines()
            print(last_lines(output, 40 if status != 0 else 4))
            if status != 0 and not any(line.startswith(part + ":") for line in lines):
                print(f"{part}: ended with status {status}")
        failed = [part for part, (status, _) in zip(parts, results) if status != 0]
        return not failed, f"seed {seed}; failed: {', '.join(failed) if failed else 'none'}"

    def time(self):
        more = ["--small", "--seconds", "0.01"] if self.dry else ["--seconds", "0.4"]
        status, output = run([self.tool("cuda_timing"), self.backend(), *more], self.left("time"))
        self.times = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        if status != 0:
            print(last_lines(output))
        return status == 0 and len(self.times) > 0, f"{len(self.times)} cases"

    def ipc_section(self):
        if self.dry:
            self.ipc = {"case": "DRY RUN: not measured", "beyond_seconds": 0.0, "problem": "DRY RUN: not measured"}
            return True, "canned"
        python = self.python_with_torch()
        if python is None:
            return None, "no Python with PyTorch and CUDA"
        status, output = run([python, "bench/gpu/ipc_round_trip.py", self.backend()], self.left("ipc"))
        lines = [line for line in output.splitlines() if line.startswith("{")]
        if status != 0 or not lines:
            print(last_lines(output))
            return False, f"status {status}"
        self.ipc = json.loads(lines[-1])
        return self.ipc["problem"] is None, self.ipc["problem"] or f"{self.ipc['beyond_seconds'] * 1e6:.0f} us beyond"

    def peers_section(self):
        if self.dry:
            self.peers = [dict(DRY_PEER, peer=peer) for peer, _ in PEER_GOALS]
            return True, "canned"
        python = self.python_with_torch()
        if python is None:
            return None, "no Python with PyTorch and CUDA"
        limit = self.left("peers")
        command = [python, "bench/gpu/peers.py", self.backend(), "--budget", f"{max(10, limit - 40):.0f}"]
        status, output = run(command, limit)
        self.peers = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        if status != 0:
            print(last_lines(output))
        return status == 0 and len(self.peers) > 0, f"{len(self.peers)} comparisons"

    def sanitize(self):
        if self.dry:
            return None, "a dry run has no device code"
        sanitizer = find_tool("compute-sanitizer", "/usr/local/cuda/bin/compute-sanitizer")
        if sanitizer is None:
            return None, "there is no compute-sanitizer"
        tools = ("memcheck", "racecheck", "initcheck", "synccheck")
        commands = [
            [sanitizer, "--tool", tool, "--error-exitcode", "9", "--max-connections", "64", "--launch-timeout", "120"]
            + [self.tool("cuda_check"), self.backend(), "--tiny", "--only", part]
            for tool in tools
            for part in ("logits", "scores", "tokens", "fused")
        ]
        results = run_together(commands, self.left("sanitize"), at_once=8)
        failed = []
        for command, (status, output) in zip(commands, results):
            what = f"{command[2]} {command[-1]}"
            # A sanitizer that has lost its program says so, and ends as the program does: with 0, having checked nothing.
            if status == 0 and re.search(r"SUMMARY: 0 (errors|hazards)", output):
                continue
            if "Device not supported" in output:
                return None, "compute-sanitizer does not support this machine's device"
            reasons = {0: "no summary of 0 errors", 124: "over its time"}
            failed.append(f"{what} ({reasons.get(status, f'status {status}')})")
            print(f"--- {what}\n{last_lines(output)}")
        return not failed, f"failed: {', '.join(failed) if failed else 'none'}"

    def addon(self):
        if self.dry:
            return None, "a dry run has no device for it"
        node = os.environ.get("NODE") or shutil.which("node")
        if node is None:
            return None, "no Node on the PATH or in NODE"
        vitest = ROOT / "node_modules" / "vitest" / "vitest.mjs"
        tests = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("test/engine-device*.test.ts"))
        if not vitest.exists() or not tests:
            return None, "no node_modules (npm ci)" if tests else "no test/engine-device*.test.ts"
        path = f"{Path(node).resolve().parent}{os.pathsep}{os.environ['PATH']}"
        env = {"PATH": path, "COLLAPSAR_BUILD": "cmake", "COLLAPSAR_CUDA": "off"}
        status, output = run([node, "scripts/install.mjs"], self.left("addon"), env)
        release = ROOT / "build" / "cmake" / "Release"
        if status != 0 or not release.exists():
            print(last_lines(output))
            return False, "the addon does not build"
        shutil.copy(self.backend(), release / "collapsar_cuda.so")
        # examples/gpu import the package by its name: what was compiled.
        status, output = run([node, "scripts/compile.mjs"], self.left("addon"), {"PATH": path})
        if status != 0:
            print(last_lines(output))
            return False, "the package does not compile"
        env = {"PATH": path, "COLLAPSAR_TEST_DEVICE": "cuda"}
        python = self.python_with_torch()
        if python is not None:
            env["COLLAPSAR_PYTHON"] = python
        status, output = run([node, vitest, "run", *tests], self.left("addon"), env)
        print(last_lines(output, 60 if status != 0 else 8))
        return status == 0, f"{len(tests)} files" + ("" if python else "; without PyTorch: it hands over no tensor")

    # --- results -------------------------------------------------------------------------------------------------

    def goals(self):
        """[(what, value as text, must as text, aim as text, reached)] of the sections that were asked for.

        Value and reached are None where nothing was measured.
        """
        rows = []
        if "time" in self.wanted:
            fractions = {entry["case"]: entry["fraction"] for entry in self.times}
            for case, must, aim in READ_GOALS:
                value = fractions.get(case)
                shown, reached = (None, None) if value is None else (f"{value:.3f} of read", value >= must)
                rows.append((case, shown, f"{must:.2f}", f"{aim:.2f}", reached))
        if "peers" in self.wanted:
            entries = [entry for entry in self.peers if entry["operation"] == "logit_stats"]
            faster = {entry["peer"]: entry["times_faster"] for entry in entries}
            for peer, must in PEER_GOALS:
                value = faster.get(peer)
                shown, reached = (None, None) if value is None else (f"{value:.2f}x", value >= must)
                rows.append((f"logitStats against {peer}", shown, f"{must:.2f}x", "", reached))
        if "ipc" in self.wanted:
            value = None if self.ipc is None else self.ipc["beyond_seconds"]
            shown, reached = (None, None) if value is None else (f"{value * 1e6:.0f} us", value <= IPC_GOAL[0])
            must, aim = (f"{goal * 1e6:.0f} us" for goal in IPC_GOAL)
            rows.append(("IPC import to result", shown, must, aim, reached))
        return rows

    def table(self):
        mark = "DRY RUN on an emulated device: no figure below is one of a GPU\n" if self.dry else ""
        lines = [f"{mark}{self.card['name']}, driver {self.card['driver']}", ""]
        if self.times:
            lines.append(f"{'case':38} {'time':>11} {'wall':>11} {'GB/s':>8} {'of read':>8}")
            for entry in self.times:
                speed = entry["bytes"] / entry["seconds"] / 1e9
                lines.append(
                    f"{entry['case']:38} {entry['seconds'] * 1e3:8.3f} ms {entry['wall_seconds'] * 1e3:8.3f} ms"
                    f" {speed:8.0f} {entry['fraction']:8.3f}"
                )
            lines.append("")
        if self.peers:
            head = f"{'operation':12} {'shape':14} {'dtype':9} {'peer':14}"
            lines.append(f"{head} {'time':>11} {'ours':>11} {'times':>7}")
            for entry in self.peers:
                timed = entry["seconds"] is not None
                numbers = " " * 31
                if timed:
                    theirs, ours = (entry[name] * 1e3 for name in ("seconds", "ours_seconds"))
                    numbers = f"{theirs:8.3f} ms {ours:8.3f} ms {entry['times_faster']:7.2f}"
                note = f"  ({entry['problem']})" if entry["problem"] else ""
                lines.append(
                    f"{entry['operation']:12} {entry['shape']:14} {entry['dtype']:9} {entry['peer']:14} {numbers}{note}"
                )
            lines.append("")
        for what, value, must, aim, reached in self.goals():
            verdict = "dry" if self.dry else {True: "reached", False: "MISSED", None: "NOT MEASURED"}[reached]
            lines.append(f"{what:38} {value or '-':>16}   must {must:>8}  aim {aim:>8}   {verdict}")
        lines.append("")
        for name, section in self.sections.items():
            lines.append(f"{section['status']:8} {name:9} {section['seconds']:6.1f} s   {section['note']}")
        return "\n".join(lines)

    def write(self):
        slug = re.sub(r"[^a-z0-9]+", "-", self.card["name"].lower()).strip("-")
        place = ROOT / "bench" / "results" / f"gpu-{self.begun:%Y-%m-%d-%H%M}-{slug}.json"
        if self.dry:
            place = ROOT / "build" / "gpu-dry-run.json"
        result = {
            "dry": self.dry,
            "date": self.begun.isoformat(timespec="seconds"),
            "commit": commit_here(),
            "card": self.card,
            "machine": {"cpus": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
            "sections": self.sections,
            "times": self.times,
            "peers": self.peers,
            "ipc": self.ipc,
            "goals": [
                {"what": what, "value": value, "must": must, "aim": aim, "reached": None if self.dry else reached}
                for what, value, must, aim, reached in self.goals()
            ],
        }
        place.parent.mkdir(parents=True, exist_ok=True)
        partial = place.with_suffix(".partial")
        partial.write_text(json.dumps(result, indent=2) + "\n")
        partial.replace(place)
        return place

    def run_section(self, name):
        methods = {"ipc": self.ipc_section, "peers": self.peers_section}
        started = time.monotonic()
        print(f"\n=== {name}", flush=True)
        broke = None
        if self.until - started < 5:
            outcome = (False, "no time was left: raise --budget or choose sections")
        else:
            try:
                outcome = methods.get(name, getattr(self, name))()
            except Exception as error:  # whatever it is: the other sections run, and their results are kept
                broke = traceback.format_exc()
                print(broke)
                outcome = (False, f"{type(error).__name__}: {error}")
        passed, note = outcome
        status = "skipped" if passed is None else "passed" if passed else "FAILED"
        self.sections[name] = {"status": status, "seconds": round(time.monotonic() - started, 1), "note": note}
        if broke is not None:
            self.sections[name]["traceback"] = broke
        print(f"{status}: {name}: {note}", flush=True)
        self.write()  # what is there so far outlives whatever comes
        return passed is not False

    def run(self):
        for name in self.wanted:
            if not self.run_section(name) and name == "build":
                break
        print("\n" + "=" * 100 + "\n" + self.table())
        print(f"\nwritten: {self.write().relative_to(ROOT)}")
        if any(section["status"] == "FAILED" for section in self.sections.values()):
            print("FAILED")
            return 1
        goals = [reached for *_, reached in self.goals()]
        if not self.dry and not all(goals):
            missed, unknown = goals.count(False), goals.count(None)
            print(f"nothing failed; of {len(goals)} goals {missed} missed, {unknown} not measured")
            return 3
        print("all passed")
        return 0


def exit_with(message):
    print(message, file=sys.stderr)
    sys.exit(2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="section", help=f"any of: {', '.join(SECTIONS)}")
    parser.add_argument("--budget", type=float, default=570.0, help="seconds for everything; 570 by default")
    parser.add_argument("--dry-run", action="store_true", help="without a GPU, on the emulated device")
    options = parser.parse_args()
    unknown = [name for name in options.sections if name not in SECTIONS]
    if unknown:
        exit_with(f"no section {', '.join(unknown)}; there are: {', '.join(SECTIONS)}")
    stop_on_signals()
    sys.exit(GpuCheck(options).run())


if __name__ == "__main__":
    main()
