"""verl and RAGEN: stand-ins with the signatures and batch layouts of verl 0.10 (V1 with TransferQueue, and the legacy
RayPPOTrainer) and of RAGEN 20daedc. Their actor is a real model; verl itself is not here."""

from __future__ import annotations

import importlib
import json
import sys
import types
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from models import qwen, tokenizer  # noqa: E402

from collapsar.hf import Row, cross_scores  # noqa: E402

WORDS = [f"w{at}" for at in range(40)] + ["<think>", "</think>"]
OPEN, CLOSE, END = 43, 44, 1
TEMPERATURE = 0.7
PROMPTS, EACH = 4, 4
ROWS = PROMPTS * EACH


#: of V1, with their classes
MODES = {
    "sync": "PPOTrainerSync",
    "colocate_async": "PPOTrainerColocateAsync",
    "separate_async": "PPOTrainerSeparateAsync",
}
LEGACY = """import types

class RayPPOTrainer:
    updated = None

    def _compute_old_log_prob(self, batch):
        self.scored = len(batch.batch["input_ids"])
        return self.old_log_probs(batch), 0.1

    def _update_actor(self, batch):
        self.updated = batch
        return types.SimpleNamespace(meta_info={"metrics": {"actor/lr": [1e-6]}})


class OneStepOffRayTrainer(RayPPOTrainer):
    pass
"""


def prompt_of(group: int) -> list[int]:
    return [3 + group, 9, 5][: 2 + group % 2]


def response_of(row: int) -> list[int]:
    """Reasoning of words of its prompt alone, between tags; then an answer."""
    group = row // EACH
    return [OPEN, *[10 + 6 * group + (row + at) % 6 for at in range(3 + row % 3)], CLOSE, 7, END]


def reward_of(row: int) -> float:
    """Varied for the first two prompts alone."""
    return float(row % 2 if row < 8 else 1)


def expected_scores(model) -> np.ndarray:
    rows = [Row(response_of(row)[: 4 + row % 3], 1) for row in range(ROWS)]
    return cross_scores(model, [prompt_of(group) for group in range(PROMPTS)], rows, temperature=TEMPERATURE)


