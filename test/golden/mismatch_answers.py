"""Writes mismatch.json: log-probs of two policies, and what verl says of them (verl 0.9.1, torch).

    python test/golden/mismatch_answers.py > test/golden/mismatch.json

Run with a Python that has verl. Tensors are of float64, so that no digits are lost to its float32.
"""

import json
import math

import torch
from verl.trainer.ppo.rollout_corr_helper import compute_is_metrics, compute_offpolicy_metrics


def case(name, seed, rows, longest, noise, drift=0.0):
    draw = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (rows,), generator=draw)
    mask = torch.arange(longest)[None, :] < lengths[:, None]
    sampled = -torch.rand((rows, longest), generator=draw, dtype=torch.float64) * 3
    places = torch.arange(longest, dtype=torch.float64)[None, :] / longest
    errors = torch.randn((rows, longest), generator=draw, dtype=torch.float64) * noise * (1 + drift * places)
    trained = sampled + errors
    found = compute_offpolicy_metrics(trained, sampled, mask)
    ratio = trained - sampled
    raw = torch.exp(ratio.clamp(-20, 20)) * mask
    weights = raw.clamp(max=2.0)
    found |= compute_is_metrics(weights, raw, ratio, mask, "token", 2.0)
    k3 = torch.expm1(ratio) - ratio
    first = mask & (4 * torch.arange(longest)[None, :] < lengths[:, None])
    last = mask & (4 * (lengths[:, None] - 1 - torch.arange(longest)[None, :]) < lengths[:, None])
    names = {
        "mismatch_kl": "kl",
        "mismatch_k3_kl": "k3_kl",
        "mismatch_log_ppl_abs_diff": "log_ppl_abs_diff",
        "mismatch_chi2_token": "chi2_token",
        "mismatch_ratio_fraction_high": "rollout_is_ratio_fraction_high",
        "mismatch_ratio_fraction_low": "rollout_is_ratio_fraction_low",
        "mismatch_eff_sample_size": "rollout_is_eff_sample_size",
    }
    expected = {key: found[verl] for key, verl in names.items()}
    expected["mismatch_k3_kl_first_quarter"] = k3[first].mean().item()
    expected["mismatch_k3_kl_last_quarter"] = k3[last].mean().item()
    assert all(math.isfinite(value) for value in expected.values())
    lists = [
        [[round(value, 12) for value in row[:length].tolist()] for row, length in zip(tensor, lengths)]
        for tensor in (sampled, trained)
    ]
    return {"name": name, "sampled": lists[0], "trained": lists[1], "expected": expected}


cases = [
    case("bf16 noise", 1, 8, 12, 0.02),
    case("far apart", 2, 6, 9, 1.0),
    case("growing along the response", 3, 10, 16, 0.05, drift=4.0),
    case("one token each", 4, 5, 1, 0.3),
]
print(json.dumps(cases))
