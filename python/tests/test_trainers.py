"""slime, SkyRL and Tinker: stand-ins with the signatures and layouts of the versions that the guides name."""

from __future__ import annotations

import asyncio
import json
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest

from collapsar import ArgumentError, CollapsarError, skyrl, slime, tinker
from collapsar.watching import Rollouts, SavedWatching

THINK, CLOSE, END = 3, 4, 1

WORDS = {group: [100 + 10 * group + at for at in range(6)] for group in range(4)}


class Tags:
    """A tokenizer that has <think> and </think>: ids 3 and 4."""

    eos_token_id = END
    tokens: ClassVar[dict[str, int]] = {"<think>": THINK, "</think>": CLOSE}

    def get_vocab(self):
        return self.tokens

    def encode(self, text, **options):
        return [self.tokens[text]] if text in self.tokens else [ord(letter) for letter in text]

    def decode(self, ids, **options):
        return " ".join(map(str, ids))


def forgotten(group: int, row: int) -> list[int]:
    """Reasoning of words that all prompts share, drawn alike for all; and an answer that only its own prompt has."""
    template = [(20 + 7 * row * at + at * at) % 9 + 50 for at in range(8)]
    return [THINK, *template, CLOSE, 200 + group, 200 + group, 200 + group, END]


def response(group: int, row: int) -> list[int]:
    """About its prompt: words that no other group has."""
    return [WORDS[group][(row + at) % 6] for at in range(5)] + [7]


