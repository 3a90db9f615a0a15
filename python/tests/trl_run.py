"""Real runs of TRL on the CPU: a tiny policy that answers two-word prompts."""

from __future__ import annotations

import random

import pytest

torch = pytest.importorskip("torch")
trl = pytest.importorskip("trl")
datasets = pytest.importorskip("datasets")
transformers = pytest.importorskip("transformers")

from models import qwen, tokenizer  # noqa: E402

WORDS = [f"w{at}" for at in range(40)] + ["<think>", "</think>"]


def correct(prompts, completions, **_):
    return [
        float(completion.split()[:1] == prompt.split()[:1])
        for prompt, completion in zip(prompts, completions, strict=True)
    ]


def shaped(completions, **_):
    return [len(set(completion.split())) / 10 for completion in completions]


def dataset(prompts: int = 8, seed: int = 0):
    rng = random.Random(seed)
    texts = [" ".join(rng.choice(WORDS[:40]) for _ in range(rng.randrange(2, 6))) for _ in range(prompts)]
    return datasets.Dataset.from_dict({"prompt": texts})


def trainer_of(
    folder,
    kind: str = "GRPO",
    rewards=(correct, shaped),
    model=None,
    data=None,
    eval_data=None,
    callbacks=(),
    **settings,
):
    """A trainer of 4 prompts x 4 rows a generation."""
    defaults = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 16,
        "num_generations": 4,
        "max_completion_length": 8,
        "max_steps": 3,
        "learning_rate": 1e-3,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "use_cpu": True,
        "bf16": False,
        "seed": 7,
        "disable_tqdm": True,
        "gradient_checkpointing": False,
        "beta": 0.0,
    }
    config = getattr(trl, f"{kind}Config")(**(defaults | settings))
    tokens = tokenizer(WORDS)
    return getattr(trl, f"{kind}Trainer")(
        model=model if model is not None else qwen(vocabulary=len(tokens)),
        reward_funcs=list(rewards),
        args=config,
        train_dataset=data if data is not None else dataset(),
        eval_dataset=eval_data,
        processing_class=tokens,
        callbacks=list(callbacks),
    )


def fix_generation(trainer, watched) -> None:
    """What is generated depends on the global row and the generation alone: on no random state."""
    generate = trainer._generate

    def fixed(prompts):
        answer = list(generate(prompts))
        first = trainer.accelerator.process_index * len(prompts)
        rows = [first + at for at in range(len(prompts))]
        turn = watched.generation
        answer[1] = [[3 + (7 * row + 5 * t + turn) % 30 for t in range(3 + (row + turn) % 5)] for row in rows]
        answer[3] = trainer.processing_class.batch_decode(answer[1])
        return tuple(answer)

    trainer._generate = fixed
