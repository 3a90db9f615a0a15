"""A plain Triton kernel for logitStats, as one would write it: a program a row, the online softmax block by block.

The block's maximum first, one rescale a block, the centred sum for the entropy; argmax and rank on the way. No tuning
beyond the sizes tried in CONFIGS.
"""

import torch
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK": block}, num_warps=warps, num_stages=stages)
    for block, warps, stages in ((4096, 8, 2), (8192, 8, 3), (8192, 16, 2), (16384, 16, 2))
]


@triton.autotune(configs=CONFIGS, key=["columns"])
@triton.jit
def rows_kernel(
    x, target, lse_out, entropy_out, target_out, argmax_out, above_out, equal_out, columns, stride, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    base = x + row * stride
    wanted = tl.load(base + tl.load(target + row)).to(tl.float32)
    largest = -float("inf")
    best = 0
    s = 0.0
    t = 0.0
    above = 0
    equal = 0
    for at in range(0, columns, BLOCK):
        column = at + tl.arange(0, BLOCK)
        inside = column < columns
        value = tl.load(base + column, mask=inside, other=-float("inf")).to(tl.float32)
        here = tl.max(value, 0)
        place = tl.argmax(value, 0)
        if here > largest:
            best = at + place
            fall = tl.where(largest == -float("inf"), 0.0, largest - here)
            scale = tl.where(largest == -float("inf"), 0.0, tl.exp(fall))
            t = scale * (t + s * fall)
            s = s * scale
            largest = here
        d = tl.where(value == -float("inf"), 0.0, value - largest)
        e = tl.where(value == -float("inf"), 0.0, tl.exp(d))
        s += tl.sum(e, 0)
        t += tl.sum(e * d, 0)
        above += tl.sum((value > wanted).to(tl.int32), 0)
        equal += tl.sum(((value == wanted) & inside).to(tl.int32), 0)
    log_s = tl.log(s)
    tl.store(lse_out + row, largest + log_s)
    tl.store(entropy_out + row, log_s - t / s)
    tl.store(target_out + row, wanted - largest - log_s)
    tl.store(argmax_out + row, best)
    tl.store(above_out + row, above)
    tl.store(equal_out + row, equal)


def logit_stats(x, target):
    """[N, V] -> the fields of logitStats, float32 and int32."""
    rows, columns = x.shape
    floats = [torch.empty(rows, dtype=torch.float32, device=x.device) for _ in range(3)]
    integers = [torch.empty(rows, dtype=torch.int32, device=x.device) for _ in range(3)]
    rows_kernel[(rows,)](x, target, *floats, *integers, columns, x.stride(0))
    names = ("logsumexp", "entropy", "targetLogprob", "argmax", "rankAbove", "rankEqual")
    return dict(zip(names, floats + integers, strict=True))
