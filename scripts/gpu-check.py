#!/usr/bin/env python3
"""Everything that takes a GPU, in one go: builds the CUDA backend, checks it, times it, and compares it with its peers.

  scripts/gpu-check.py                            all sections; about eight minutes on a machine of 16 cores
  scripts/gpu-check.py check time                 these only (build is always done)
  scripts/gpu-check.py --budget 300               stops starting sections after so many seconds
  scripts/gpu-check.py --results FOLDER           writes there, after each section, instead of to bench/results
  scripts/gpu-check.py --dry-run                  without a GPU: its own logic, on the emulated device

Sections
  build      CMake: collapsar_cuda.so for this GPU, cuda_check, cuda_timing. No Node.
  check      every operation against float64 on the CPU: random, adversarial, golden inputs, fresh seeds; poisoned
             results
  time       by the GPU's clock, against a pure read of the same bytes
  ipc        from another process's handle to results, beyond the kernel's own time (needs PyTorch)
  peers      torch eager, torch.compile, a plain Triton kernel, on the same tensors (needs PyTorch)
  profile    ncu: what the kernels wait for, beside the results as .ncu.csv
  sanitize   compute-sanitizer: memcheck, racecheck, initcheck, synccheck, on small shapes
  addon      test/engine/device/*.test.ts on the real device (needs Node, in the environment's NODE or on the PATH, and
             node_modules; builds the addon)

Prints one table and writes gpu-<date>-<time>-<card>.json, and beside it a .log with the whole output of what it ran, to
bench/results (a dry run: gpu-dry-run.json and .log, to build).

Exit status
  0  all passed, and every goal of the sections asked for was reached
  1  a section failed
  2  it could not start
  3  nothing failed, but a goal was missed or not measured: its peer failed, or its section was skipped
What is not there is skipped by name and fails nothing; to leave its goals out too, name the other sections.
"""

import argparse
import datetime
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
from gpu_check import processes, report  # noqa: E402
from gpu_check.processes import json_lines, last_lines  # noqa: E402

SECTIONS = ("build", "check", "time", "ipc", "peers", "profile", "sanitize", "addon")
# Seconds after which a section is stopped.
LIMITS = {"build": 200, "check": 150, "time": 120, "ipc": 60, "peers": 200, "profile": 60, "sanitize": 150, "addon": 240}
# Importing PyTorch for the first time on a machine reads gigabytes.
TORCH_LIMIT = 120
LOGGED_CHARACTERS = 1 << 20  # of one program's output

# The kernels of these cases are profiled, this many starts of each.
PROFILED = ("logits bf16 8192x151936", "scores f32 65536x4096", "scores f32 1048576x256", "tokens bf16 [64,2048,4096]")
PROFILED_STARTS = 8
STALLS = ("barrier", "long_scoreboard", "short_scoreboard", "math_pipe_throttle", "mio_throttle", "wait", "not_selected")
METRICS = (
    "gpu__time_duration.sum",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "launch__registers_per_thread",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__inst_executed.avg.per_cycle_active",
    "smsp__inst_executed.sum",
    "smsp__inst_executed_pipe_xu.sum",
    *(f"smsp__average_warps_issue_stalled_{stall}_per_issue_active.ratio" for stall in STALLS),
)

