"""torch eager: what one would write, operation by operation. torch.compile takes the same functions."""

import math

import torch


def logit_stats(x, target):
    """[N, V] -> log-sum-exp, entropy, target log-prob, argmax, rank: as trainers have them, in float32."""
    values = x.float()
    lse = torch.logsumexp(values, -1)
    log_probs = values - lse[:, None]
    own = x.gather(-1, target[:, None])
    return {
        "logsumexp": lse,
        "entropy": -(log_probs.exp() * log_probs).sum(-1),
        "targetLogprob": log_probs.gather(-1, target[:, None])[:, 0],
        "argmax": x.argmax(-1),
        "rankAbove": (x > own).sum(-1),
        "rankEqual": (x == own).sum(-1),
    }


def score_stats(x, own, lengths):
    """[R, P] -> the row statistics that take no second matrix of the same size to write."""
    columns = x.shape[1]
    matched = x.gather(-1, own[:, None])
    per_token = x / lengths[:, None].clamp(min=1)
    log_probs = torch.log_softmax(x, -1)
    earlier = torch.arange(columns, device=x.device)[None, :] < own[:, None]
    others = x.scatter(-1, own[:, None], -math.inf)
    return {
        "matchedSeq": matched[:, 0],
        "marginalSeq": torch.logsumexp(x, -1) - math.log(columns),
        "marginalToken": torch.logsumexp(per_token, -1) - math.log(columns),
        "looMarginalSeq": torch.logsumexp(others, -1) - math.log(max(columns - 1, 1)),
        "posteriorEntropy": -(log_probs.exp() * log_probs).sum(-1),
        "argmax": x.argmax(-1),
        "rankAbove": (x > matched).sum(-1),
        "rankEqual": (x == matched).sum(-1),
        "hitRank": ((x > matched) | ((x == matched) & earlier)).sum(-1),
    }


def sum_tokens(x, lengths):
    """[P, R, T] -> [R, P]; select, because padding may be NaN."""
    valid = torch.arange(x.shape[2], device=x.device)[None, :] < lengths[:, None]
    return {"sums": torch.where(valid, x, 0).sum(-1, dtype=torch.float32).T}
