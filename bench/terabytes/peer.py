"""What one would write with torch for the metrics of `collapsar analyze`: the peer of bench/terabytes.mjs.

    python bench/terabytes/peer.py [--check] FILE...

Loads each step file with the safetensors library, sums the tokens of each row under each prompt, and computes the MI
estimates, retrieval, entropies and permutation p-values (999), but no intervals. Prints a JSON line: seconds from the
first file to the last, bytes, and with --check the metrics of each step.
"""

import json
import math
import os
import sys
import time

import torch
from safetensors import safe_open

PERMUTATIONS = 999


def metrics(path):
    with safe_open(path, framework="pt") as file:
        scores = file.get_tensor("cross_logprobs")
        lengths = file.get_tensor("lengths").long()
        own = file.get_tensor("group").long()  # group ids are column numbers here
    prompts, rows, tokens = scores.shape
    if bool((lengths == tokens).all()):
        sums = scores.sum(-1, dtype=torch.float32).T.double()
    else:
        mask = torch.arange(tokens)[None, :] < lengths[:, None]
        sums = torch.where(mask, scores, scores.new_zeros(())).sum(-1, dtype=torch.float32).T.double()
    length = lengths.clamp(min=1).double()
    means = sums / length[:, None]
    log_prompts = math.log(prompts)
    matched, matched_token = (x.gather(1, own[:, None])[:, 0] for x in (sums, means))
    marginal, marginal_token = (torch.logsumexp(x, 1) - log_prompts for x in (sums, means))
    others = sums.scatter(1, own[:, None], -math.inf)
    marginal_loo = torch.logsumexp(others, 1) - math.log(prompts - 1)
    log_posterior = torch.log_softmax(sums, 1)
    order = sums.topk(min(8, prompts), 1).indices
    found = {
        "mi_estimate": (matched_token - marginal_token).mean(),
        "mi_seq_estimate": (matched - marginal).mean(),
        "mi_per_token": ((matched - marginal) / length).mean(),
        "mi_seq_loo_estimate": (matched - marginal_loo).mean(),
        "matched_log_prob_mean": matched_token.mean(),
        "marginal_log_prob_mean": marginal_token.mean(),
        "conditional_entropy_seq_est": -matched.mean(),
        "reasoning_entropy_seq_est": -marginal.mean(),
        "marginal_std": marginal_token.std(unbiased=False),
        "marginal_std_seq": marginal.std(unbiased=False),
        "retrieval_accuracy": (order[:, 0] == own).double().mean(),
        "posterior_entropy_mean": -torch.special.xlogy(log_posterior.exp(), log_posterior.exp()).sum(1).mean(),
    }
    # Labels permuted: S, S per token, S less the leave-one-out marginal, and the hits.
    labels = own[torch.rand(PERMUTATIONS, rows).argsort(1)]
    at = torch.arange(rows)[None, :]
    hit = torch.zeros_like(sums).scatter(1, order[:, :1], 1.0)
    p_values = []
    for table in (sums, means, hit):
        observed = table.gather(1, own[:, None]).sum()
        p_values.append((1 + (table[at, labels].sum(1) >= observed).sum().item()) / (PERMUTATIONS + 1))
    return {name: value.item() for name, value in found.items()}, p_values


def main():
    arguments = sys.argv[1:]
    check = "--check" in arguments
    paths = [path for path in arguments if path != "--check"]
    begun = time.perf_counter()
    steps = [metrics(path)[0] for path in paths]
    seconds = time.perf_counter() - begun
    answer = {"seconds": seconds, "bytes": sum(os.path.getsize(path) for path in paths), "threads": torch.get_num_threads()}
    if check:
        answer["steps"] = steps
    print(json.dumps({**answer, "torch": torch.__version__}))


main()
