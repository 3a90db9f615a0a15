"""cross_scores against a plain forward pass of each pair."""

from __future__ import annotations

import json
import logging
import os
import random
import subprocess
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from models import VOCABULARY, gpt2, qwen  # noqa: E402

from collapsar import ArgumentError  # noqa: E402
from collapsar.hf import Row, _cache_name, cross_scores  # noqa: E402


def made(seed: int, prompts: int = 4, rows: int = 9) -> tuple[list[list[int]], list[Row]]:
    rng = random.Random(seed)

    def ids(count: int) -> list[int]:
        return [rng.randrange(2, VOCABULARY) for _ in range(count)]

    taken = [Row(ids(rng.randrange(1, 20))) for _ in range(rows - 2)]
    taken.append(Row(ids(12), start=5))
    taken.append(Row(ids(3), start=3))
    return [ids(rng.randrange(1, 30)) for _ in range(prompts)], taken


def naive(model: torch.nn.Module, prompt: list[int], row: Row, temperature: float = 1.0) -> float:
    model.eval()
    with torch.no_grad():
        ids = torch.tensor([[*prompt, *row.tokens]])
        logprobs = (model(input_ids=ids).logits[0, :-1] / temperature).double().log_softmax(-1)
    first = len(prompt) + row.start
    return sum(logprobs[at - 1, ids[0, at]].item() for at in range(first, ids.shape[1]))


@pytest.mark.parametrize("model", [qwen, gpt2])
@pytest.mark.parametrize("max_tokens", [16384, 96, 9])
@pytest.mark.parametrize("cache", [True, False])
def test_gives_what_one_pass_a_pair_gives(model, max_tokens, cache):
    policy = model()
    prompts, rows = made(1)
    sums = cross_scores(policy, prompts, rows, temperature=0.7, max_tokens=max_tokens, cache=cache)
    expected = [[naive(policy, prompt, row, 0.7) for prompt in prompts] for row in rows]
    np.testing.assert_allclose(sums, expected, atol=2e-4, rtol=1e-5)


class Named(torch.nn.Module):
    """A model whose cache has the name of older or of newer releases, whichever is installed."""

    def __init__(self, model, name: str):
        super().__init__()
        self.model = model
        inner = _cache_name(model)

        def older(input_ids, past_key_values=None, use_cache=None):
            output = model(input_ids=input_ids, use_cache=use_cache, **{inner: past_key_values})
            return SimpleNamespace(logits=output.logits, past_key_values=getattr(output, inner))

        def newer(input_ids, cache=None, use_cache=None):
            output = older(input_ids, cache, use_cache)
            return SimpleNamespace(logits=output.logits, cache=output.past_key_values)

        self.forward = {"past_key_values": older, "cache": newer}[name]


@pytest.mark.parametrize("name", ["past_key_values", "cache"])
def test_calls_the_cache_as_the_model_does(name):
    prompts, rows = made(4)
    sums = cross_scores(Named(qwen(), name), prompts, rows, max_tokens=96)
    np.testing.assert_allclose(sums, cross_scores(qwen(), prompts, rows, max_tokens=96), atol=1e-5)


