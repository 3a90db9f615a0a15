"""The tensors that peers are timed and checked on, and how times are taken: medians of CUDA events, caches not warm.

Shapes and distributions are those of native/test/cuda_timing.cpp, so that the lines of one table belong together.
"""

import functools
import statistics

import torch

CACHE_BYTES = 256 << 20  # more than any GPU's second-level cache


def logits(rows, columns, dtype, device="cuda"):
    """[rows, columns] of a policy's spread, made row block by row block: no float32 copy of it all."""
    out = torch.empty(rows, columns, dtype=dtype, device=device)
    generator = torch.Generator(device=device).manual_seed(rows * columns)
    step = max(1, (1 << 28) // columns)
    for at in range(0, rows, step):
        block = out[at : at + step]
        block.copy_(torch.randn(block.shape, device=device, generator=generator) * 2.5)
    return out


def targets(x):
    """Likely ones: the best of the first 1000 columns."""
    return x[:, :1000].argmax(-1)


def tokens(prompts, rows, length, dtype, device="cuda"):
    """[P, R, T] log-probs, and lengths anywhere between nothing and all: about half full."""
    generator = torch.Generator(device=device).manual_seed(7)
    x = torch.empty(prompts, rows, length, dtype=dtype, device=device)
    for prompt in range(prompts):
        x[prompt] = -1.2 + 0.3 * torch.randn(rows, length, device=device, generator=generator)
    lengths = torch.randint(0, length + 1, (rows,), device=device, generator=generator)
    return x, lengths


def scores(rows, columns, dtype, device="cuda"):
    """[R, P] sums of log-probs, each row's own column and length."""
    generator = torch.Generator(device=device).manual_seed(6)
    x = torch.empty(rows, columns, dtype=dtype, device=device)
    x.copy_(-150 + 12 * torch.randn(rows, columns, device=device, generator=generator))
    own = torch.randint(0, columns, (rows,), device=device, generator=generator)
    lengths = torch.randint(100, 500, (rows,), device=device, generator=generator)
    return x, own, lengths


@functools.cache
def cold_memory():
    return torch.zeros(CACHE_BYTES, dtype=torch.int8, device="cuda")


def flush():
    """Fills the cache with something else, by reading: lines that were written would be stored while a call is timed."""
    cold_memory().sum(dtype=torch.int64)


def seconds(call, at_least=0.4, most=200):
    """The median of a call's time by the GPU's clock, after three calls that are not counted."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    samples, spent = [], 0.0
    while len(samples) < 5 or (spent < at_least and len(samples) < most):
        flush()
        torch.cuda._sleep(1_000_000)  # half a millisecond, in which a call that is slow to start catches up
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        end.synchronize()
        samples.append(begin.elapsed_time(end) / 1e3)
        spent += samples[-1]
    return statistics.median(samples)
