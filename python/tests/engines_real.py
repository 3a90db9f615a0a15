"""A real vLLM: what `collapsar score` gets from it is held against the exact scores of the same model in transformers.

    VLLM=/path/to/vllm python tests/engines_real.py       with torch and transformers, after `npm ci`

A tiny random model samples two steps of rollouts; `vllm serve` serves it, `collapsar score` writes step files: with the
prefix cache, and without it as TRL's server, which is plain vLLM since TRL 1.13. Kernels differ, so sums must agree to
1e-4 of a row's, and I(X;Z) to 1e-3. docs/guide/scoring.md says how a vLLM for CPUs is installed. Exit status 1 where
something is not as it must be.
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

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "python/src"))

from collapsar.hf import cross_scores  # noqa: E402

COMMAND = ["node", str(ROOT / "dist/cli/main.js")]
VLLM = os.environ.get("VLLM", "vllm")
PROMPTS, ROWS, LONGEST = 8, 4, 128


def make_model(folder: Path) -> Qwen2ForCausalLM:
    torch.manual_seed(5)
    words = ["[PAD]", "[EOS]", "[UNK]", *(f"w{at}" for at in range(253))]
    made = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, pad_token="[PAD]", eos_token="[EOS]", unk_token="[UNK]")
    config = Qwen2Config(
        vocab_size=len(words),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=LONGEST,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
        initializer_range=0.06,  # so that what is said depends on the prompt, though not wholly
    )
    model = Qwen2ForCausalLM(config).to(torch.float32).eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model


def sample(model: Qwen2ForCausalLM, step: int) -> list[dict]:
    """Rows of one step; the last prompt and its rows fill the model's length but for the token that is asked for."""
    torch.manual_seed(step)
    rows = []
    for prompt in range(PROMPTS):
        tokens = LONGEST - 25 if prompt == PROMPTS - 1 else int(torch.randint(2, 12, (1,)))
        ids = torch.randint(3, 256, (1, tokens))
        said = model.generate(ids.repeat(ROWS, 1), do_sample=True, max_new_tokens=24, min_new_tokens=24)[:, tokens:]
        for row in said:
            rows.append({"step": step, "group": prompt, "prompt_tokens": ids[0].tolist(), "tokens": row.tolist()})
    return rows


@contextlib.contextmanager
def serve(model: Path, log: Path, *options: str) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [VLLM, "serve", str(model), "--port", str(port), "--dtype", "float32", "--max-model-len", str(LONGEST)]
    env = os.environ | {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    env |= {"VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    with log.open("w") as out:
        process = subprocess.Popen([*command, "--enforce-eager", *options], stdout=out, stderr=out, env=env)
        try:
            for _ in range(900):
                if process.poll() is not None:
                    raise SystemExit(f"vLLM has ended: {log.read_text()[-3000:]}")
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5).close()
                    break
                time.sleep(1)
            else:
                raise SystemExit(f"vLLM does not answer: {log.read_text()[-3000:]}")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(60)


def exact(model: Qwen2ForCausalLM, rows: list[dict]) -> tuple[np.ndarray, float]:
    """[R, P] sums, and I(X;Z) by its formula: matched less the log of the mean over all prompts."""
    prompts = [next(row["prompt_tokens"] for row in rows if row["group"] == at) for at in range(PROMPTS)]
    sums = cross_scores(model, prompts, [row["tokens"] for row in rows])
    own = sums[np.arange(len(rows)), [row["group"] for row in rows]]
    marginal = np.logaddexp.reduce(sums, axis=1) - np.log(PROMPTS)
    return sums, float(np.mean(own - marginal))


def read_sums(path: Path) -> np.ndarray:
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        place = header["cross_logprob_sums"]
        start, end = place["data_offsets"]
        file.seek(start, os.SEEK_CUR)
        kind = {"F64": "<f8", "F32": "<f4"}[place["dtype"]]
        return np.frombuffer(file.read(end - start), kind).reshape(place["shape"]).astype(np.float64)


def run(*arguments: str) -> str:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)}: exit status {done.returncode}: {done.stderr}")
    return done.stdout


def main() -> None:
    version = subprocess.run([VLLM, "--version"], capture_output=True, text=True, check=False).stdout.split()
    print(f"vLLM {version[-1] if version else 'of an unknown version'}, torch {torch.__version__}")
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        model = make_model(work / "model")
        steps = {step: sample(model, step) for step in (1, 2)}
        log = work / "rollouts.jsonl"
        log.write_text("".join(json.dumps(row) + "\n" for rows in steps.values() for row in rows))
        known = {step: exact(model, rows) for step, rows in steps.items()}
        for engine, cache in (("vllm", "--enable-prefix-caching"), ("trl", "--no-enable-prefix-caching")):
            with serve(work / "model", work / "vllm.log", cache) as url:
                out = work / engine
                started = time.perf_counter()
                run("score", str(log), "--engine", engine, "--url", url, "--out", str(out), "--quiet")
                took = time.perf_counter() - started
            files = sorted(out.rglob("*.safetensors"))
            analyzed = [json.loads(line) for line in run("analyze", str(out), "--jsonl", "--quiet").splitlines()]
            if len(files) != len(steps) or len(analyzed) != len(steps):
                raise SystemExit(f"{len(files)} step files and {len(analyzed)} analysed steps of {len(steps)}")
            for file, record, (sums, mi) in zip(files, analyzed, known.values(), strict=True):
                apart = np.max(np.abs(read_sums(file) - sums) / np.abs(sums))
                value = next(found for key, found in record.items() if key.endswith("mi_seq_estimate"))
                off = abs(value - mi) / abs(mi)
                print(f"{engine} {cache}: sums within {apart:.1e}, I(X;Z) {value:.6f} and {mi:.6f}, within {off:.1e}")
                wrong += apart > 1e-4 or off > 1e-3
            print(
                f"{engine} {cache}: {len(files)} steps of {PROMPTS * ROWS} rows under {PROMPTS} prompts in {took:.1f} s"
            )
    if wrong:
        raise SystemExit(f"{wrong} steps differ by more than kernels do")


if __name__ == "__main__":
    main()