DRY_PEER = {
    "operation": "logit_stats",
    "shape": "8192x151936",
    "dtype": "bfloat16",
    "seconds": 1.0,
    "ours_seconds": 0.5,
    "times_faster": 2.0,
    "problem": "DRY RUN: not measured",
}


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
        # by name {"status": passed | FAILED | skipped, "seconds", "note"}, and "traceback" if the section itself broke
        self.sections = {}
        self.versions = {}
        self.times, self.peers, self.ipc, self.clocks = [], [], None, None
        chosen = options.sections or SECTIONS
        self.wanted = [name for name in SECTIONS if name == "build" or name in chosen]
        self.card = self.find_card()
        self.place = self.results_place()
        self.place.with_suffix(".log").unlink(missing_ok=True)
        self.log = threading.Lock()
        # Begun beside the build, because its first import takes long.
        self.torch = None
        if not self.dry and {"ipc", "peers", "addon"} & set(self.wanted):
            self.torch = ThreadPoolExecutor(1).submit(self.find_torch)

    def left(self, section):
        return min(LIMITS[section], self.until - time.monotonic())

    def results_place(self):
        """Without a suffix: where the results go."""
        slug = re.sub(r"[^a-z0-9]+", "-", self.card["name"].lower()).strip("-")
        name = "gpu-dry-run" if self.dry else f"gpu-{self.begun:%Y-%m-%d-%H%M}-{slug}"
        folder = Path(self.options.results or ROOT / ("build" if self.dry else "bench/results"))
        folder.mkdir(parents=True, exist_ok=True)
        return folder / name

    def run_command(self, command, limit, env=None):
        return self.logged(command, *processes.run(command, limit, ROOT, env))

    def run_together(self, commands, limit, at_once=16):
        results = processes.run_together(commands, limit, ROOT, at_once)
        return [self.logged(command, *result) for command, result in zip(commands, results)]

    def logged(self, command, status, output):
        with self.log, self.place.with_suffix(".log").open("a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(map(str, command))}\n{output[-LOGGED_CHARACTERS:]}\nstatus {status}\n\n")
        return status, output

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
        return self.build_folder / "Release" / ("collapsar_cuda_emulated.so" if self.dry else "collapsar_cuda.so")

    def tool(self, name):
        return self.build_folder / name

    def find_torch(self):
        """(python, its versions) of one whose PyTorch has a GPU; (None, {}) without."""
        probe = (
            "import importlib.util, json, torch; assert torch.cuda.is_available(); "
            "triton = importlib.util.find_spec('triton') and __import__('triton').__version__; "
            "print(json.dumps({'torch': torch.__version__, 'cuda': torch.version.cuda, 'triton': triton}))"
        )
        for python in dict.fromkeys((sys.executable, shutil.which("python3"))):
            if python:
                status, output = self.run_command([python, "-c", probe], min(TORCH_LIMIT, self.until - time.monotonic()))
                found = json_lines(output, ("torch",))
                if status == 0 and found:
                    return python, found[-1]
        return None, {}

    def python_with_torch(self):
        return None if self.torch is None else self.torch.result()[0]

    def read_clocks(self):
        """MHz, watts and degrees at this moment; None where nvidia-smi does not say."""
        fields = ("clocks.sm", "clocks.mem", "clocks.max.sm", "clocks.max.mem", "power.draw", "temperature.gpu")
        query = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
        try:
            line = subprocess.run(query, capture_output=True, text=True, check=True, timeout=20).stdout.splitlines()[0]
        except (OSError, subprocess.SubprocessError, IndexError):
            return None
        return dict(zip(fields, (part.strip() for part in line.split(","))))

    # --- the sections: each returns (passed, note) or (None, note) where skipped ---------------------

    def build(self):
        nvcc = find_tool("nvcc", "/usr/local/cuda/bin/nvcc")
        if nvcc is None and not self.dry:
            return False, "there is no nvcc on the PATH or in /usr/local/cuda/bin"
        if nvcc is not None:
            _, output = self.run_command([nvcc, "--version"], 20)
            self.versions["nvcc"] = last_lines(output, 1)
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
        status, output = self.run_command(configure, self.left("build"), env)
        if status == 0:
            parallel = ["--parallel", str(os.cpu_count() or 2)]
            targets += ["cuda_check", "cuda_timing"]
            command = ["cmake", "--build", self.build_folder, *parallel, "--target", *targets]
            status, output = self.run_command(command, self.left("build"), env)
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
        results = self.run_together(commands, self.left("check"))
        for part, (status, output) in zip(parts, results):
            lines = output.splitlines()
            print(last_lines(output, 40 if status != 0 else 4))
            if status != 0 and not any(line.startswith(part + ":") for line in lines):
                print(f"{part}: ended with status {status}")
        failed = [part for part, (status, _) in zip(parts, results) if status != 0]
        return not failed, f"seed {seed}; failed: {', '.join(failed) if failed else 'none'}"

    def time(self):
        more = ["--small", "--seconds", "0.01"] if self.dry else ["--seconds", "0.6"]
        before = None if self.dry else self.read_clocks()
        status, output = self.run_command([self.tool("cuda_timing"), self.backend(), *more], self.left("time"))
        self.times = json_lines(output, ("case", "bytes", "seconds", "wall_seconds", "read_seconds", "fraction"))
        self.clocks = None if self.dry else {"before": before, "after": self.read_clocks()}
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
        command = [python, "bench/gpu/ipc_round_trip.py", self.backend()]
        status, output = self.run_command(command, self.left("ipc"))
        found = json_lines(output, ("case", "beyond_seconds", "problem"))
        if status != 0 or not found:
            print(last_lines(output))
            return False, f"status {status}"
        self.ipc = found[-1]
        return self.ipc["problem"] is None, self.ipc["problem"] or f"{self.ipc['beyond_seconds'] * 1e6:.0f} us beyond"

    def peers_section(self):
        if self.dry:
            self.peers = [dict(DRY_PEER, peer=peer) for peer, _ in report.PEER_GOALS]
            return True, "canned"
        python = self.python_with_torch()
        if python is None:
            return None, "no Python with PyTorch and CUDA"
        limit = self.left("peers")
        command = [python, "bench/gpu/peers.py", self.backend(), "--budget", f"{max(10, limit - 40):.0f}"]
        status, output = self.run_command(command, limit)
        self.peers = json_lines(output, DRY_PEER)
        if status != 0:
            print(last_lines(output))
        return status == 0 and len(self.peers) > 0, f"{len(self.peers)} comparisons"

    def profile(self):
        if self.dry:
            return None, "a dry run has no device code"
        ncu = find_tool("ncu", "/usr/local/cuda/bin/ncu")
        if ncu is None:
            return None, "there is no ncu"
        kernels = "regex:Rows|Columns|Pieces|sum.*Segments"
        commands = [
            [ncu, "--csv", "--metrics", ",".join(METRICS), "-k", kernels, "-c", PROFILED_STARTS]
            + [self.tool("cuda_timing"), self.backend(), "--seconds", "0.01", "--only", case]
            for case in PROFILED
        ]
        results = self.run_together(commands, self.left("profile"), at_once=1)
        rows = [line for _, output in results for line in output.splitlines() if line.startswith('"')]
        self.place.with_suffix(".ncu.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
        failed = [case for case, (status, _) in zip(PROFILED, results) if status != 0]
        return not failed, f"{len(rows)} figures; failed: {', '.join(failed) if failed else 'none'}"

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
        results = self.run_together(commands, self.left("sanitize"))
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
        tests = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("test/engine/device/*.test.ts"))
        if not vitest.exists() or not tests:
            return None, "no node_modules (npm ci)" if tests else "no test/engine/device/*.test.ts"
        path = f"{Path(node).resolve().parent}{os.pathsep}{os.environ['PATH']}"
        env = {"PATH": path, "COLLAPSAR_BUILD": "cmake", "COLLAPSAR_CUDA": "off"}
        status, output = self.run_command([node, "scripts/build-addon.mjs"], self.left("addon"), env)
        release = ROOT / "build" / "cmake" / "Release"
        if status != 0 or not release.exists():
            print(last_lines(output))
            return False, "the addon does not build"
        shutil.copy(self.backend(), release / "collapsar_cuda.so")
        # examples/gpu import the package by its name: what was compiled.
        status, output = self.run_command([node, "scripts/compile.mjs"], self.left("addon"), {"PATH": path})
        if status != 0:
            print(last_lines(output))
            return False, "the package does not compile"
        env = {"PATH": path, "COLLAPSAR_TEST_DEVICE": "cuda"}
        python = self.python_with_torch()
        if python is not None:
            env["COLLAPSAR_PYTHON"] = python
        status, output = self.run_command([node, vitest, "run", *tests], self.left("addon"), env)
        print(last_lines(output, 60 if status != 0 else 8))
        return status == 0, f"{len(tests)} files" + ("" if python else "; without PyTorch: it hands over no tensor")

    # --- results -------------------------------------------------------------------------------------------------

    def result(self):
        goals = report.goals(self.wanted, self.times, self.peers, self.ipc)
        if self.dry:
            goals = [dict(goal, reached=None) for goal in goals]
        versions = self.torch.result()[1] if self.torch is not None and self.torch.done() else {}
        return {
            "dry": self.dry,
            "date": self.begun.isoformat(timespec="seconds"),
            "commit": self.options.commit or commit_here(),
            "card": self.card,
            "machine": {"cpus": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
            "versions": {**self.versions, **versions},
            "sections": self.sections,
            "times": self.times,
            "clocks": self.clocks,
            "peers": self.peers,
            "ipc": self.ipc,
            "goals": goals,
        }

    def write(self):
        result = self.result()
        partial = self.place.with_suffix(".partial")
        partial.write_text(json.dumps(result, indent=2) + "\n")
        partial.replace(self.place.with_suffix(".json"))
        return result

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
        processes.kill_all()  # the question for PyTorch, where nobody waits for its answer
        result = self.write()
        print("\n" + "=" * 100 + "\n" + report.table(result))
        print(f"\nwritten: {self.place.with_suffix('.json')}")
        if any(section["status"] == "FAILED" for section in self.sections.values()):
            print("FAILED")
            return 1
        reached = [goal["reached"] for goal in result["goals"]]
        if not self.dry and not all(reached):
            missed, unknown = reached.count(False), reached.count(None)
            print(f"nothing failed; of {len(reached)} goals {missed} missed, {unknown} not measured")
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
    parser.add_argument("--results", metavar="FOLDER", help="where the results go; bench/results by default")
    parser.add_argument("--commit", help="what is checked out, for the results, where git cannot say")
    options = parser.parse_args()
    unknown = [name for name in options.sections if name not in SECTIONS]
    if unknown:
        exit_with(f"no section {', '.join(unknown)}; there are: {', '.join(SECTIONS)}")
    processes.stop_on_signals()
    sys.exit(GpuCheck(options).run())


if __name__ == "__main__":
    main()