def log_probs(model, ids: list[int]) -> torch.Tensor:
    """As verl's actor gives them: at each place of the next token, at the last of nothing."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([ids])).logits[0].float() / TEMPERATURE
    chosen = logits.log_softmax(-1)[:-1].gather(-1, torch.tensor(ids)[1:, None]).squeeze(-1)
    return torch.cat([chosen, torch.zeros(1)])


def nested(rows):
    return torch.nested.as_nested_tensor([torch.as_tensor(row) for row in rows], layout=torch.jagged)


def config_of(mode: str = "token-mean"):
    rollout = types.SimpleNamespace(temperature=TEMPERATURE)
    actor = types.SimpleNamespace(loss_agg_mode=mode)
    return types.SimpleNamespace(actor_rollout_ref=types.SimpleNamespace(rollout=rollout, actor=actor))


def options(monkeypatch, **given) -> None:
    monkeypatch.setenv("COLLAPSAR_VERL", json.dumps({"threads": 1, "on_error": "raise"} | given))


@pytest.fixture
def package(monkeypatch, tmp_path):
    """A package with verl's modules, as far as they are looked at."""
    root = tmp_path / "verl" / "trainer" / "ppo" / "v1"
    root.mkdir(parents=True)
    (tmp_path / "verl/utils").mkdir()
    for folder in ("verl", "verl/trainer", "verl/trainer/ppo", "verl/trainer/ppo/v1", "verl/utils"):
        (tmp_path / folder / "__init__.py").write_text("")
    (root / "trainer_base.py").write_text(
        "tq = None\nclass PPOTrainer:\n"
        "    def _compute_advantage(self, batch, metrics):\n        metrics['adv'] = 1.0\n        return batch\n"
    )
    for mode, name in MODES.items():
        (root / f"trainer_{mode}.py").write_text(
            f"from verl.trainer.ppo.v1.trainer_base import PPOTrainer\nclass {name}(PPOTrainer):\n    pass\n"
        )
    (tmp_path / "verl/trainer/ppo/ray_trainer.py").write_text(LEGACY)
    (tmp_path / "verl/utils/tensordict_utils.py").write_text("def list_of_dict_to_tensordict(rows):\n    return rows\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    options(monkeypatch, filter={"value": 0.9})
    for name in [name for name in sys.modules if name == "verl" or name.startswith("verl.")]:
        monkeypatch.delitem(sys.modules, name)
    before = list(sys.meta_path)
    yield importlib.import_module("collapsar.verl")
    sys.meta_path[:] = before
    for name in [name for name in sys.modules if name == "verl" or name.startswith("verl.")]:
        sys.modules.pop(name)


class Queue:
    """TransferQueue 0.1.8: rows by partition and key, columns of nested tensors out."""

    def __init__(self):
        self.rows: dict[str, dict[str, dict[str, Any]]] = {}

    def kv_batch_put(self, keys, partition_id, fields, tags=None):
        for key, row in zip(keys, fields, strict=True):
            self.rows.setdefault(partition_id, {}).setdefault(key, {}).update(row)

    def kv_batch_get(self, keys, partition_id, select_fields):
        rows = [self.rows[partition_id][key] for key in keys]
        names = [name for name in select_fields if all(name in row for row in rows)]
        columns = {name: [row[name] for row in rows] for name in names}
        return {
            name: nested(values) if isinstance(values[0], torch.Tensor) else values for name, values in columns.items()
        }

    def kv_clear(self, keys, partition_id):
        for key in keys:
            del self.rows[partition_id][key]


class KVBatchMeta(types.SimpleNamespace):
    """keys, tags, partition_id, fields, extra_info."""


class Actor:
    """compute_log_prob of V1's worker group: reads input_ids of the queue, writes log_probs of the whole sequence."""

    _dispatch_info = {"actor": [0, 0, 1, 1, 2, 2]}  # noqa: RUF012

    def __init__(self, queue, model):
        self.queue, self.model = queue, model
        self.asked: list[KVBatchMeta] = []

    def compute_log_prob(self, meta):
        assert meta.extra_info["compute_loss"] is False and meta.extra_info["temperature"] == TEMPERATURE
        self.asked.append(meta)
        for key in meta.keys:
            row = self.queue.rows[meta.partition_id][key]
            assert row["position_ids"].tolist() == [list(range(len(row["input_ids"])))] * 3
            assert len(row["response_mask"]) == len(row["responses"]) == len(row["loss_mask"])
            row["log_probs"] = log_probs(self.model, row["input_ids"].tolist())
        return meta


class TestSync:
    """V1's PPOTrainer._compute_advantage(batch, metrics) on a batch of the TransferQueue, with a padding row."""

    def step(self, package, mode="token-mean", model=None, trained="sync"):
        package.install()
        module = importlib.import_module(f"verl.trainer.ppo.v1.trainer_{trained}")
        queue = sys.modules["verl.trainer.ppo.v1.trainer_base"].tq = Queue()
        rows = []
        for row in range(ROWS):
            response = torch.tensor(response_of(row))
            rewards = torch.zeros(len(response))
            rewards[-1] = reward_of(row)
            whole = torch.tensor(prompt_of(row // EACH) + response_of(row))
            rows.append(
                {
                    "uid": f"uid{row // EACH}",
                    "prompts": torch.tensor(prompt_of(row // EACH)),
                    "responses": response,
                    "response_mask": torch.ones_like(response),
                    "loss_mask": torch.ones_like(response),
                    "rm_scores": rewards,
                    "advantages": torch.ones(len(response)),
                    # Of a model with three positions a token.
                    "position_ids": torch.arange(len(whole)).expand(3, -1).clone(),
                }
            )
        rows.append({name: value[:1] if isinstance(value, torch.Tensor) else "pad" for name, value in rows[0].items()})
        keys = [f"{row['uid']}_{at}_0" for at, row in enumerate(rows)]
        queue.kv_batch_put(keys, "train", rows)
        tags = [{}] * ROWS + [{"is_padding": True}]
        meta = KVBatchMeta(keys=keys, partition_id="train", tags=tags, fields=None, extra_info={"x": 1})
        trainer, metrics = getattr(module, MODES[trained])(), {}
        trainer.config, trainer.tokenizer = config_of(mode), tokenizer(WORDS)
        trainer.actor_rollout_wg = Actor(queue, model)
        assert trainer._compute_advantage(meta, metrics) is meta
        assert metrics["adv"] == 1.0
        trainer._collapsar.close()
        return trainer, metrics, [queue.rows["train"][key] for key in keys], queue

    @pytest.mark.parametrize("trained", MODES)
    def test_is_watched_when_it_is_imported(self, package, trained):
        trainer, metrics, rows, _ = self.step(package, trained=trained)
        assert metrics["collapsar/text_mi"] > 0.5 and metrics["collapsar/kept_share"] == 0.5
        assert not trainer.actor_rollout_wg.asked
        # Dropped rows leave the loss by both masks; padding and the others are as they were.
        for name in ("response_mask", "loss_mask"):
            assert [bool(row[name].any()) for row in rows] == [True] * 8 + [False] * 8 + [True]
        assert all(bool((row["advantages"] == 1).all()) for row in rows)

    @pytest.mark.parametrize("mode", ["seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"])
    def test_divides_by_the_kept_share_where_the_loss_is_a_mean_over_rows(self, package, mode):
        rows = self.step(package, mode)[2]
        assert [row["advantages"][0].item() for row in rows] == [2.0] * 8 + [1.0] * 9

    def test_trains_on_nothing_where_nothing_is_kept(self, package, monkeypatch):
        monkeypatch.setattr(sys.modules[__name__], "reward_of", lambda row: 1.0)
        rows = self.step(package)[2]
        # Masks of nothing would have verl divide by 0 tokens.
        assert all(bool(row["response_mask"].all()) for row in rows)
        assert [bool(row["advantages"].any()) for row in rows] == [False] * ROWS + [True]

    @pytest.mark.parametrize("tokens", [2**20, 40])
    def test_is_cross_scored_by_its_actor(self, package, monkeypatch, tokens):
        options(monkeypatch, scores=True, max_tokens=tokens)
        model, found = qwen(vocabulary=len(tokenizer(WORDS))), []
        monkeypatch.setattr("collapsar.monitor.Step.score_all", keeping(found))
        trainer, metrics, _, queue = self.step(package, model=model)
        np.testing.assert_allclose(found[0], expected_scores(model), atol=1e-5)
        assert "collapsar/mi" in metrics and "collapsar/retrieval" in metrics
        # Every rank has as many rows, and none is left behind.
        asked = trainer.actor_rollout_wg.asked
        assert all(len(meta.keys) % 3 == 0 and meta.extra_info["x"] == 1 for meta in asked)
        assert len(asked) == 1 if tokens > 40 else len(asked) > 8
        assert queue.rows["collapsar"] == {}

    def test_is_not_scored_where_rows_of_a_prompt_saw_different_ones(self, package, monkeypatch):
        options(monkeypatch, scores=True)
        original = prompt_of
        calls = iter(range(10**6))
        monkeypatch.setattr(sys.modules[__name__], "prompt_of", lambda group: [*original(group), 3 + next(calls) % 30])
        trainer, metrics, _, _ = self.step(package)
        assert not trainer.actor_rollout_wg.asked
        assert "collapsar/mi" not in metrics and "collapsar/text_mi" in metrics

    def test_trains_on_where_an_actor_fails(self, package, monkeypatch, caplog):
        options(monkeypatch, scores=True, on_error="warn")

        def fail(self, meta):
            raise RuntimeError("out of memory")

        monkeypatch.setattr(Actor, "compute_log_prob", fail)
        _, metrics, _, queue = self.step(package)
        assert "stops watching" in caplog.text and metrics == {"adv": 1.0}
        assert queue.rows["collapsar"] == {}

    def test_trains_on_where_fields_are_not_as_expected(self, package, monkeypatch, caplog):
        options(monkeypatch, on_error="warn")
        monkeypatch.setattr(Queue, "kv_batch_get", lambda self, **_: {"uid": ["a"]})
        assert self.step(package)[1] == {"adv": 1.0}
        assert "stops watching" in caplog.text

    def test_takes_the_outputs_of_a_session_as_one_row(self, package):
        from collapsar.verl.v1 import sessions_of

        # As verl names them, in the order in which balancing leaves them.
        keys = ["a_b_0_1", "a_b_1_0", "a_b_0_0", "pad", "c_0_10", "c_0_9", "plain"]
        assert sessions_of(keys, [0, 1, 2, 4, 5, 6]) == [[2, 0], [1], [5, 4], [6]]

        package.install()
        module = importlib.import_module("verl.trainer.ppo.v1.trainer_sync")
        queue = sys.modules["verl.trainer.ppo.v1.trainer_base"].tq = Queue()
        rows, keys = [], []
        for row in range(ROWS):
            for output in (1, 0):
                said = torch.tensor(response_of(row) if output == 0 else [7, END])
                rewards = torch.zeros(len(said))
                rewards[-1] = reward_of(row) if output == 1 else 0.0
                row_of = {"uid": f"uid{row // EACH}", "prompts": torch.tensor(prompt_of(row // EACH) + [9] * output)}
                row_of |= {"responses": said, "rm_scores": rewards, "advantages": torch.ones(len(said))}
                row_of |= {name: torch.ones_like(said) for name in ("response_mask", "loss_mask")}
                rows.append(row_of)
                keys.append(f"uid{row // EACH}_{row}_{output}")
        queue.kv_batch_put(keys, "train", rows)
        trainer, metrics = module.PPOTrainerSync(), {}
        trainer.config, trainer.tokenizer = config_of(), tokenizer(WORDS)
        trainer._compute_advantage(KVBatchMeta(keys=keys, partition_id="train", tags=[{}] * len(keys)), metrics)
        trainer._collapsar.close()
        # Rewards of first outputs are no rewards: groups that vary are two of four, and both outputs go with them.
        assert metrics["collapsar/kept_share"] == 0.5 and metrics["collapsar/text_mi"] > 0.5
        assert [bool(queue.rows["train"][key]["response_mask"].any()) for key in keys] == [True] * 16 + [False] * 16

    def test_can_be_switched_off(self, package, monkeypatch):
        monkeypatch.setenv("COLLAPSAR_VERL", "off")
        before = list(sys.meta_path)
        package.install()
        assert sys.meta_path == before

    def test_is_wrapped_once(self, package):
        for _ in range(2):
            package.install()
        trainer = importlib.import_module("verl.trainer.ppo.v1.trainer_base").PPOTrainer
        wrapped = trainer._compute_advantage
        package.install()
        assert trainer._compute_advantage is wrapped and not hasattr(wrapped.__wrapped__, "_collapsar")


class TestEnvironments:
    def test_are_the_data_sources_of_the_rows(self):
        from collapsar.spans import Reasoning
        from collapsar.verl.batch import batch_of

        fields = {
            "uid": ["a", "b", "pad", "c"],
            "responses": [response_of(0)] * 4,
            "response_mask": [[1] * len(response_of(0))] * 4,
            "data_source": [np.str_("openai/gsm8k"), "code", "pad", None],
        }
        rollouts = batch_of(fields, [0, 1, 3], tokenizer(WORDS), Reasoning()).rollouts
        assert rollouts.environments == ["openai/gsm8k", "code", None]
        del fields["data_source"]
        assert batch_of(fields, [0, 1, 3], tokenizer(WORDS), Reasoning()).rollouts.environments is None


def keeping(found):
    from collapsar.monitor import Step

    original = Step.score_all

    def score_all(self, sums):
        found.append(np.asarray(sums))
        original(self, sums)

    return score_all


class DataProto:
    """batch (padded tensors), non_tensor_batch, meta_info."""

    def __init__(self, batch, non_tensor_batch, meta_info):
        self.batch, self.non_tensor_batch, self.meta_info = batch, non_tensor_batch, meta_info

    @classmethod
    def from_dict(cls, tensors, non_tensors=None, meta_info=None):
        return cls(tensors, non_tensors or {}, meta_info or {})


def proto() -> DataProto:
    before, after = 4, 10
    ids = torch.zeros(ROWS, before + after, dtype=torch.long)
    mask = torch.zeros_like(ids)
    rewards = torch.zeros(ROWS, after)
    for row in range(ROWS):
        prompt, response = prompt_of(row // EACH), response_of(row)
        span = slice(before - len(prompt), before + len(response))
        ids[row, span] = torch.tensor(prompt + response)
        mask[row, span] = 1
        rewards[row, len(response) - 1] = reward_of(row)
    tensors = {
        "prompts": ids[:, :before],
        "responses": ids[:, before:],
        "input_ids": ids,
        "attention_mask": mask,
        "position_ids": (mask.cumsum(-1) - 1).clamp(min=0),
        "response_mask": mask[:, before:].clone(),
        "token_level_scores": rewards,
        "advantages": mask[:, before:].float(),
    }
    uid = np.array([f"u{row // EACH}" for row in range(ROWS)], dtype=object)
    return DataProto(tensors, {"uid": uid}, {"temperature": TEMPERATURE})


def old_log_probs(model, batch) -> DataProto:
    """The actor of the legacy trainer: padded log-probs of the responses."""
    assert batch.meta_info["temperature"] == TEMPERATURE
    before = batch.batch["input_ids"].shape[1] - batch.batch["responses"].shape[1]
    found = torch.zeros(batch.batch["responses"].shape)
    for row, (ids, mask) in enumerate(zip(batch.batch["input_ids"], batch.batch["attention_mask"], strict=True)):
        prompt = int(mask[:before].sum())
        own = log_probs(model, ids[mask.bool()].tolist())[prompt - 1 : -1]
        found[row, : len(own)] = own
    return DataProto({"old_log_probs": found}, {}, {})


class TestLegacy:
    """RayPPOTrainer: _compute_old_log_prob(batch) gives a DataProto and a number, _update_actor(batch) metrics."""

    def trainer(self, package, mode="token-mean", name="OneStepOffRayTrainer", bases=()):
        package.install()
        trained = getattr(importlib.import_module("verl.trainer.ppo.ray_trainer"), name)
        trainer = type("Trainer", (*bases, trained), {})()
        trainer.model = qwen(vocabulary=len(tokenizer(WORDS)))
        trainer.old_log_probs = lambda batch: old_log_probs(trainer.model, batch)
        trainer.tokenizer, trainer.config = tokenizer(WORDS), config_of(mode)
        trainer.actor_rollout_wg = types.SimpleNamespace(world_size=3)
        return trainer

    @pytest.mark.parametrize("name", ["RayPPOTrainer", "OneStepOffRayTrainer"])
    @pytest.mark.parametrize("is_mixed_in", [False, True])
    def test_is_watched_once_by_itself_or_mixed_in(self, package, name, is_mixed_in):
        trainer = self.trainer(package, name=name, bases=(package.Watched,) if is_mixed_in else ())
        for generation in (1, 2):
            metrics = trainer._update_actor(proto()).meta_info["metrics"]
            assert trainer._collapsar.generation == generation and metrics["collapsar/text_mi"][0] > 0.5
        trainer._collapsar.close()

    def test_is_scored_and_filtered_before_the_update(self, package, monkeypatch):
        options(monkeypatch, scores=True, filter={"value": 0.9})
        found: list[np.ndarray] = []
        monkeypatch.setattr("collapsar.monitor.Step.score_all", keeping(found))
        trainer, batch = self.trainer(package), proto()
        metrics = trainer._update_actor(batch).meta_info["metrics"]
        trainer._collapsar.close()
        np.testing.assert_allclose(found[0], expected_scores(trainer.model), atol=1e-5)
        assert metrics["actor/lr"] == [1e-6] and metrics["collapsar/kept_share"] == [0.5] and "collapsar/mi" in metrics
        assert trainer.scored == 66
        kept = trainer.updated.batch["response_mask"].sum(-1) > 0
        assert kept.tolist() == [True] * 8 + [False] * 8

    def test_divides_by_the_kept_share_where_the_loss_is_a_mean_over_rows(self, package, monkeypatch):
        options(monkeypatch, filter={"value": 0.9})
        trainer, batch = self.trainer(package, "seq-mean-token-mean"), proto()
        trainer._update_actor(batch)
        trainer._collapsar.close()
        assert trainer.updated.batch["advantages"].max() == 2.0

    def test_trains_on_after_an_error(self, package, monkeypatch, caplog):
        options(monkeypatch, on_error="warn")
        trainer, batch = self.trainer(package), proto()
        del batch.batch["responses"]
        assert trainer._update_actor(batch).meta_info["metrics"] == {"actor/lr": [1e-6]}
        assert "stops watching" in caplog.text


class TestRagen:
    """RAGEN 20daedc's RayAgentTrainer: init_workers() makes rollout_filter; first turns as ids beside the batch."""

    def trainer(self, package):
        class RayAgentTrainer:
            def init_workers(self):
                self.rollout_filter = types.SimpleNamespace(filter=lambda batch: (batch, {"rollout/kept": 1.0}))

        class Trainer(package.Watched, RayAgentTrainer):
            pass

        trainer = Trainer()
        model = trainer.model = qwen(vocabulary=len(tokenizer(WORDS)))
        compute = lambda batch: old_log_probs(model, batch)  # noqa: E731
        trainer.actor_rollout_wg = types.SimpleNamespace(world_size=1, compute_log_prob=compute)
        trainer.init_workers()
        return trainer

    def batch(self) -> DataProto:
        whole = proto()
        columns = {
            "group_ids": np.arange(ROWS) // EACH,
            "first_turn_prompt_ids": np.array(
                [torch.tensor([*prompt_of(row // EACH), OPEN]) for row in range(ROWS)], dtype=object
            ),
            "first_turn_reasoning_ids": np.array(
                [torch.tensor(response_of(row)[1 : 4 + row % 3]) for row in range(ROWS)], dtype=object
            ),
        }
        return DataProto({"rm_scores": whole.batch["token_level_scores"]}, columns, whole.meta_info)

    def test_is_watched_before_its_filter(self, package, monkeypatch):
        options(monkeypatch, scores=True)
        found: list[np.ndarray] = []
        monkeypatch.setattr("collapsar.monitor.Step.score_all", keeping(found))
        trainer, batch = self.trainer(package), self.batch()
        kept, metrics = trainer.rollout_filter.filter(batch)
        trainer._collapsar.close()
        assert kept is batch and metrics["rollout/kept"] == 1.0
        assert metrics["collapsar/mi"] > 0 or metrics["collapsar/retrieval"] > 0
        np.testing.assert_allclose(found[0], expected_scores(trainer.model), atol=1e-5)

    def test_has_rewards_alone_where_its_collapse_metrics_are_not_due(self, package, monkeypatch):
        options(monkeypatch, scores=True, filter={"value": 0.9})
        trainer, batch = self.trainer(package), self.batch()
        del batch.non_tensor_batch["first_turn_prompt_ids"], batch.non_tensor_batch["first_turn_reasoning_ids"]
        metrics = trainer.rollout_filter.filter(batch)[1]
        assert metrics == {"rollout/kept": 1.0, "collapsar/kept_share": 0.5, "collapsar/alarm": 0.0}
        trainer._collapsar.close()


def test_a_hook_before_advantages_masks_dropped_rows(package):
    batch = proto()
    hook = package.Hook(
        None, {"hook_class": "collapsar.verl.Hook", "enable": True, "threads": 1, "filter": {"value": 0.9}}
    )
    after, metrics = hook(batch, trainer=types.SimpleNamespace(tokenizer=tokenizer(WORDS)))
    hook.watching.close()
    assert (after.batch["response_mask"].sum(-1) > 0).tolist() == [True] * 8 + [False] * 8
    assert metrics["collapsar/kept_share"] == 0.5 and metrics["collapsar/text_mi"] > 0.5


@pytest.mark.parametrize(("name", "value"), [("max_tokens", 0), ("tags", ["<a>"]), ("scores", "on")])
def test_an_option_is_refused_by_name(package, monkeypatch, name, value):
    from collapsar import ArgumentError
    from collapsar.verl.options import VerlWatching

    with pytest.raises(ArgumentError, match=name):
        VerlWatching({name: value})
