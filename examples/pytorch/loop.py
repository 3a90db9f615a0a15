"""A training loop of plain PyTorch, watched: cross-scores, filter and verdicts of collapsar's monitor.

    npm run python && pip install build/python/collapsar_rl-*.whl torch transformers
    python examples/pytorch/loop.py             # half a minute on one core

A tiny policy answers two-word prompts. The reward wants the prompt's first word, and pays more for each word "ok": the
answers soon are made of it.
"""

import argparse

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from collapsar import Monitor
from collapsar.hf import cross_scores

WORDS, OK, PAD = 24, 1, 0
PROMPTS, ROWS, LENGTH = 8, 8, 4


def make_policy() -> Qwen2ForCausalLM:
    """Repeats the prompt's words: what supervised training taught it."""
    config = Qwen2Config(
        vocab_size=WORDS,
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        pad_token_id=PAD,
        bos_token_id=None,
        eos_token_id=None,
    )
    policy = Qwen2ForCausalLM(config)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-3)
    for _ in range(200):
        prompts = torch.randint(2, WORDS, (64, 2))
        answers = prompts.gather(1, torch.randint(0, 2, (64, LENGTH)))
        answers[:, 1:] = torch.where(torch.rand(64, LENGTH - 1) < 0.1, OK, answers[:, 1:])
        ids = torch.cat([prompts, answers], 1)
        labels = ids.clone()
        labels[:, :2] = -100
        optimizer.zero_grad()
        policy(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
    return policy


def train(steps: int, seed: int, pay: float) -> list[str]:
    """Trains, and gives the sentences of verdicts; ``pay`` is what an "ok" earns."""
    torch.manual_seed(seed)
    policy = make_policy()
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3)
    groups = torch.arange(PROMPTS).repeat_interleave(ROWS)
    pairs = torch.combinations(torch.arange(2, WORDS))
    said = []
    with Monitor(every_steps=1, filter={"strategy": "top_p", "value": 0.9}) as monitor:
        for number in range(1, steps + 1):
            prompts = pairs[torch.randperm(len(pairs))[:PROMPTS]]
            ids = policy.generate(prompts[groups], do_sample=True, max_new_tokens=LENGTH, min_new_tokens=LENGTH)
            answers = ids[:, 2:]
            rewards = (answers == prompts[groups, :1]).any(1).float() + pay * (answers == OK).sum(1)

            step = monitor.step(number, groups=groups, lengths=[LENGTH] * len(groups), prompt_tokens=prompts)
            if step.due:
                step.score_all(cross_scores(policy, prompts, answers, pairs=step.pairs))
            step.rollouts(tokens=answers)
            report = step.finish(rewards=rewards)

            for verdict in report.verdicts:
                if verdict["said"] == number:
                    said.append(verdict["sentence"])
                    print(f"step {number}: {verdict['severity']}: {verdict['sentence']}", flush=True)
            kept = torch.from_numpy(report.row_mask)
            by_group = rewards.view(PROMPTS, ROWS)
            advantages = (
                (by_group - by_group.mean(1, keepdim=True)) / (by_group.std(1, keepdim=True) + 1e-4)
            ).flatten()
            logits = policy(input_ids=ids).logits[:, 1:-1]
            logprobs = logits.log_softmax(-1).gather(2, answers[..., None])[..., 0].sum(1)
            loss = -report.loss_scale * (advantages * logprobs)[kept].sum() / len(groups)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if number % 5 == 0:
                figures = f"I(X;Z) {report.figures['mi_seq_estimate']:.2f}   kept {kept.float().mean():.2f}"
                print(f"step {number:3d}   reward {rewards.mean():.2f}   {figures}", flush=True)
    return said


def main() -> None:
    """Reads the command line and trains."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pay", type=float, default=1.0, help='what each "ok" earns; 0: nothing')
    options = parser.parse_args()
    train(options.steps, options.seed, options.pay)


if __name__ == "__main__":
    main()
