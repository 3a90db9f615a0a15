"""Real GRPO and RLOO runs of TRL on the CPU, watched."""

from __future__ import annotations

import itertools
import json
import logging
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")
datasets = pytest.importorskip("datasets")

from models import gpt2, qwen, tokenizer  # noqa: E402
from transformers import TrainerCallback  # noqa: E402
from trl.trainer.grpo_trainer import shuffle_sequence_dict, split_tensor_dict  # noqa: E402
from trl_run import WORDS, dataset, fix_generation, trainer_of  # noqa: E402

from collapsar import ArgumentError, CollapsarError  # noqa: E402
from collapsar.trl import watch  # noqa: E402
from collapsar.watching import Observation  # noqa: E402

TOP = {"strategy": "top_k", "value": 0.5}


def weights(trainer) -> list:
    return [parameter.detach().clone() for parameter in trainer.model.parameters()]


def same(one, other) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def logged(trainer, key: str) -> list[float]:
    return [entry[key] for entry in trainer.state.log_history if key in entry]


def with_adapters():
    """A policy of PEFT whose adapters, which begin as zeros, say something."""
    peft = pytest.importorskip("peft")
    model = peft.get_peft_model(
        qwen(vocabulary=len(tokenizer(WORDS))),
        peft.LoraConfig(target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"),
    )
    torch.manual_seed(11)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.5)
    return model


