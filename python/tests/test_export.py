"""Pickled rollouts as rows that the engine reads."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
from pathlib import Path

import numpy as np
import pytest

from collapsar import ArgumentError, CollapsarError
from collapsar._node import find_command, find_node
from collapsar.export import export, main
from collapsar.step_file import write_step


def slime_data(prompts: int = 3):
    return {
        "rollout_id": 4,
        "samples": [
            {
                "group_index": at // 4,
                "index": at,
                "prompt": f"where to {at // 4}?",
                "tokens": [1, 2, 3 + at // 4, 10 + at // 4, 20 + at],
                "response_length": 2,
                "response": f"go to {at // 4} or {at}",
                "reward": {"score": float(at % 2)},
                "status": "truncated" if at == 0 else "completed",
            }
            for at in range(4 * prompts)
        ],
    }


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def engine(program: str) -> str:
    """What a program of the engine's library says; {DIST} stands for where it is."""
    library = Path(find_command()).parents[1]
    if not (library / "index.js").exists():
        pytest.skip("the engine's library is not beside its command")
    program = program.replace("{DIST}", str(library))
    command = [find_node(), "--input-type=module", "-e", program]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_of_slime_are_read_without_trust_where_they_are_plain(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save(slime_data(), tmp_path / "7.pt")
    assert export([tmp_path / "7.pt"], tmp_path / "out.jsonl") == 12
    rows = lines(tmp_path / "out.jsonl")
    assert rows[0] == {
        "step": 4,
        "group": 0,
        "sample": 0,
        "prompt": "where to 0?",
        "prompt_tokens": [1, 2, 3],
        "output": "go to 0 or 0",
        "tokens": [10, 20],
        "reward": 0.0,
        "truncated": True,
    }
    # The engine takes them.
    found = engine(f"""
        import {{ readRollouts }} from "{{DIST}}/exports/logs.js";
        for await (const step of readRollouts({json.dumps(str(tmp_path / "out.jsonl"))}))
          console.log(JSON.stringify([Number(step.step), step.rows]));""")
    assert json.loads(found) == [4, 12]


def test_of_slime_have_environments_and_the_turns_of_an_execution(tmp_path):
    torch = pytest.importorskip("torch")
    data = slime_data(2)
    for at, sample in enumerate(data["samples"]):
        sample["metadata"] = {"source_name": "math" if at < 4 else "code"}
        sample["rollout_id"] = at - at % 2 if at < 4 else at
    torch.save(data, tmp_path / "7.pt")
    export([tmp_path / "7.pt"], tmp_path / "out.jsonl")
    rows = lines(tmp_path / "out.jsonl")
    assert [row["environment"] for row in rows] == ["math"] * 4 + ["code"] * 4
    assert [(row.get("episode"), row.get("turn")) for row in rows[:5]] == [(0, 0), (0, 1), (2, 0), (2, 1), (None, None)]
    assert "sample" not in rows[0] and rows[4]["sample"] == 4
    found = engine(f"""
        import {{ readRollouts }} from "{{DIST}}/exports/logs.js";
        for await (const step of readRollouts({json.dumps(str(tmp_path / "out.jsonl"))}))
          console.log(JSON.stringify(step.environment));""")
    assert json.loads(found) == ["math"] * 4 + ["code"] * 4


def test_step_files_name_environments(tmp_path):
    path = tmp_path / "step_00007.safetensors"
    groups = [0, 0, 1, 1, 2, 2]
    named = ["math", "math", None, None, "code", "code"]
    prompts = [[1], [2], [3]]
    write_step(path, 7, np.zeros((6, 3)), lengths=[1] * 6, group=groups, prompts=prompts, environments=named)
    found = engine(f"""
        import {{ readStepFile }} from "{{DIST}}/exports/logs.js";
        const {{ environments }} = await readStepFile({json.dumps(str(path))});
        console.log(JSON.stringify([environments.names, [...environments.ofRow]]));""")
    assert json.loads(found) == [["(none)", "code", "math"], [2, 2, 0, 0, 1, 1]]


class Boom:
    def __reduce__(self):
        return os.mkdir, ("exploded",)


@pytest.mark.parametrize("name", ["a.pkl", "a.pt"])
def test_that_would_run_code_are_not_loaded(tmp_path, monkeypatch, name, capsys):
    monkeypatch.chdir(tmp_path)
    if name.endswith(".pt"):
        pytest.importorskip("torch").save({"samples": [Boom()]}, name)
    else:
        (tmp_path / name).write_bytes(pickle.dumps({"samples": [Boom()]}))
    assert main([name, "--out", "out.jsonl"]) == 1
    assert "--trust-pickle" in capsys.readouterr().err
    assert not (tmp_path / "exploded").exists() and not (tmp_path / "out.jsonl").exists()


def test_of_batches_are_read_with_trust(tmp_path):
    batch = {
        "prompts": np.array([[0, 0, 5], [0, 6, 7]]),
        "responses": np.array([[8, 9, 0], [8, 8, 8]]),
        "attention_mask": np.array([[0, 0, 1, 1, 1, 0], [0, 1, 1, 1, 1, 1]]),
        "token_level_scores": np.array([[0, 1.5, 0], [0, 0, 2.0]]),
        "uid": np.array(["a", "b"], dtype=object),
    }
    (tmp_path / "global_step_12.pkl").write_bytes(pickle.dumps(batch))
    assert export([tmp_path / "global_step_12.pkl"], tmp_path / "o.jsonl", trust_pickle=True) == 2
    assert lines(tmp_path / "o.jsonl") == [
        {"step": 12, "group": "a", "prompt_tokens": [5], "tokens": [8, 9], "reward": 1.5},
        {"step": 12, "group": "b", "prompt_tokens": [6, 7], "tokens": [8, 8, 8], "reward": 2.0},
    ]


def test_can_be_parquet(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "1.pkl").write_bytes(pickle.dumps(slime_data()))
    export([tmp_path / "1.pkl"], tmp_path / "o.parquet", trust_pickle=True)
    assert parquet.read_table(tmp_path / "o.parquet").num_rows == 12


def test_name_what_is_wrong(tmp_path):
    (tmp_path / "1.pkl").write_bytes(pickle.dumps({"samples": []}))
    (tmp_path / "2.pkl").write_bytes(pickle.dumps({"x": [1]}))
    (tmp_path / "3.pkl").write_bytes(b"\x80\x04")
    for name, problem in (
        ("0", "no such file"),
        ("1", "no rollouts"),
        ("2", "no responses"),
        ("3", "cannot be loaded"),
    ):
        with pytest.raises(CollapsarError, match=problem):
            export([tmp_path / f"{name}.pkl"], tmp_path / "o.jsonl", trust_pickle=True)
    with pytest.raises(ArgumentError, match="jsonl or"):
        export([], tmp_path / "o.csv")
    assert not (tmp_path / "o.jsonl").exists()


def test_become_step_files_that_a_model_has_scored(tmp_path):
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from models import qwen, tokenizer

    from collapsar.hf import Row, cross_scores

    words = [*(f"w{at}" for at in range(40)), "<think>", "</think>"]
    model = qwen(vocabulary=len(tokenizer(words)))
    model.save_pretrained(tmp_path / "model")
    tokenizer(words).save_pretrained(tmp_path / "model")
    data = slime_data()
    for sample in data["samples"]:
        # A prompt of three tokens; reasoning between tags, and an answer.
        sample["tokens"] = [*sample["tokens"][:3], 43, 10 + sample["index"], 11, 44, 7]
        sample["response_length"] = 5
    torch.save(data, tmp_path / "4.pt")
    torch.save(data | {"rollout_id": 5}, tmp_path / "5.pt")
    files = [str(tmp_path / name) for name in ("5.pt", "4.pt")]
    out = tmp_path / "steps"
    assert main([*files, "--model", str(tmp_path / "model"), "--temperature", "0.7", "--out", str(out)]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["step_00004.safetensors", "step_00005.safetensors"]
    prompts = [[1, 2, 3 + group] for group in range(3)]
    rows = [Row([43, 10 + at, 11], 1) for at in range(12)]
    expected = cross_scores(model, prompts, rows, temperature=0.7)
    found = json.loads(
        engine(f"""
        import {{ readSteps }} from "{{DIST}}/index.js";
        const found = [];
        for await (const step of readSteps({json.dumps(str(out))})) {{
          const {{ data, shape }} = await step.scores.read();
          const [lengths, group, rewards] = [step.lengths, step.group, step.rewards].map((of) => [...of].map(Number));
          const {{ step: number, metadata }} = step;
          found.push({{ step: number, metadata, lengths, group, rewards, sums: [...data], shape }});
        }}
        console.log(JSON.stringify(found));""")
    )
    assert [step["step"] for step in found] == [4, 5]
    first = found[0]
    assert first["group"] == [at // 4 for at in range(12)] and first["lengths"] == [2] * 12
    assert first["rewards"] == [float(at % 2) for at in range(12)]
    assert first["metadata"]["temperature"] == "0.7"
    np.testing.assert_allclose(np.reshape(first["sums"], first["shape"]), expected, atol=1e-5)


def test_are_no_step_files_without_groups_or_with_several_prompts(tmp_path):
    pytest.importorskip("torch")
    from models import tokenizer

    from collapsar.export import export_steps

    data = slime_data()
    data["samples"][1]["tokens"][0] = 9
    (tmp_path / "1.pkl").write_bytes(pickle.dumps(data))
    data = slime_data()
    data["samples"][2]["group_index"] = None
    (tmp_path / "2.pkl").write_bytes(pickle.dumps(data))
    for name, problem in (("1", "row 1: has another prompt"), ("2", "row 2: has no group")):
        with pytest.raises(CollapsarError, match=problem):
            export_steps([tmp_path / f"{name}.pkl"], tmp_path / "o", None, tokenizer(["a"]), trust_pickle=True)
    assert not list((tmp_path / "o").iterdir())
