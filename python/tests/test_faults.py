"""Sidecars that hang or die, disks that are full, states that are cut: training goes on, and nothing is lost."""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import time
from contextlib import contextmanager

import numpy as np
import pytest

from collapsar import ArgumentError, CollapsarError, Monitor, NodeError, SidecarError, StateError
from collapsar import watching as watching_module
from collapsar.slime import log_rollouts
from collapsar.watching import Rollouts, SavedWatching, Watching

GROUPS = np.repeat(np.arange(8), 4)
#: seconds that a generation may take at most, whatever becomes of its sidecar
STALL = 5.0

posix = pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="there is no SIGSTOP here")


def rollouts(n: int) -> Rollouts:
    """Reasoning that forgets its prompt from generation 8 on."""
    rng = np.random.default_rng(n)
    own = 100 + 10 * (GROUPS if n < 8 else 0 * GROUPS)
    return Rollouts(
        groups=GROUPS.tolist(),
        rewards=rng.integers(0, 2, 32).astype(float).tolist(),
        lengths=[5] * 32,
        tokens=[(start + rng.integers(0, 9, 5)).tolist() for start in own],
        prompt_tokens=[[1, 2, group] for group in range(8)],
    )


def score_of(n: int):
    """Sums that say the same: all prompts give a row about one likelihood once nothing depends on them."""

    def score(pairs):
        noise = np.random.default_rng(1000 + n).normal(0, 1, (32, 8))
        return -20 + (noise + 5.0 * (GROUPS[:, None] == np.arange(8)) if n < 8 else 0.1 * noise)

    return score


def hit(watching: Watching, how: int) -> None:
    os.kill(watching._monitor._process.pid, how)


def run(watching: Watching, first: int, last: int, before=None, within=None) -> tuple[list, float]:
    """Reports of the generations, and the longest of them in seconds."""
    reports, longest = [], 0.0
    for n in range(first, last + 1):
        if before:
            before(n)

        def score(pairs, n=n):
            if within:
                within(n)
            return score_of(n)(pairs)

        began = time.perf_counter()
        reports.append(watching.observe(rollouts(n), score).report)
        longest = max(longest, time.perf_counter() - began)
    return reports, longest


@pytest.fixture(scope="module")
def undisturbed() -> list:
    watching = Watching(every=3, threads=1, filter={"value": 0.9})
    reports, _ = run(watching, 1, 16)
    watching.close()
    kinds = [verdict["kind"] for verdict in reports[-1]["judgement"]["verdicts"]]
    assert "template_collapse" in kinds
    return reports


