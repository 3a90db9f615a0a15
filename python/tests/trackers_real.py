"""Real servers of MLflow and Trackio: what `analyze --to` sends is read back by their own clients, and compared.

    python tests/trackers_real.py       in an environment of python/trackers.txt, after `npm ci`

Every figure of the page's selection, of every step of examples/data, against `--jsonl` of the same command; verdicts;
and that a second analysis doubles nothing. Exit status 1 where something is not as it must be.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
COMMAND = ["node", str(ROOT / "dist/cli/main.js"), "analyze", "examples/data", "--quiet"]
TRACKIO = """
import sys, time, trackio
trackio.init(project="first"); trackio.log({"a": 1}); trackio.finish()
shown = trackio.show(project="first", open_browser=False, block_thread=False, server_port=int(sys.argv[1]))
print("write_token=", *[part for part in shown if isinstance(part, str) and "write_token" in part], flush=True)
time.sleep(600)
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def server(command: list[str], address: str, log: Path) -> Iterator[None]:
    with log.open("w") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            for _ in range(600):
                try:
                    urllib.request.urlopen(address, timeout=5).close()
                    break
                except OSError:
                    time.sleep(0.2)
            else:
                raise SystemExit(f"{command[0]} has not started: {log.read_text()[-2000:]}")
            yield
        finally:
            process.terminate()


def analyzed(*arguments: str) -> str:
    done = subprocess.run([*COMMAND, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0 or "failed" in done.stderr:
        raise SystemExit(f"{' '.join(arguments)}: exit status {done.returncode}: {done.stderr}")
    return done.stdout


def given() -> dict[str, dict[int, dict[str, float]]]:
    """Run -> step -> figures, by `--jsonl`."""
    found: dict[str, dict[int, dict[str, float]]] = {}
    for line in analyzed("--jsonl").splitlines():
        record = json.loads(line)
        if "step" not in record:
            continue
        figures = {key: value for key, value in record.items() if isinstance(value, (int, float))}
        found.setdefault(record["run"], {})[record["step"]] = figures
    return found


def compared(name: str, seen: dict[str, dict[int, dict[str, float]]], expected: dict) -> int:
    """Number of figures that are not as they were given; prints the first few."""
    wrong = figures = 0
    if set(seen) != set(expected) or any(set(seen[run]) != set(expected[run]) for run in expected):
        print(f"{name}: steps of { ({run: len(steps) for run, steps in seen.items()}) }")
        wrong += 1
    for run, steps in seen.items():
        for step, values in steps.items():
            for key, value in values.items():
                figures += 1
                label, _, rest = key.partition("/")
                named = {"first_turn": "collapse_first_turn_sample"}.get(label, label)
                want = expected.get(run, {}).get(step, {}).get(f"{named}/{rest}".replace("_at_2", "@2"))
                if want is None or abs(want - value) > 1e-12 * max(1.0, abs(want)):
                    wrong += 1
                    if wrong < 5:
                        print(f"{name}: {run}, step {step}: {key} is {value}, expected {want}")
    print(f"{name}: {figures} figures of {sum(map(len, seen.values()))} steps, {wrong} wrong")
    return wrong + (figures == 0)


def mlflow_figures(address: str) -> tuple[dict, int]:
    import mlflow

    client = mlflow.MlflowClient(address)
    experiment = client.get_experiment_by_name("grpo")
    found: dict[str, dict[int, dict[str, float]]] = {}
    doubled = 0
    for run in client.search_runs([experiment.experiment_id]):
        doubled += run.info.run_name in found
        steps = found.setdefault(run.info.run_name, {})
        for key in run.data.metrics:
            for metric in client.get_metric_history(run.info.run_id, key):
                figures = steps.setdefault(metric.step, {})
                doubled += key in figures
                figures[key] = metric.value
        said = [tag for tag in run.data.tags if tag.startswith("collapsar.") and tag.endswith("collapse")]
        doubled += (run.info.run_name != "healthy") != bool(said)
    return found, doubled


def trackio_figures() -> tuple[dict, int]:
    import trackio
    from trackio.sqlite_storage import SQLiteStorage

    found: dict[str, dict[int, dict[str, float]]] = {}
    doubled = 0
    for run in trackio.Api().runs("grpo"):
        steps = found.setdefault(run.name, {})
        for row in SQLiteStorage.get_logs("grpo", run.name):
            doubled += row["step"] in steps
            steps[row["step"]] = {key: value for key, value in row.items() if "/" in key}
        titles = [alert["title"] for alert in run.alerts()]
        doubled += ("template collapse" in titles) != (run.name != "healthy")
        doubled += len(titles) != len({(alert["title"], alert["step"], alert["level"]) for alert in run.alerts()})
    return found, doubled


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        os.environ["TRACKIO_DIR"] = str(work / "trackio")
        ports = [free_port(), free_port()]
        mlflow_at, trackio_at = (f"http://127.0.0.1:{port}" for port in ports)
        store = f"sqlite:///{work / 'mlflow.db'}"
        mlflow_command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(ports[0])]
        mlflow_command += ["--backend-store-uri", store, "--artifacts-destination", str(work / "artifacts")]
        trackio_log = work / "trackio.log"
        with (
            server(mlflow_command, mlflow_at, work / "mlflow.log"),
            server([sys.executable, "-u", "-c", TRACKIO, str(ports[1])], trackio_at, trackio_log),
        ):
            while "write_token=" not in trackio_log.read_text():
                time.sleep(0.2)
            os.environ["TRACKIO_WRITE_TOKEN"] = (
                trackio_log.read_text().split("write_token=")[-1].split()[0].strip("'\"")
            )
            expected = given()
            for _ in range(2):
                analyzed("--to", f"mlflow:{mlflow_at}?experiment=grpo", "--to", f"trackio:{trackio_at}?project=grpo")
            import mlflow
            import trackio

            wrong = 0
            for name, (seen, doubled) in (
                (f"mlflow {mlflow.__version__}", mlflow_figures(mlflow_at)),
                (f"trackio {trackio.__version__}", trackio_figures()),
            ):
                wrong += compared(name, seen, expected) + doubled
                if doubled:
                    print(f"{name}: {doubled} steps, verdicts or runs twice, or not there")
    sys.exit(1 if wrong else 0)
