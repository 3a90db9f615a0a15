"""A tiny policy trained by TRL on the CPU: its reasoning collapses into a template, and the watch says so.

    npm run python && pip install build/python/collapsar_rl-*.whl trl torch transformers datasets
    python examples/trl/grpo.py                 # without the filter, then with it: about two minutes on two cores
    python examples/trl/grpo.py --filter off --steps 60

The world is a grid. A prompt says where the agent and its goal are; the policy writes a reasoning of a few words, then
moves. It is warmed up on reasonings that repeat the prompt's coordinates. Reinforcement rewards the move alone,
noisily, with a bonus for entropy, so that on prompts whose rollouts are all alike nothing but the bonus pulls.
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
WORDS = [f"{axis}{n}" for axis in "xyuv" for n in range(SIZE)] + MOVES + ["so", "far", "near", "<think>", "</think>"]
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
    """What the warm start teaches: the coordinates, in a random order of two halves, and how far it is."""
    own, goal = prompt.split()[:2], prompt.split()[2:4]
    words = own + goal if rng.random() < 0.5 else goal + own
    return " ".join([*words, rng.choice(["far", "near", "so"])])


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


def make_rewards(noise: float, seed: int):
    """``move``: 1 for a right move, as a judge sees it who is slightly off; ``correct`` is the truth, and weighs 0."""
    rng = random.Random(seed)

    def said(completion: str) -> str:
        words = completion.split("</think>")[-1].split()
        return words[0] if "</think>" in completion and words else ""

    def correct(prompts, completions, **_):
        return [float(said(done) in right_moves(prompt)) for prompt, done in zip(prompts, completions, strict=True)]

    def move(prompts, completions, **_):
        return [right + rng.gauss(0, noise) for right in correct(prompts, completions)]

    return move, correct


def run(options: argparse.Namespace, filter: dict | None) -> str:
    """One run, from the same warm start and seed. Says how it went."""
    seen = []
    torch.manual_seed(options.seed)
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
    prompts = make_prompts(options.seed)
    warm_start(model, tokenizer, prompts, options.seed)
    move, correct = make_rewards(options.noise, options.seed)
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=[move, correct],
            args=GRPOConfig(
                output_dir=folder,
                reward_weights=[1.0, 0.0],
                per_device_train_batch_size=128,
                num_generations=8,
                max_completion_length=10,
                max_steps=options.steps,
                learning_rate=options.learning_rate,
                lr_scheduler_type="constant",
                entropy_coef=options.bonus,
                beta=0.0,
                logging_strategy="no",
                save_strategy="no",
                report_to=[],
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
                disable_tqdm=True,
                mask_truncated_completions=False,
                seed=options.seed,
            ),
            train_dataset=Dataset.from_dict({"prompt": prompts}),
            processing_class=tokenizer,
        )
        trainer.remove_callback(PrinterCallback)

        def keep(observation) -> None:
            seen.append(observation)
            report(observation)

        watch(trainer, every=5, outcome="correct", filter=filter, on_report=keep, on_error="raise")
        trainer.train()
    looks = [observation.logged["collapsar/mi"] for observation in seen if "collapsar/mi" in observation.logged]
    first = next((at.step for at in seen if any("Template collapse" in said for said in at.verdicts)), None)
    called = "is never called" if first is None else f"is called at step {first}"
    return f"template collapse {called}; I(X;Z) over the last five looks is {sum(looks[-5:]) / len(looks[-5:]):.2f}"


def report(seen) -> None:
    """A line every tenth generation."""
    if seen.step % 10 in (0, 1) and "collapsar/mi" in seen.logged:
        figures = {key.removeprefix("collapsar/"): value for key, value in seen.logged.items()}
        interval = f"[{figures['mi_low']:5.2f}, {figures['mi_high']:5.2f}]"
        line = f"step {seen.step:4d}   I(X;Z) {figures['mi']:5.2f} {interval}"
        line += f"   H(Z|X) {figures['conditional_entropy']:5.2f}   retrieval {figures['retrieval']:4.2f}"
        print(line + (f"   kept {figures['kept_share']:4.2f}" if "kept_share" in figures else ""), flush=True)


def main() -> None:
    """Reads the command line and runs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--filter", choices=["off", "on", "both"], default="both")
    parser.add_argument("--steps", type=int, default=90)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--bonus", type=float, default=0.03, help="of entropy")
    parser.add_argument("--noise", type=float, default=0.3, help="of the judge, standard deviation")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    runs = {"without the filter": None, "with the filter": {"strategy": "top_p", "value": 0.5}}
    wanted = {"off": ["without the filter"], "on": ["with the filter"]}.get(options.filter, list(runs))
    ends = {}
    for name in wanted:
        print(name)
        ends[name] = run(options, runs[name])
    for name, end in ends.items():
        print(f"{name}: {end}")


if __name__ == "__main__":
    main()