@contextmanager
def files_of(most: int):
    """No file may be longer: what a full disk looks like."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@posix
class TestMonitor:
    def test_gives_up_a_sidecar_that_is_stopped_though_the_pipe_is_full(self):
        with Monitor(threads=1) as monitor:
            monitor.patience = 1.0
            monitor._process.send_signal(signal.SIGSTOP)
            began = time.perf_counter()
            with pytest.raises(SidecarError, match=r"did not answer for 1(\.\d)? s"):
                monitor.step(1, groups=np.repeat(np.arange(2500), 8), prompt_tokens=[[7] * 50] * 2500)
            assert time.perf_counter() - began < STALL
            with pytest.raises(SidecarError, match="signal 9"):
                monitor.save()
        assert time.perf_counter() - began < STALL

    def test_waits_for_one_that_was_stopped_for_a_moment(self):
        with Monitor(threads=1) as monitor:
            monitor.patience = 3.0
            monitor._process.send_signal(signal.SIGSTOP)
            woken = signal.signal(signal.SIGALRM, lambda *_: monitor._process.send_signal(signal.SIGCONT))
            signal.setitimer(signal.ITIMER_REAL, 1.0)
            try:
                assert monitor.step(1, groups=GROUPS, due=False).due is False
            finally:
                signal.signal(signal.SIGALRM, woken)

    def test_waits_for_one_that_works(self, monkeypatch, tmp_path):
        # It answers pings at once, and everything else late.
        busy = tmp_path / "main.js"
        busy.write_text(
            """require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
                const { id, op } = JSON.parse(line);
                const answer = JSON.stringify({ id, options: {}, lastStep: null, state: { at: op } });
                setTimeout(() => console.log(answer), op === 'save' ? 2500 : 0);
            });"""
        )
        monkeypatch.setenv("COLLAPSAR_COMMAND", str(busy))
        with Monitor(threads=1) as monitor:
            monitor.patience = 0.9
            assert monitor.save() == {"at": "save"}
        with Monitor(threads=1, timeout=1.0) as monitor, pytest.raises(SidecarError, match="did not answer for 1 s"):
            monitor.save()

    def test_waits_longer_for_one_that_computes(self, monkeypatch, tmp_path):
        # It answers nothing for three seconds, pings neither.
        busy = tmp_path / "main.js"
        busy.write_text(
            """require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
                const { id, op } = JSON.parse(line);
                for (const end = Date.now() + (op === 'save' ? 3000 : 0); Date.now() < end; );
                console.log(JSON.stringify({ id, options: {}, lastStep: null, state: { at: op } }));
            });"""
        )
        monkeypatch.setenv("COLLAPSAR_COMMAND", str(busy))
        with Monitor(threads=1) as monitor:
            monitor.patience = 1.2
            assert monitor.save() == {"at": "save"}
            monitor.patience = 0.3
            with pytest.raises(SidecarError, match="did not answer"):
                monitor.save()

    def test_is_as_it_was_after_an_interrupted_question(self):
        def interrupt(*_):
            raise KeyboardInterrupt

        with Monitor(threads=1) as monitor:
            monitor._process.send_signal(signal.SIGSTOP)
            before = signal.signal(signal.SIGALRM, interrupt)
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            try:
                with pytest.raises(KeyboardInterrupt):
                    # More than the pipe holds: the line is cut where it is interrupted.
                    monitor.rollouts(1, texts=["word " * 50_000] * 8, groups=[0, 0, 0, 0, 1, 1, 1, 1])
            finally:
                signal.signal(signal.SIGALRM, before)
                monitor._process.send_signal(signal.SIGCONT)
            assert monitor.step(2, groups=GROUPS, due=False).finish().step == 2


@posix
class TestWatching:
    @pytest.mark.parametrize("how", ["SIGKILL", "SIGSTOP"])
    @pytest.mark.parametrize("moment", ["between generations", "while scoring"])
    def test_reports_what_an_undisturbed_run_reports(self, undisturbed, caplog, how, moment):
        watching = Watching(every=3, threads=1, filter={"value": 0.9})
        times = {1, 7, 8} if moment == "between generations" else {3, 9}

        def fault(n):
            if n in times:
                times.discard(n)
                hit(watching, getattr(signal, how))

        moments = {"before": fault} if moment == "between generations" else {"within": fault}
        with caplog.at_level(logging.WARNING, "collapsar"):
            reports, longest = run(watching, 1, 16, **moments)
        watching.close()
        assert json.dumps(reports) == json.dumps(undisturbed)
        assert longest < STALL and not times
        assert "another took its place at generation" in caplog.text and "unwatched" not in caplog.text

    def test_keeps_its_history_while_there_is_no_sidecar(self, undisturbed, caplog):
        watching = Watching(every=3, threads=1, filter={"value": 0.9})
        run(watching, 1, 5)
        state = watching.save()
        watching._process["node"] = "/nowhere/node"
        hit(watching, signal.SIGKILL)
        with caplog.at_level(logging.WARNING, "collapsar"):
            lost, _ = run(watching, 6, 7)
        assert lost == [None, None] and watching.save()["monitor"] == state["monitor"]
        assert "stops watching at generation 6" in caplog.text and "unfiltered" in caplog.text
        # It is tried later and later.
        assert watching.resting
        watching._again = 0.0
        run(watching, 8, 8)
        assert 1.9 < watching._again - time.monotonic() <= 2.0
        saved = json.loads(json.dumps(watching.save()))
        assert saved["generation"] == 8
        watching._process["node"], watching._again = None, 0.0
        (report,), _ = run(watching, 9, 9)
        assert report is not None and watching.failure is None and "it left out 3 before" in caplog.text
        watching.close()
        # What was saved in between has the history, too: the fall is one from the run's start.
        later = Watching(every=3, threads=1, filter={"value": 0.9})
        later.restore(saved)
        reports, _ = run(later, 9, 16)
        later.close()
        kinds = [verdict["kind"] for verdict in reports[-1]["judgement"]["verdicts"]]
        assert "template_collapse" in kinds

    def test_goes_on_as_the_run_was_begun_and_says_so(self, caplog):
        watching = Watching(every=3, threads=1, filter={"value": 0.9})
        run(watching, 1, 4)
        saved = json.loads(json.dumps(watching.save()))
        watching.close()
        same = Watching(every=3, threads=1, filter={"value": 0.9})
        same.restore(saved)
        same.close()
        assert "as it was begun" not in caplog.text
        for options in ({"every": 2, "filter": {"value": 0.5}}, {"every": "never"}):
            caplog.clear()
            later = Watching(threads=1, **options)
            later.restore(saved)
            (report,), _ = run(later, 5, 5)
            later.close()
            # One of three is computed, and nine tenths are kept, as before.
            assert report["filter"] is not None and later.every == 3
            (said,) = [record.getMessage() for record in caplog.records if "as it was begun" in record.getMessage()]
            assert f"every=3 (not {options['every']!r})" in said
            assert "filter={" in said and f"(not {options.get('filter')!r})" in said

    def test_waits_for_a_slow_start_no_longer_than_a_generation_may_take(self, monkeypatch, tmp_path, undisturbed):
        watching = Watching(every=3, threads=1, filter={"value": 0.9})
        run(watching, 1, 2)
        slow = tmp_path / "node"
        slow.write_text('#!/bin/sh\n[ "$1" = --version ] || sleep 6\nexec node "$@"\n')
        slow.chmod(0o755)
        watching._process["node"] = str(slow)
        hit(watching, signal.SIGKILL)
        (lost,), longest = run(watching, 3, 3)
        assert lost is None and longest < STALL
        time.sleep(3)
        reports, _ = run(watching, 4, 5)
        watching.close()
        assert [report["step"] for report in reports] == [4, 5]

    def test_says_so_where_nothing_was_measured(self):
        watching = Watching(threads=1)
        assert watching.save()["monitor"] is None
        watching._process["node"] = "/nowhere/node"
        hit(watching, signal.SIGKILL)
        assert watching.observe(rollouts(1), score_of(1)).report is None
        with pytest.raises(StateError, match="none of 1 generations"):
            watching.save()
        watching.close()

    def test_ends_the_run_on_request_only(self):
        watching = Watching(threads=1, on_error="raise")
        run(watching, 1, 1)
        hit(watching, signal.SIGKILL)
        # What can be mended is no error.
        assert run(watching, 2, 2)[0][0]["step"] == 2
        watching._process["node"] = "/nowhere/node"
        hit(watching, signal.SIGKILL)
        with pytest.raises(NodeError):
            run(watching, 3, 3)
        watching.close()

    def test_is_found_at_the_same_address(self, monkeypatch):
        monkeypatch.delenv("COLLAPSAR_TOKEN", raising=False)
        watching = Watching(threads=1, serve=0, token="mine")
        page = watching.page
        assert page.endswith("?token=mine")
        run(watching, 1, 1)
        hit(watching, signal.SIGKILL)
        run(watching, 2, 2)
        assert watching.page == page
        watching.close()


class TestOptions:
    @pytest.mark.parametrize("on_error", ["warn", "raise"])
    @pytest.mark.parametrize(
        ("wrong", "match"),
        [
            ({"every": 0}, "^every: got 0"),
            ({"every": True}, "^every: "),
            ({"filter": {"strategy": "top"}}, "^filter.strategy: "),
            ({"filter": {"top_pmode": 1}}, "^filter.top_pmode: unknown option; known are .*top_p_mode"),
            ({"filter": 0.9}, "^filter: "),
            ({"negatives": 1}, "^negatives: "),
            (
                {"options": {"early_stop": {"reward_variance": {"belo": 1}}}},
                "^early_stop.reward_variance.belo: .*start_steps",
            ),
            ({"options": {"hard_share": {1}}}, "is not plain JSON"),
            ({"to": ["nowhere:x"]}, "^to: "),
            ({"serve": 99999}, "^serve: "),
            ({"threads": 0}, "^threads: "),
            ({"timeout": 0}, "^timeout: "),
        ],
    )
    def test_that_are_wrong_raise_where_they_are_given(self, on_error, wrong, match):
        with pytest.raises(ArgumentError, match=match):
            Watching(**{"threads": 1, "on_error": on_error} | wrong)

    def test_of_hooks_are_named(self, monkeypatch):
        monkeypatch.setattr("collapsar.slime._watching", None)
        monkeypatch.setenv("COLLAPSAR_SLIME", '{"evry": 5}')
        with pytest.raises(ArgumentError, match=r"COLLAPSAR_SLIME: unknown option 'evry'; known are state, every"):
            log_rollouts(0, None, [], {}, 1.0)

    @pytest.mark.parametrize("on_error", ["warn", "raise"])
    def test_need_a_node(self, monkeypatch, on_error):
        monkeypatch.setenv("COLLAPSAR_NODE", "/nowhere/node")
        with pytest.raises(NodeError, match="there is no Node"):
            Watching(on_error=on_error)


class TestStates:
    def observed(self, path, caplog, **options) -> SavedWatching:
        caplog.clear()
        with caplog.at_level(logging.WARNING, "collapsar"):
            watching = SavedWatching(state=str(path), threads=1, **options)
            run(watching, watching.generation + 1, watching.generation + 1)
        watching.close()
        return watching

    def test_go_on_and_are_written_whole(self, tmp_path, caplog, monkeypatch):
        synced = []
        fsync = os.fsync
        monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_mode) or fsync(handle))
        path = tmp_path / "state.json"
        assert self.observed(path, caplog).generation == 1
        # The file, and the folder that has its name.
        assert len(synced) == 2
        # Nothing is told, what was noted before neither.
        assert "note: " in caplog.text
        assert self.observed(path, caplog).generation == 2 and caplog.text == ""
        assert os.listdir(tmp_path) == ["state.json"]

    def test_on_a_full_disk_are_the_last_that_had_room(self, tmp_path, caplog):
        path = tmp_path / "state.json"
        self.observed(path, caplog)
        before = path.read_text()
        with files_of(1000):
            watching = self.observed(path, caplog)
        assert path.read_text() == before and os.listdir(tmp_path) == ["state.json"]
        assert "generation 2 is not saved, training goes on" in caplog.text and watching.report["step"] == 2
        with files_of(1000), pytest.raises(OSError, match="too large"):
            self.observed(path, caplog, on_error="raise")

    def test_in_a_missing_folder_are_told_of_once(self, tmp_path, caplog):
        path = tmp_path / "none" / "state.json"
        watching = SavedWatching(state=str(path), threads=1)
        with caplog.at_level(logging.WARNING, "collapsar"):
            run(watching, 1, 3)
            assert caplog.text.count("is not saved") == 1
            path.parent.mkdir()
            run(watching, 4, 4)
        watching.close()
        assert json.loads(path.read_text())["generation"] == 4

    @pytest.mark.parametrize("length", [0, 40, -3])
    def test_that_are_cut_begin_anew(self, tmp_path, caplog, length):
        path = tmp_path / "state.json"
        self.observed(path, caplog)
        text = path.read_text()
        path.write_text(text[:length])
        with pytest.raises(StateError, match="is cut"):
            SavedWatching(state=str(path), threads=1, on_error="raise")
        watching = self.observed(path, caplog)
        assert watching.generation == 1 and "the watch begins anew" in caplog.text and "is cut" in caplog.text
        assert (tmp_path / "state.json.damaged").read_text() == text[:length]
        assert json.loads(path.read_text())["generation"] == 1

    def test_of_something_else_are_not_overwritten(self, tmp_path):
        path = tmp_path / "state.json"
        path.write_text('{"mine": true}')
        with pytest.raises(StateError, match="format None"):
            SavedWatching(state=str(path), threads=1)
        assert path.read_text() == '{"mine": true}'

    def test_that_are_damaged_leave_all_as_it_was(self):
        watching = Watching(threads=1)
        run(watching, 1, 3)
        state = watching.save()
        for damaged in (
            {"generation": "x"},
            {"monitor": 7},
            {"monitor": {"format": "?"}},
            {"version": 9},
            {"notes": [1]},
        ):
            with pytest.raises(CollapsarError):
                watching.restore({**state, **damaged})
        assert watching.generation == 3 and run(watching, 4, 4)[0][0]["step"] == 4
        watching.close()


@posix
class TestSinks:
    def test_on_a_full_disk_do_not_end_the_watch(self, tmp_path):
        with files_of(2000):
            watching = Watching(threads=1, every=1, to=[f"tensorboard:{tmp_path}/tb", f"results:{tmp_path}/r"])
            reports, longest = run(watching, 1, 6)
            watching.close()
        assert [report["step"] for report in reports] == list(range(1, 7)) and longest < STALL


def test_the_pause_has_an_end(monkeypatch):
    watching = Watching(asks=False)
    now = [1000.0]
    monkeypatch.setattr(watching_module.time, "monotonic", lambda: now[0])
    pauses = []
    for _ in range(9):
        watching.fail(SidecarError("gone"))
        pauses.append(watching._again - now[0])
    assert pauses == [0, 1, 2, 4, 8, 16, 32, 60, 60]


def test_verdicts_are_logged_by_their_severity(undisturbed, caplog):
    with caplog.at_level(logging.DEBUG, "collapsar"):
        watching = Watching(every=3, threads=1, filter={"value": 0.9})
        looks = [watching.observe(rollouts(n), score_of(n)) for n in range(1, 13)]
        watching.close()
    levels = {"info": logging.INFO, "warning": logging.WARNING, "critical": logging.ERROR}
    said = {record.getMessage(): record.levelno for record in caplog.records}
    verdicts = [(look.step, sentence) for look in looks for sentence in look.verdicts]
    assert any(sentence.startswith("critical") for _, sentence in verdicts)
    for step, sentence in verdicts:
        assert said[f"collapsar, generation {step}: {sentence}"] == levels[sentence.split(":")[0]]
    alarms = [look.logged["collapsar/alarm"] for look in looks]
    assert alarms[0] == 0 and alarms[-1] == 1 and set(alarms) == {0, 1}
    # At looks, the figures of texts stand beside those of scores.
    assert all("collapsar/text_mi" in look.logged for look in looks)
    assert "collapsar/mi" in looks[11].logged and "collapsar/mi" not in looks[9].logged