class TestTraining:
    @pytest.mark.parametrize("kind", ["GRPO", "RLOO"])
    def test_is_bit_identical_with_the_watch(self, tmp_path, kind):
        steps = 25 if kind == "GRPO" else 5
        plain = trainer_of(tmp_path / "a", kind, max_steps=steps, model=gpt2())
        plain.train()
        watched = trainer_of(tmp_path / "b", kind, max_steps=steps, model=gpt2())
        seen = watch(watched, every=5, outcome="correct", on_error="raise", threads=1, log="all")
        watched.train()
        assert seen.generation == steps
        assert same(weights(plain), weights(watched))
        # Dropout is on in both, and its random numbers are the same.
        assert torch.equal(torch.tensor(logged(plain, "loss")), torch.tensor(logged(watched, "loss")))

    def test_of_adapters_is_bit_identical_with_the_watch(self, tmp_path):
        plain = trainer_of(tmp_path / "a", model=with_adapters())
        plain.train()
        watched = trainer_of(tmp_path / "b", model=with_adapters())
        seen = watch(watched, every=1, outcome="correct", on_error="raise", threads=1)
        watched.train()
        assert seen.generation == 3
        assert same(weights(plain), weights(watched))

    def test_logs_a_few_figures_a_step(self, tmp_path):
        trainer = trainer_of(tmp_path, max_steps=7)
        watch(trainer, every=100, outcome="correct", filter=TOP, on_error="raise", threads=1)
        trainer.train()
        keys = [{key for key in entry if key.startswith("collapsar/")} for entry in trainer.state.log_history[:-1]]
        assert keys[0] == {
            f"collapsar/{key}"
            for key in (
                "mi",
                "mi_low",
                "mi_high",
                "mi_leave_one_out",
                "conditional_entropy",
                "retrieval",
                "retrieval_chance",
                "p_value",
                "text_mi",
                "text_p_value",
                "template_share",
                "kept_share",
                "alarm",
                "regime",
            )
        }
        assert all(0 < len(found) <= 14 for found in keys)
        assert "collapsar/mi" not in keys[-1] and "collapsar/text_mi" in keys[-1]

    def test_averages_neither_regimes_nor_alarms_over_what_it_logs(self, tmp_path):
        trainer = trainer_of(tmp_path, max_steps=8, logging_steps=4)
        watched = watch(trainer, every=1, threads=1, on_error="raise")
        observe = watched.watching.observe

        def observed(*args):
            observation = observe(*args)
            step = observation.step
            observation.logged |= {"collapsar/regime": [3, 0, 3, 1][step % 4], "collapsar/alarm": float(step == 2)}
            return observation

        watched.watching.observe = observed
        trainer.train()
        assert logged(trainer, "collapsar/regime") == [3, 3]
        assert logged(trainer, "collapsar/alarm") == [1, 0]
        # Figures are.
        assert len(set(logged(trainer, "collapsar/mi"))) == 2

    def test_counts_generations_not_optimizer_steps(self, tmp_path):
        # 2 optimizer steps of 2 micro-batches a generation, each used twice.
        trainer = trainer_of(
            tmp_path,
            max_steps=8,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=2,
            steps_per_generation=4,
            num_iterations=2,
            eval_strategy="steps",
            eval_steps=4,
            per_device_eval_batch_size=4,
            eval_data=dataset(2, seed=5),
        )
        seen = watch(trainer, every=1, on_error="raise", threads=1)
        trainer.train()
        assert seen.generation == 2
        assert seen.report["step"] == 2
        # Evaluation is no step, and nothing of it is logged.
        assert not any(key.startswith("eval_collapsar") for entry in trainer.state.log_history for key in entry)

    @pytest.mark.parametrize("adapters", [False, True])
    def test_own_scores_are_the_trainers_own(self, tmp_path, adapters):
        model = with_adapters() if adapters else None
        trainer = trainer_of(tmp_path, max_steps=1, temperature=0.8, num_iterations=2, model=model)
        found = {}
        seen = watch(trainer, every=1, on_error="raise", threads=1, negatives=None, tags=None)
        original = trainer._generate_and_score_completions
        scored = seen._score

        def keep(*args):
            found["sums"] = scored(*args)
            return found["sums"]

        def generate(inputs):
            found["output"] = original(inputs)
            return found["output"]

        seen._score = keep
        trainer._generate_and_score_completions = generate
        trainer.train()
        output = found["output"]
        mask = output["completion_mask"]
        ids = torch.cat([output["prompt_ids"], output["completion_ids"]], 1)
        attention = torch.cat([output["prompt_mask"], mask], 1)
        logps = output.get("old_per_token_logps")
        assert ids.shape == attention.shape and logps is not None
        # The end token is no reasoning.
        reasoning = mask * (output["completion_ids"] != trainer.processing_class.eos_token_id)
        own = (logps * reasoning).sum(-1).numpy()
        np.testing.assert_allclose(found["sums"][np.arange(16), np.arange(16) // 4], own, atol=1e-5)

    def test_goes_on_from_a_checkpoint_with_the_same_reports(self, tmp_path):
        def run(folder, steps=6, resume=None):
            reports = []

            def keep(seen):
                reports.append(seen.report)

            # One generation an epoch, in order: TRL itself shuffles otherwise after a checkpoint in the middle of one.
            settings = {"save_strategy": "steps", "save_steps": 3, "shuffle_dataset": False}
            trainer = trainer_of(folder, max_steps=steps, data=dataset(4), lr_scheduler_type="constant", **settings)
            watched = watch(trainer, every=2, filter=TOP, on_error="raise", threads=1, on_report=keep)
            fix_generation(trainer, watched)
            trainer.train(resume_from_checkpoint=resume)
            return reports

        whole = run(tmp_path)
        later = run(tmp_path, resume=str(tmp_path / "checkpoint-3"))
        assert json.dumps(later) == json.dumps(whole[3:])
        saved = [json.loads((tmp_path / f"checkpoint-{n}" / "collapsar.json").read_text()) for n in (3, 6)]
        assert [state["generation"] for state in saved] == [3, 6]

    def test_can_be_stopped_on_request_only(self, tmp_path):
        never = {"early_stop": {"reward_variance": {"below": 0.9999, "start_steps": 1, "consecutive": 1}}}

        def steps(stop, folder):
            rng = random.Random(3)
            fading = iter(10.0**-n for n in itertools.count())

            def noise(completions, **_):
                scale = next(fading)
                return [scale * rng.random() for _ in completions]

            trainer = trainer_of(folder, max_steps=6, rewards=[noise])
            watch(trainer, every=100, on_error="raise", threads=1, stop=stop, options=never)
            trainer.train()
            return trainer.state.global_step

        assert steps(False, tmp_path / "a") == 6
        assert steps(True, tmp_path / "b") < 6

    def test_says_a_verdict_once(self, tmp_path, caplog):
        def same_for_all(completions, **_):
            return [0.0] * len(completions)

        trainer = trainer_of(tmp_path, max_steps=14, rewards=[same_for_all], learning_rate=0.0)
        with caplog.at_level(logging.WARNING, "collapsar"):
            seen = watch(trainer, every=1, outcome="same_for_all", on_error="raise", threads=1)
            trainer.train()
        held = seen.report["judgement"]["verdicts"]
        said = [record.getMessage() for record in caplog.records]
        assert held and len(said) == len(set(said))
        for verdict in held:
            assert sum(verdict["sentence"] in message for message in said) <= 1

    def test_takes_unscorable_rows(self, tmp_path):
        def sometimes(completions, **_):
            return [None if at % 5 == 0 else float(at % 3) for at in range(len(completions))]

        for filter in (None, TOP):
            trainer = trainer_of(tmp_path, max_steps=1, rewards=[sometimes])
            seen = watch(trainer, filter=filter, on_error="raise", threads=1)
            trainer.train()
            assert seen.generation == 1


class TestRows:
    def test_of_truncated_completions_keep_their_length(self, tmp_path):
        trainer = trainer_of(tmp_path, max_steps=1, mask_truncated_completions=True)
        seen = []
        watched = watch(trainer, on_error="raise", threads=1)
        local = watched._local_rows
        watched._local_rows = lambda output: seen.append((output, local(output))) or seen[-1][1]
        trainer.train()
        output, rows = seen[0]
        gone = output["completion_mask"].sum(-1) == 0
        assert gone.any()
        assert all(len(row["ids"]) == 8 for row, is_gone in zip(rows, gone, strict=True) if is_gone)

    def test_have_their_reasoning_between_tags(self, tmp_path):
        trainer = trainer_of(tmp_path, max_steps=1)
        assert watch(trainer, threads=1)._finder.tags == ("<think>", "</think>")
        other = trainer_of(tmp_path, max_steps=1)
        assert watch(other, tags=None, threads=1)._finder.tags is None

    def test_are_of_the_environments_that_the_data_set_names(self, tmp_path):
        texts = [f"w{at} w{at + 1}" for at in range(8)]
        data = datasets.Dataset.from_dict({"prompt": texts, "topic": ["math", "code"] * 4})
        trainer = trainer_of(tmp_path, max_steps=1, data=data)
        seen = watch(trainer, environment="topic", on_error="raise", threads=1)
        given = []
        observe = seen.watching.observe
        seen.watching.observe = lambda rollouts, score: given.append(rollouts) or observe(rollouts, score)
        trainer.train()
        topics = dict(zip(texts, ["math", "code"] * 4, strict=True))
        prompts = trainer.processing_class.batch_decode(given[0].prompt_tokens)
        assert given[0].environments == [topics[prompts[group]] for group in given[0].groups]
        assert set(given[0].environments) == {"math", "code"}
        other = trainer_of(tmp_path, max_steps=1, data=data)
        with pytest.raises(
            ArgumentError, match=r"environment: got 'topik', expected a column of the data set: prompt, topic"
        ):
            watch(other, environment="topik", threads=1)
        by_row = watch(other, environment=lambda row: row["topic"].upper(), threads=1)
        assert by_row._local_environments([{"topic": "math"}, {"topic": "code"}], 2) == ["MATH", "CODE"]

    def test_are_grouped_by_what_they_saw(self, tmp_path):
        trainer = trainer_of(tmp_path)
        watched = watch(trainer, threads=1)
        span = watched._finder.find([5, 6, 7])
        rows = [{"prompt": [3, at // 2], "ids": [5, 6, 7], "span": span} for at in range(8)]
        rollouts = watched._rollouts(rows, None)
        assert list(rollouts.groups) == [0, 0, 1, 1, 2, 2, 3, 3]
        assert rollouts.prompt_tokens == [[3, 0], [3, 1], [3, 2], [3, 3]]

    def test_of_equal_prompts_are_told_apart_by_nobody(self, tmp_path):
        data = datasets.Dataset.from_dict({"prompt": ["w1 w2", "w3 w4", "w1 w2", "w3 w4"]})
        trainer = trainer_of(tmp_path, max_steps=1, data=data)
        seen = watch(trainer, on_error="raise", threads=1)
        trainer.train()
        # 4 groups of 2 prompts.
        assert seen.report["stepMetrics"]["columns"] == {"total": 4, "distinct": 2}


class TestErrors:
    @pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="there is no SIGSTOP here")
    def test_of_the_sidecar_lose_nothing(self, tmp_path, caplog):
        def same_for_all(completions, **_):
            return [0.0] * len(completions)

        def run(folder, faults):
            reports, longest = [], [0.0]

            def keep(seen):
                reports.append(seen.report)
                if seen.step in faults:
                    watched.watching._monitor._process.send_signal(faults[seen.step])

            trainer = trainer_of(folder, max_steps=14, rewards=[same_for_all])
            watched = watch(trainer, every=2, outcome="same_for_all", threads=1, on_report=keep)
            fix_generation(trainer, watched)
            observe = watched.watching.observe

            def timed(*args):
                began = time.perf_counter()
                observation = observe(*args)
                longest[0] = max(longest[0], time.perf_counter() - began)
                return observation

            watched.watching.observe = timed
            trainer.train()
            return reports, longest[0], weights(trainer)

        whole, _, trained = run(tmp_path / "a", {})
        with caplog.at_level(logging.WARNING, "collapsar"):
            reports, longest, also = run(tmp_path / "b", {3: signal.SIGKILL, 7: signal.SIGSTOP, 8: signal.SIGKILL})
        assert whole[-1]["judgement"]["verdicts"]
        assert json.dumps(reports) == json.dumps(whole) and same(trained, also)
        assert longest < 5
        assert caplog.text.count("another took its place") == 3 and "unwatched" not in caplog.text

    def test_of_a_full_disk_leave_the_watch_as_it_is(self, tmp_path, caplog):
        resource = pytest.importorskip("resource")

        class Disk(TrainerCallback):
            """Full from the second checkpoint on, when TRL has written its own part."""

            def __init__(self, bytes: int):
                self.bytes = bytes

            def on_save(self, args, state, control, **_):
                if state.global_step == 4:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (self.bytes, resource.RLIM_INFINITY))

        def train(resume=None, **options):
            trainer = trainer_of(
                tmp_path,
                max_steps=6,
                save_strategy="steps",
                save_steps=2,
                shuffle_dataset=False,
                callbacks=[Disk(1000)],
            )
            watched = watch(trainer, every=1, threads=1, **options)
            trainer.add_callback(Disk(resource.RLIM_INFINITY))
            trainer.train(resume_from_checkpoint=resume)
            return watched

        with caplog.at_level(logging.WARNING, "collapsar"):
            seen = train()
        assert seen.generation == 6 and seen.report["step"] == 6
        assert caplog.text.count("generation 4 is not saved, training goes on") == 1
        saved = {n: sorted(os.listdir(tmp_path / f"checkpoint-{n}")) for n in (2, 4, 6)}
        assert ["collapsar.json" in saved[n] for n in (2, 4, 6)] == [True, False, True]
        assert "collapsar.json.tmp" not in saved[4]
        # One that was cut, or is missing, is told of when training goes on.
        cut = tmp_path / "checkpoint-2" / "collapsar.json"
        cut.write_text(cut.read_text()[:500])
        for n in (2, 4):
            caplog.clear()
            with caplog.at_level(logging.WARNING, "collapsar"):
                assert train(str(tmp_path / f"checkpoint-{n}")).report["step"] == 6 - n
            assert "the watch begins anew with generation 1" in caplog.text

    def test_of_a_missing_node_are_said_before_training(self, tmp_path, monkeypatch):
        monkeypatch.setenv("COLLAPSAR_NODE", "/nowhere/node")
        for on_error in ("raise", "warn"):
            with pytest.raises(CollapsarError, match="there is no Node"):
                watch(trainer_of(tmp_path), on_error=on_error)

    def test_of_rows_leave_a_generation_out(self, tmp_path, caplog):
        plain = trainer_of(tmp_path / "a", max_steps=4)
        plain.train()
        calls = iter(range(9))

        def outcome(rows):
            if next(calls) == 1:
                raise ZeroDivisionError("no rows at all")
            return [1.0 for _ in rows]

        trainer = trainer_of(tmp_path / "b", max_steps=4)
        watched = watch(trainer, every=1, threads=1, outcome=outcome)
        seen = []
        watched._on_report = seen.append
        with caplog.at_level(logging.WARNING, "collapsar"):
            trainer.train()
        assert [observation.step for observation in seen if observation.report] == [1, 3, 4]
        assert "stops watching at generation 2" in caplog.text and "watches again from generation 3" in caplog.text
        assert same(weights(plain), weights(trainer)) and watched.watching.failure is None
        again = trainer_of(tmp_path / "c", max_steps=4)
        watch(again, threads=1, outcome=lambda rows: [][0], on_error="raise")
        with pytest.raises(IndexError):
            again.train()

    def test_name_arguments_before_training(self, tmp_path):
        trainer = trainer_of(tmp_path)
        with pytest.raises(ArgumentError, match="expected a reward function: correct, shaped"):
            watch(trainer, outcome="right")
        with pytest.raises(ArgumentError, match="every"):
            watch(trainer, every=0)
        with pytest.raises(ArgumentError, match="has no _generate_and_score_completions"):
            watch(object())
        for wrong in (
            {"filter": {"top_p_mode": "x"}},
            {"options": {"reward_mode": 1}},
            {"to": ["nowhere:x"]},
            {"node": "/x"},
        ):
            with pytest.raises(CollapsarError, match=r"filter\.top_p_mode|reward_mode: unknown|^to: |no Node"):
                watch(trainer, threads=1, **wrong)
        watch(trainer, threads=1)
        with pytest.raises(ArgumentError, match="is watched already"):
            watch(trainer)


LOSSES = [(loss, beta) for loss in ("dapo", "bnpo", "grpo", "dr_grpo") for beta in (0.0, 0.05)]


class TestFilter:
    @pytest.mark.parametrize(("loss", "beta"), LOSSES)
    @pytest.mark.parametrize("bonus", [0.0, 0.5], ids=["", "entropy bonus"])
    def test_gives_the_gradient_of_the_kept_rows_alone(self, tmp_path, loss, beta, bonus):
        trainer, watched, output = generation(tmp_path, loss, beta, bonus)
        keep = np.repeat([True, False, True, False], 4)
        keep[2] = False  # rows may be dropped, too, where a reward is missing
        expected = gradient(trainer, alone(output, keep))
        watched._apply(output, Observation(1, keep=keep))
        found = gradient(trainer, output)
        cosine = torch.nn.functional.cosine_similarity(found, expected, dim=0).item()
        assert cosine >= 0.9999
        assert found.norm().item() == pytest.approx(expected.norm().item(), rel=1e-3)
        # It is not the gradient of all rows, nor that of zero advantages.
        assert found.norm() > 0

    @pytest.mark.parametrize(("loss", "beta"), LOSSES)
    @pytest.mark.parametrize("bonus", [0.0, 0.5], ids=["", "entropy bonus"])
    def test_gives_it_over_several_micro_batches(self, tmp_path, loss, beta, bonus):
        # 16 rows in 8 micro-batches of two, shuffled as TRL does: some have kept rows, some have none.
        parts = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 8, "steps_per_generation": 8}
        trainer, watched, output = generation(tmp_path, loss, beta, bonus, **parts)
        keep = np.repeat([True, False, True, False], 4)
        keep[2] = False
        whole = alone(output, keep)
        trainer.args.steps_per_generation = 1
        expected = gradient(trainer, whole)
        trainer.args.steps_per_generation = 8
        watched._apply(output, Observation(1, keep=keep))
        trainer.current_gradient_accumulation_steps = 8
        torch.manual_seed(5)
        micro = split_tensor_dict(shuffle_sequence_dict(output), 8)
        kept_tokens = [int((part["completion_mask"] * part["tool_mask"]).sum()) for part in micro]
        assert 0 in kept_tokens and len(set(kept_tokens)) > 2
        found = gradient(trainer, *micro)
        assert torch.nn.functional.cosine_similarity(found, expected, dim=0).item() >= 0.9999
        assert found.norm().item() == pytest.approx(expected.norm().item(), rel=1e-3)

    def test_leaves_evaluation_alone(self, tmp_path):
        trainer, watched, output = generation(tmp_path, "bnpo", 0.05, 0.0)
        trainer.model.eval()
        expected = trainer.compute_loss(trainer.model, dict(output)).item()
        watched._apply(dict(output), Observation(1, keep=np.arange(16) < 4))
        assert trainer.compute_loss(trainer.model, dict(output)).item() == expected

    def test_reaches_the_trainer(self, tmp_path):
        for kind in ("GRPO", "RLOO"):
            trainer = trainer_of(tmp_path, kind, max_steps=2)
            seen = []
            watch(trainer, filter=TOP, on_error="raise", threads=1, on_report=seen.append)
            trainer.train()
            assert all(observation.keep is not None and observation.keep.sum() == 8 for observation in seen)
            assert logged(trainer, "collapsar/kept_share") == [0.5, 0.5]

    def test_of_rloo_gives_the_gradient_of_the_kept_rows_alone(self, tmp_path):
        trainer = trainer_of(tmp_path, "RLOO")
        watched = watch(trainer, filter=TOP, on_error="raise", threads=1)
        trainer.model.train()
        data = dataset(4)
        torch.manual_seed(11)
        output = type(trainer)._generate_and_score_completions(trainer, [data[at // 4] for at in range(16)])
        keep = np.repeat([True, False, True, False], 4)
        alone = {
            name: value[torch.as_tensor(keep)]
            if isinstance(value, torch.Tensor) and value.shape[:1] == (16,)
            else value
            for name, value in output.items()
        }
        expected = gradient(trainer, alone)
        watched._apply(output, Observation(1, keep=keep))
        found = gradient(trainer, output)
        assert torch.nn.functional.cosine_similarity(found, expected, dim=0).item() >= 0.9999
        assert found.norm().item() == pytest.approx(expected.norm().item(), rel=1e-3)

    def test_that_keeps_nothing_trains_on_nothing(self, tmp_path):
        trainer = trainer_of(
            tmp_path, max_steps=2, rewards=[lambda completions, **_: [1.0] * len(completions)], weight_decay=0.0
        )
        watch(trainer, filter={"strategy": "top_p", "value": 0.9}, on_error="raise", threads=1)
        before = weights(trainer)
        trainer.train()
        assert same(before, weights(trainer))


def generation(folder, loss, beta, bonus, **settings):
    """A watched trainer whose policy has moved away from the reference, and a generation of it: 4 prompts x 4 rows."""
    model = qwen(vocabulary=len(tokenizer(WORDS)))
    if beta > 0:
        # A reference model is loaded by name.
        model.save_pretrained(folder / "model")
        tokenizer(WORDS).save_pretrained(folder / "model")
        model = str(folder / "model")
    if bonus > 0:
        settings["entropy_coef"] = bonus
    trainer = trainer_of(folder, loss_type=loss, beta=beta, model=model, **settings)
    watched = watch(trainer, filter=TOP, on_error="raise", threads=1)
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1
    trainer._metrics["train"].clear()
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    data = dataset(4)
    torch.manual_seed(11)
    return trainer, watched, type(trainer)._generate_and_score_completions(trainer, [data[at // 4] for at in range(16)])


def alone(output, keep) -> dict:
    """The kept rows of a generation as a batch of their own."""
    kept = torch.as_tensor(keep)
    rows = {
        name: value[kept] if isinstance(value, torch.Tensor) and value.shape[:1] == (16,) else value
        for name, value in output.items()
    }
    return rows | {"num_items_in_batch": rows["completion_mask"].sum()}


def gradient(trainer, *micro_batches) -> torch.Tensor:
    trainer.model.zero_grad()
    for inputs in micro_batches:
        trainer.compute_loss(trainer.model, dict(inputs)).backward()
    return torch.cat([p.grad.flatten() for p in trainer.model.parameters() if p.grad is not None]).clone()


TWO = """
import os, sys, json, torch, logging
torch.set_num_threads(1)
from trl_run import fix_generation, trainer_of
from collapsar.trl import watch
rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
torch.manual_seed(0)
trainer = trainer_of(sys.argv[1], max_steps=2, per_device_train_batch_size=12 // size, learning_rate=0.0)
seen = []
top = {"strategy": "top_k", "value": 0.34}
watched = watch(trainer, every=1, negatives=None, filter=top, on_error="raise", threads=1)
fix_generation(trainer, watched)
trainer.train()
if rank == 0:
    history = [{k: v for k, v in e.items() if k.startswith("collapsar/")} for e in trainer.state.log_history[:-1]]
    print("RESULT " + json.dumps([history, watched.report["stepMetrics"]["values"], watched.last.keep.tolist()]))
"""


def test_two_processes_have_the_figures_of_one(tmp_path):
    program = tmp_path / "two.py"
    program.write_text(TWO)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "OMP_NUM_THREADS": "1",
    }

    def run(*command):
        ran = subprocess.run(
            [sys.executable, *command, str(program), str(tmp_path)],
            capture_output=True,
            text=True,
            env=environment,
            timeout=240,
        )
        lines = [line for line in ran.stdout.splitlines() if line.startswith("RESULT ")]
        assert lines, ran.stderr[-3000:]
        return json.loads(lines[0].removeprefix("RESULT "))

    # 12 rows in groups of 4: the second group lies across both.
    one = run()
    two = run("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    assert one[2] == two[2]
    assert one[1].keys() == two[1].keys()
    for key, value in one[1].items():
        assert two[1][key] == pytest.approx(value, abs=1e-6), key
    for ours, theirs in zip(one[0], two[0], strict=True):
        assert ours.keys() == theirs.keys()