@pytest.mark.parametrize("wrapped", [False, True])
def test_is_warned_of_nothing(wrapped, monkeypatch):
    policy = qwen()
    if wrapped:
        peft = pytest.importorskip("peft")
        policy = peft.get_peft_model(policy, peft.LoraConfig(target_modules=["q_proj"], task_type="CAUSAL_LM"))
    said: list[str] = []
    for method in ("warning", "warning_once", "warning_advice"):
        monkeypatch.setattr(logging.Logger, method, lambda _, message, *__, **___: said.append(message), raising=False)
    prompts, rows = made(5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cross_scores(policy, prompts, rows, max_tokens=96)
    assert said == []


def test_scores_the_pairs_that_are_asked_for_alone():
    policy = qwen()
    prompts, rows = made(2)
    whole = cross_scores(policy, prompts, rows)
    pairs = {0: [1, 3, 8], 2: [0]}
    some = cross_scores(policy, prompts, rows, pairs=pairs)
    asked = {(row, prompt) for prompt, scored in pairs.items() for row in scored}
    for row in range(len(rows)):
        for prompt in range(len(prompts)):
            if (row, prompt) in asked:
                assert some[row, prompt] == pytest.approx(whole[row, prompt], abs=1e-5)
            else:
                assert np.isnan(some[row, prompt])


def test_leaves_the_model_and_random_numbers_as_they_were():
    policy = gpt2()
    policy.train()
    prompts, rows = made(3)
    before = torch.random.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()
    first = cross_scores(policy, prompts, rows)
    assert policy.training
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert before[1] == random.getstate()
    assert np.array_equal(before[2], np.random.get_state()[1])
    # Dropout is off.
    assert np.array_equal(first, cross_scores(policy, prompts, rows))
    with pytest.raises(RuntimeError, match="stop here"):
        cross_scores(policy, prompts, rows, progress=lambda *_: (_ for _ in ()).throw(RuntimeError("stop here")))
    assert policy.training


def test_makes_as_many_passes_as_it_is_told():
    policy = qwen()
    calls = []
    policy.register_forward_hook(lambda *_: calls.append(1))
    prompts, rows = made(4)
    for max_tokens in (16384, 120, 16):
        calls.clear()
        planned = []

        def passes(count, planned=planned):
            planned.append(count)
            return count + 3

        cross_scores(policy, prompts, rows, max_tokens=max_tokens, passes=passes)
        assert len(calls) == planned[0] + 3


def test_bounds_what_is_in_memory_at_once():
    policy = qwen()
    most = []
    policy.register_forward_hook(lambda _, __, output: most.append(output.logits.shape[:2].numel()))
    prompts, rows = made(5, prompts=3, rows=40)
    cross_scores(policy, prompts, rows, max_tokens=160)
    assert max(most) <= 160 // 8


def test_names_what_it_cannot_score():
    policy = qwen()
    with pytest.raises(ArgumentError, match=r"prompts\[1\]: is empty"):
        cross_scores(policy, [[3], []], [[4]])
    with pytest.raises(ArgumentError, match=r"rows\[0\]: starts at 5 of 2"):
        cross_scores(policy, [[3]], [Row([4, 5], 5)])
    with pytest.raises(ArgumentError, match="row 7 under prompt 0"):
        cross_scores(policy, [[3]], [[4]], pairs={0: [7]})


SHARDED = """
import json, os
import numpy as np, torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from models import qwen
from collapsar.hf import Row, _cache_name, cross_scores
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
model, plain = qwen(), qwen()
for layer in model.model.layers:
    fully_shard(layer)
fully_shard(model)
assert all(isinstance(parameter, DTensor) for parameter in model.parameters())
rows = [Row([5 + at, 6, 7 + at % 3][: 1 + at % 3]) for at in range(10)]
mine = rows[:7] if rank == 0 else rows[7:]
prompts = [[3, 4, 5], [9], [8, 7]]
planned = []
def passes(count):
    most = torch.tensor([count])
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    planned.extend([count, int(most)])
    return int(most)
found = cross_scores(model, prompts, mine, passes=passes, max_tokens=16)
result = [rank, planned, float(np.abs(found - cross_scores(plain, prompts, mine)).max())]
# In one write: print() lets the other rank in before the end of the line.
os.write(1, f"RESULT {json.dumps(result)}\\n".encode())
dist.destroy_process_group()
"""


def test_scores_a_model_that_is_sharded_over_processes(tmp_path):
    pytest.importorskip("torch.distributed.fsdp")
    program = tmp_path / "sharded.py"
    program.write_text(SHARDED)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(program)]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    said = [line.removeprefix("RESULT ") for line in ran.stdout.splitlines() if line.startswith("RESULT ")]
    found = sorted(json.loads(line) for line in said)
    assert [rank for rank, *_ in found] == [0, 1], ran.stderr[-3000:]
    # The ranks have different work, and make as many passes.
    (_, first, one), (_, second, other) = found
    assert first[0] > second[0] and first[1] == second[1] == first[0]
    assert one < 1e-5 and other < 1e-5
