"""slime, SkyRL and Tinker: stand-ins with the signatures and layouts of the versions that the guides name."""

from __future__ import annotations

import asyncio
import json
import sys
import types
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from collapsar import ArgumentError, CollapsarError, skyrl, slime, tinker
from collapsar.watching import SavedWatching

WORDS = {group: [100 + 10 * group + at for at in range(6)] for group in range(4)}


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


class TestTinker:
    """Tinker cookbook 0.5.5: evaluator_builders, sample_async, compute_logprobs_async."""

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

        async def sample_async(self, prompt, num_samples, sampling_params):
            sequences = [types.SimpleNamespace(tokens=response(prompt[1], at)) for at in range(num_samples)]
            return types.SimpleNamespace(sequences=sequences)

        async def compute_logprobs_async(self, ids):
            self.calls += 1
            own = (ids[2] - 100) // 10 == ids[1]
            return [None] + [-0.1 if own else -3.0] * (len(ids) - 1)

    def test_gives_the_figures_of_cross_scores(self, monkeypatch):
        client = self.Client()
        figures = self.run(monkeypatch, client)
        assert client.calls == 64
        assert figures["collapsar/mi"] == pytest.approx(np.log(4), abs=1e-3)
        assert figures["collapsar/retrieval"] == 1.0

    def test_refuses_scores_that_are_none(self, monkeypatch):
        class Broken(self.Client):
            async def compute_logprobs_async(self, ids):
                return [None] * len(ids)

        with pytest.raises(CollapsarError, match="row 0 under prompt 0"):
            self.run(monkeypatch, Broken(), on_error="raise")


def test_a_state_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "state.json"
    path.write_text('{"format": "other"}')
    with pytest.raises(CollapsarError, match="format 'other'"):
        SavedWatching(state=str(path))
