"""A tiny policy trained by TRL on the CPU: a judge who pays for careful words makes its reasoning a template.

    npm run python && pip install build/python/collapsar_rl-*.whl trl torch transformers datasets
    python examples/trl/grpo.py                      # two runs of 20 generations: about a minute on two cores
    python examples/trl/grpo.py --careful 0          # the reward for right moves alone

The world is a grid. A prompt says where the agent and its goal are; the policy writes a reasoning of a few words, then
moves. It is warmed up on reasonings that repeat the prompt's coordinates. One run rewards right moves alone. The other
adds a judge who pays for each word that sounds careful, whatever the prompt: the reasoning soon is made of such words,
in ever new orders. The reward rises and the entropy stays high, while the reasoning no longer depends on the prompt.
"""

import argparse
import itertools
import logging
import random
import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, PrinterCallback, Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig, GRPOTrainer

from collapsar.trl import watch

SIZE = 5
MOVES = ["up", "down", "left", "right"]
CAREFUL = ["so", "first", "let's", "check", "again", "carefully", "indeed", "now", "note", "thus", "then", "well"]
WORDS = [f"{axis}{n}" for axis in "xyuv" for n in range(SIZE)] + MOVES + CAREFUL + ["<think>", "</think>"]
SYMBOLS = ["[PAD]", "[EOS]", "[UNK]", *WORDS]


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Whole words are tokens."""
    made = Tokenizer(models.WordLevel({word: at for at, word in enumerate(SYMBOLS)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", eos_token="[EOS]", unk_token="[UNK]", padding_side="left"
    )


def right_moves(prompt: str) -> list[str]:
    """Moves that bring the agent (x, y) nearer to its goal (u, v)."""
    x, y, u, v = (int(word[1:]) for word in prompt.split()[:4])
    moves = ["right"] * (u > x) + ["left"] * (u < x) + ["down"] * (v > y) + ["up"] * (v < y)
    return moves


def make_prompts(seed: int) -> list[str]:
    """Every board whose agent is not at its goal, shuffled; the last word opens the reasoning."""
    boards = [board for board in itertools.product(range(SIZE), repeat=4) if board[:2] != board[2:]]
    random.Random(seed).shuffle(boards)
    return [f"x{x} y{y} u{u} v{v} <think>" for x, y, u, v in boards]


def reasoning(prompt: str, rng: random.Random) -> str:
    """What the warm start teaches: the coordinates, in a random order of two halves; one word of five is careful."""
    own, goal = prompt.split()[:2], prompt.split()[2:4]
    words = own + goal if rng.random() < 0.5 else goal + own
    return " ".join(rng.choice(CAREFUL) if rng.random() < 0.2 else word for word in [*words, rng.choice(CAREFUL)])


def warm_start(model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, prompts: list[str], seed: int) -> None:
    """Learns to reason about the prompt; moves are right half the time, so that something is left to learn."""
    rng = random.Random(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(300):
        chosen = rng.choices(prompts, k=64)
        lines = []
        for prompt in chosen:
            move = rng.choice(right_moves(prompt)) if rng.random() < 0.5 else rng.choice(MOVES)
            lines.append(f"{prompt} {reasoning(prompt, rng)} </think> {move} [EOS]")
        ids = torch.tensor([tokenizer.encode(line) for line in lines])
        labels = ids.clone()
        labels[:, :5] = -100
        loss = model(input_ids=ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def correct(prompts: list[str], completions: list[str], **_) -> list[float]:
    """1 for a move that brings the agent nearer to its goal."""

    def move(completion: str) -> str:
        words = completion.split("</think>")[-1].split()
        return words[0] if "</think>" in completion and words else ""

    return [float(move(done) in right_moves(prompt)) for prompt, done in zip(prompts, completions, strict=True)]


def careful(completions: list[str], **_) -> list[float]:
    """The judge who pays for careful words: their number in the reasoning."""
    return [float(sum(word in CAREFUL for word in done.split("</think>")[0].split())) for done in completions]


def run(weight: float, steps: int = 20, seed: int = 1) -> int | None:
    """Trains; ``weight`` is that of the judge's reward. The step at which template collapse is reported, if it is."""
    seen = []
    torch.manual_seed(seed)
    tokenizer = make_tokenizer()
    config = Qwen2Config(
        vocab_size=len(SYMBOLS),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    model = Qwen2ForCausalLM(config)
    prompts = make_prompts(seed)
    warm_start(model, tokenizer, prompts, seed)
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=[correct, careful],
            args=GRPOConfig(
                output_dir=folder,
                reward_weights=[1.0, weight],
                per_device_train_batch_size=128,
                num_generations=8,
                max_completion_length=10,
                max_steps=steps,
                learning_rate=1e-3,
                lr_scheduler_type="constant",
                beta=0.0,
                logging_strategy="no",
                save_strategy="no",
                report_to=[],
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
                disable_tqdm=True,
                mask_truncated_completions=False,
                seed=seed,
            ),
            train_dataset=Dataset.from_dict({"prompt": prompts}),
            processing_class=tokenizer,
        )
        trainer.remove_callback(PrinterCallback)

        def keep(observation) -> None:
            seen.append(observation)
            report(observation)

        watch(trainer, every=1, negatives=None, outcome="correct", on_report=keep, on_error="raise")
        trainer.train()
    return next((at.step for at in seen if any("Template collapse" in said for said in at.verdicts)), None)


def report(seen) -> None:
    """A line every fifth step."""
    if seen.step % 5 == 0 and "collapsar/mi" in seen.logged:
        figures = {key.removeprefix("collapsar/"): value for key, value in seen.logged.items()}
        interval = f"[{figures['mi_low']:5.2f}, {figures['mi_high']:5.2f}]"
        line = f"step {seen.step:4d}   I(X;Z) {figures['mi']:5.2f} {interval}"
        print(
            f"{line}   H(Z|X) {figures['conditional_entropy']:5.2f}   retrieval {figures['retrieval']:4.2f}", flush=True
        )


def main() -> None:
    """Reads the command line and runs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--careful", type=float, nargs="+", default=[0.0, 1.0], help="the judge's weight; a run each")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    for weight in options.careful:
        print(f"the judge's reward weighs {weight:g}")
        first = run(weight, options.steps, options.seed)
        print("no template collapse" if first is None else f"template collapse is reported at step {first}", end="\n\n")


if __name__ == "__main__":
    main()