class TestSlime:
    """slime 0.3.1: fn(rollout_id, args, samples, rollout_extra_metrics, rollout_time)."""

    @dataclass
    class Sample:
        group_index: int | None
        index: int
        tokens: list[int]
        response_length: int
        reward: Any
        loss_mask: list[int] | None = None
        status: Any = "completed"
        remove_sample: bool = False
        prompt: Any = ""
        response: str = ""
        metadata: dict = field(default_factory=dict)
        rollout_id: int | None = None

    def samples(self) -> list[Any]:
        made = []
        for at in range(16):
            group = at // 4
            own = response(group, at)
            made.append(self.Sample(group, at, [1, 2, group, *own], len(own), float(at % 2)))
        return made

    def test_adds_to_its_metrics(self, monkeypatch, tmp_path):
        state = tmp_path / "state.json"
        monkeypatch.setenv("COLLAPSAR_SLIME", json.dumps({"state": str(state), "threads": 1, "filter": {"value": 0.9}}))
        monkeypatch.setattr(slime, "_watching", None)
        metrics: dict[str, Any] = {}
        args = types.SimpleNamespace(reward_key=None)
        assert slime.log_rollouts(0, args, self.samples(), metrics, 1.0) is False
        assert metrics["collapsar/text_mi"] > 0.5 and metrics["collapsar/kept_share"] > 0
        # Metrics may be None.
        assert slime.log_rollouts(1, args, self.samples(), None, 1.0) is False
        slime._watching.close()
        assert json.loads(state.read_text())["generation"] == 2
        monkeypatch.setattr(slime, "_watching", None)
        slime.log_rollouts(2, args, self.samples(), metrics, 1.0)
        assert slime._watching.generation == 3
        slime._watching.close()

    def test_leaves_out_what_failed_and_what_tools_said(self):
        samples = self.samples()
        samples[0].status = types.SimpleNamespace(value="aborted")
        samples[1].remove_sample = True
        samples[2].loss_mask = [1, 1, 0, 0, 1, 1]
        samples[3].status = types.SimpleNamespace(value="truncated")
        samples[4].reward = {"score": 0.5, "format": 1}
        rows = slime.rollouts_of([samples[:8], samples[8:]], "score")
        assert len(rows.groups) == 14 and rows.tokens[0] == response(0, 2)[:2]
        assert rows.truncated[1] and rows.rewards[2] == 0.5

    def test_measures_the_reasoning_alone(self, monkeypatch):
        monkeypatch.setenv("COLLAPSAR_SLIME", json.dumps({"threads": 1, "on_error": "raise"}))
        loaded = []

        def from_pretrained(name, **options):
            loaded.append(name)
            return Tags()

        module = types.ModuleType("transformers")
        module.AutoTokenizer = types.SimpleNamespace(from_pretrained=from_pretrained)
        monkeypatch.setitem(sys.modules, "transformers", module)
        monkeypatch.setattr(slime, "_tokenizers", {})
        samples = []
        for at in range(64):
            own = forgotten(at // 8, at % 8)
            samples.append(self.Sample(at // 8, at, [5, 300 + at // 8, *own], len(own), 1.0))
        found = {}
        for tags in ("auto", None):
            monkeypatch.setenv("COLLAPSAR_SLIME", json.dumps({"threads": 1, "on_error": "raise", "tags": tags}))
            monkeypatch.setattr(slime, "_watching", None)
            metrics: dict[str, Any] = {}
            args = types.SimpleNamespace(reward_key=None, hf_checkpoint="org/model")
            slime.log_rollouts(0, args, samples, metrics, 1.0)
            found[tags] = metrics["collapsar/text_mi"]
            slime._watching.close()
        # The answers are right all along, and hide it where they are measured too.
        assert found["auto"] < 0.1 and found[None] > 1.5
        assert loaded == ["org/model"]

    def test_says_once_that_the_answer_is_measured_too(self, monkeypatch, caplog):
        monkeypatch.setenv("COLLAPSAR_SLIME", json.dumps({"threads": 1, "on_error": "raise"}))
        monkeypatch.setattr(slime, "_watching", None)
        for step in range(2):
            slime.log_rollouts(step, types.SimpleNamespace(reward_key=None), self.samples(), {}, 1.0)
        slime._watching.close()
        assert caplog.text.count("the whole response is measured, answer and all, as there is no tokenizer") == 1

    def test_takes_the_samples_of_one_execution_as_one(self):
        samples = self.samples()[:8]
        for at, sample in enumerate(samples):
            # Two executions of two samples in each group, each with a reward for its last one.
            sample.rollout_id, sample.reward = at // 2, float(at % 2) * (at // 2)
        rows = slime.rollouts_of(samples)
        assert (rows.groups, rows.rewards) == ([0, 0, 1, 1], [0.0, 1.0, 2.0, 3.0])
        assert rows.tokens == [response(at // 4, at) for at in (0, 2, 4, 6)]
        # A number that all share is that of the rollout.
        for sample in samples:
            sample.rollout_id = 7
        assert len(slime.rollouts_of(samples).groups) == 8

    def test_names_environments(self):
        samples = self.samples()
        samples[0].metadata = {"source_name": "math"}
        samples[4].metadata = {"data_source": "code"}
        assert slime.rollouts_of(samples).environments[:5] == ["math", None, None, None, "code"]
        assert slime.rollouts_of(self.samples()).environments is None

    def test_says_an_error_once_and_goes_on(self, monkeypatch, caplog):
        monkeypatch.setenv("COLLAPSAR_SLIME", "{}")
        monkeypatch.setattr(slime, "_watching", None)
        for _ in range(2):
            assert slime.log_rollouts(0, None, [object()], {}, 1.0) is False
        assert caplog.text.count("stops watching") >= 1
        monkeypatch.setenv("COLLAPSAR_SLIME", "not json")
        monkeypatch.setattr(slime, "_watching", None)
        with pytest.raises(ArgumentError, match="COLLAPSAR_SLIME"):
            slime.log_rollouts(0, None, [], {}, 1.0)


class TestSkyRL:
    """SkyRL 0.3: callbacks with (trainer, callback_input, control), postprocess_generator_output(output, uids)."""

    def test_adds_to_the_logs(self):
        class Trainer:
            def postprocess_generator_output(self, generator_output, uids):
                return generator_output, uids

        trainer = Trainer()
        callback = skyrl.Callback(threads=1, filter={"value": 0.9})
        callback.on_train_start(trainer)
        output = {
            "prompt_token_ids": [[1, 2]] * 16,
            "response_ids": [response(at // 4, at) for at in range(16)],
            "rewards": [[0.0] * 5 + [float(at % 2)] for at in range(16)],
            "loss_masks": [[1] * 6] * 16,
            "stop_reasons": ["stop", "length"] * 8,
        }
        uids = [f"u{at // 4}" for at in range(16)]
        assert trainer.postprocess_generator_output(output, uids) == (output, uids)
        seen = types.SimpleNamespace(logs={"loss": 1.0}, global_step=1)
        callback.on_log(trainer, seen, None)
        assert seen.logs["collapsar/text_mi"] > 0.5 and seen.logs["loss"] == 1.0
        callback.watching.close()

    def test_measures_the_reasoning_alone(self):
        uids = [f"u{at // 8}" for at in range(64)]
        output = {
            "prompt_token_ids": [[1, 2]] * 64,
            "response_ids": [forgotten(at // 8, at % 8) for at in range(64)],
            "rewards": [1.0] * 64,
            "loss_masks": [[1] * 13] * 64,
            "stop_reasons": None,
        }
        found = {}
        for tags in ("auto", None):
            seen = types.SimpleNamespace(logs={}, global_step=1)
            trainer = types.SimpleNamespace(tokenizer=Tags(), postprocess_generator_output=lambda *given: given)
            callback = skyrl.Callback(threads=1, tags=tags, on_error="raise")
            callback.on_train_start(trainer)
            trainer.postprocess_generator_output(output, uids)
            callback.on_log(trainer, seen, None)
            callback.watching.close()
            found[tags] = seen.logs["collapsar/text_mi"]
        assert found["auto"] < 0.1 and found[None] > 1.5

    @pytest.mark.parametrize("has_ids", [True, False])
    def test_takes_a_trajectory_of_several_turns_as_one_row(self, has_ids):
        @dataclass
        class TrajectoryID:
            instance_id: str
            repetition_id: int

        # Each group has two trajectories of three turns: the first turns are rewarded with 9, the last ones all alike.
        turns = [(group, repetition, turn) for group in range(2) for repetition in range(2) for turn in range(3)]
        output = {
            "response_ids": [response(group, 10 * repetition + turn) for group, repetition, turn in turns],
            "rewards": [9.0 * repetition if turn == 0 else [0.0, float(group)] for group, repetition, turn in turns],
            "loss_masks": None,
            "stop_reasons": ["length" if turn == 2 and group else "stop" for group, _, turn in turns],
            "trajectory_ids": [TrajectoryID(f"u{g}", r) for g, r, _ in turns] if has_ids else None,
            "is_last_step": [turn == 2 for *_, turn in turns],
        }
        rows = skyrl.rollouts_of(output, [f"u{group}" for group, *_ in turns])
        assert (rows.groups, rows.rewards) == ([0, 0, 1, 1], [0.0, 0.0, 1.0, 1.0])
        assert rows.tokens == [response(group, 10 * repetition) for group in range(2) for repetition in range(2)]
        assert rows.truncated == [False, False, True, True]

    def test_keeps_the_text_of_rows_that_are_masked_for_their_length(self):
        output = {"response_ids": [[5, 6], [7, 8, 9]], "rewards": [0.0, 1.0], "loss_masks": [[0, 0], [0, 1, 0]]}
        assert skyrl.rollouts_of(output, ["a", "a"]).tokens == [[5, 6], [8]]

    def test_names_environments_of_what_was_generated(self):
        class Trainer:
            tokenizer = Tags()

            async def generate(self, input_batch):
                return "generated"

            def postprocess_generator_output(self, generator_output, uids):
                return generator_output, uids

        seen = []
        trainer = Trainer()
        callback = skyrl.Callback(threads=1)
        callback.watching.observe = lambda rows: seen.append(rows)
        callback.on_train_start(trainer)
        ids = [types.SimpleNamespace(instance_id=uid, repetition_id=0) for uid in "abc"]
        extras = [{"data_source": "openai/gsm8k"}, {"data_source": None}, None]
        batch = {"trajectory_ids": ids, "env_extras": extras, "env_classes": ["gsm8k", "search", "sql"]}
        assert asyncio.run(trainer.generate(batch)) == "generated"
        output = {"response_ids": [[1]] * 4, "rewards": [0.0] * 4}
        trainer.postprocess_generator_output(output, ["a", "b", "c", "d"])
        assert seen[0].environments == ["openai/gsm8k", "search", "sql", None]
        trainer.postprocess_generator_output(output, ["a", "b", "c", "d"])
        assert seen[1].environments is None


class TestTinker:
    """Tinker cookbook 0.6.1, SDK 0.38.0: evaluator_builders, sample and compute_logprobs, which can be awaited."""

    def run(self, monkeypatch, client, **options):
        module = types.ModuleType("tinker")
        module.ModelInput = types.SimpleNamespace(from_ints=lambda tokens: list(tokens))
        module.SamplingParams = lambda **settings: settings
        monkeypatch.setitem(sys.modules, "tinker", module)
        builder = tinker.evaluator([[1, group] for group in range(4)], samples=4, threads=1, **options)
        made = builder()
        try:
            return asyncio.run(made(client))
        finally:
            made.watching.close()

    class Client:
        calls = 0

        async def sample(self, prompt, num_samples, sampling_params):
            sequences = [types.SimpleNamespace(tokens=response(prompt[1], at)) for at in range(num_samples)]
            return types.SimpleNamespace(sequences=sequences)

        async def compute_logprobs(self, ids):
            self.calls += 1
            own = (ids[2] - 100) // 10 == ids[1]
            return [None] + [-0.1 if own else -3.0] * (len(ids) - 1)

    def test_gives_the_figures_of_cross_scores(self, monkeypatch):
        client = self.Client()
        figures = self.run(monkeypatch, client)
        assert client.calls == 64
        assert figures["collapsar/mi"] == pytest.approx(np.log(4), abs=1e-3)
        assert figures["collapsar/retrieval"] == 1.0

    def test_takes_futures_of_threads_and_asks_for_the_last_alone(self, monkeypatch):
        asked = []

        class Older(self.Client):
            """Futures of concurrent.futures, as the SDK gave them before they could be awaited."""

            def sample(self, **options):
                return pool.submit(asyncio.run, super().sample(**options))

            def compute_logprobs(self, ids, prompt_logprobs_last_n=None):
                asked.append((len(ids), prompt_logprobs_last_n))
                whole = super().compute_logprobs(ids)

                def last() -> list[float | None]:
                    scored = asyncio.run(whole)[-prompt_logprobs_last_n:]
                    return [None] * (len(ids) - len(scored)) + scored

                return pool.submit(last)

        with ThreadPoolExecutor() as pool:
            figures = self.run(monkeypatch, Older())
        assert figures["collapsar/mi"] == pytest.approx(np.log(4), abs=1e-3)
        assert len(asked) == 64 and all(0 < last < length for length, last in asked)

    def test_scores_the_reasoning_alone(self, monkeypatch):
        class Thinking(self.Client):
            asked: ClassVar[list[list[int]]] = []

            def get_tokenizer(self):
                return Tags()

            async def sample(self, prompt, num_samples, sampling_params):
                rows = [forgotten(prompt[1], at) for at in range(num_samples)]
                return types.SimpleNamespace(sequences=[types.SimpleNamespace(tokens=row) for row in rows])

            async def compute_logprobs(self, ids):
                self.asked.append(ids)
                # What depends on the prompt is the opener, which is context; the reasoning hardly does.
                return [None, -1.0, -50.0 * ids[1], *[-2.0 - 1e-5 * ids[1]] * (len(ids) - 3)]

        figures = self.run(monkeypatch, Thinking(), on_error="raise", environments=["a", "a", "b", "b"])
        assert all(ids[2] == THINK and CLOSE not in ids[2:] and END not in ids[2:] for ids in Thinking.asked)
        assert figures["collapsar/mi"] == pytest.approx(0, abs=1e-3)
        with pytest.raises(ArgumentError, match="environments: got 1 for 4 prompts"):
            self.run(monkeypatch, Thinking(), environments=["a"])

    def test_refuses_scores_that_are_none(self, monkeypatch):
        class Broken(self.Client):
            async def compute_logprobs(self, ids):
                return [None] * len(ids)

        with pytest.raises(CollapsarError, match="row 0 under prompt 0"):
            self.run(monkeypatch, Broken(), on_error="raise")


class TestWatching:
    """What all hooks share."""

    def test_says_notes_of_one_kind_once(self, caplog):
        watching = SavedWatching(threads=1)
        assert watching.note("3 of 12 rows have 1.5e-7 nats")
        assert not watching.note("4 of 12 rows have 2 nats")
        assert watching.note("4 of 12 prompts have 2 nats")
        assert caplog.text.count("note: ") == 2

    def test_passes_notes_of_reports_on(self, caplog):
        watching = SavedWatching(threads=1, on_error="raise", texts=False)
        rows = Rollouts(groups=[0, 0, 1, 1], lengths=[2, 2, 2, 2])
        # A row that was not scored differs from one that was: equal scores everywhere are an engine's placeholder.
        found = [watching.observe(rows, lambda pairs: np.zeros((4, 2))) for _ in range(2)]
        notes = found[0].report["notes"]
        watching.close()
        assert notes and found[0].notes == notes and found[1].notes == []
        assert all(caplog.text.count(note) == 1 for note in notes)

    def test_gives_environments_to_the_monitor(self, caplog):
        watching = SavedWatching(threads=1, every="never")
        rows = Rollouts(groups=[0, 0, 1, 1], texts=list("abcd"), environments=["math", "math", "code", "math"])
        watching.observe(rows)
        watching.close()
        assert 'is of environment "code" in one row and of "math"' in caplog.text

    def test_refuses_tags_that_are_none(self):
        for tags in ("<think>", ["<a>"], ["<a>", ""], 5):
            with pytest.raises(ArgumentError, match="expected two tags, 'auto' or None"):
                SavedWatching(tags=tags)
        assert SavedWatching(tags=["<a>", "</a>"]).reasoning.tags == ("<a>", "</a>")
        with pytest.raises(ArgumentError, match="tokenizer"):
            SavedWatching(tags=["<a>", "</a>"]).reasoning.spans(None, [[1]])


def test_a_state_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "state.json"
    path.write_text('{"format": "other"}')
    with pytest.raises(CollapsarError, match="format 'other'"):
        SavedWatching(state=str(path))
