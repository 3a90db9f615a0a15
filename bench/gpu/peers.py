"""collapsar's CUDA backend beside torch eager, torch.compile and a plain Triton kernel, on the same tensors.

  python bench/gpu/peers.py BACKEND.so [--small] [--budget SECONDS]

A JSON object a line: {"operation", "shape", "dtype", "peer", "seconds", "ours_seconds", "times_faster", "problem"}.
Peers whose results differ from collapsar's are named with the problem, and timed all the same. One that cannot run is a
line with the problem and no times.
"""

import argparse
import json
import statistics
import time

import eager
import tensors
import torch
from backend import Backend

# These formulas lose digits of their own, in float32.
TOLERANCE = 1e-2
EXACT = ("argmax", "rankAbove", "rankEqual", "hitRank")


def problem_of(ours, theirs, x):
    """What differs, or None. Where argmax differs, equal values are as good."""
    for name, value in theirs.items():
        a, b = ours[name].double(), value.cpu().double()
        if name == "argmax":
            columns = ours[name].to(x.device).long().reshape(x.shape[0], -1)
            others = value.long().reshape(x.shape[0], -1)
            a, b = x.gather(-1, columns).double().cpu(), x.gather(-1, others).double().cpu()
        if a.shape != b.shape:
            return f"{name} has shape {tuple(b.shape)}, ours {tuple(a.shape)}"
        same = (a == b) | (a.isnan() & b.isnan())
        difference = torch.where(same, 0.0, (a - b).abs() / a.abs().clamp(min=1))
        allowed = 0.0 if name in EXACT else TOLERANCE
        worst = difference.max().item() if difference.numel() else 0.0
        if not worst <= allowed:
            return f"{name} differs by {worst:.3g}"
    return None


def triton_logit_stats():
    import triton_logits  # needs Triton, which not every PyTorch brings along

    return triton_logits.logit_stats


def peers_of(operation):
    """[(name, what makes the function)]; making it may fail too, as torch.compile does under a new Python."""
    plain = getattr(eager, operation)
    listed = [("torch eager", lambda: plain), ("torch.compile", lambda: torch.compile(plain, dynamic=False))]
    if operation == "logit_stats":
        listed.append(("plain Triton", triton_logit_stats))
    return listed


def cases(small):
    bf16, f32 = torch.bfloat16, torch.float32
    if small:
        yield "logit_stats", "64x5000", (lambda x: (x, tensors.targets(x)))(tensors.logits(64, 5000, bf16))
        yield "score_stats", "100x64", tensors.scores(100, 64, f32)
        yield "sum_tokens", "4x50x64", tensors.tokens(4, 50, 64, bf16)
        return
    yield "logit_stats", "8192x151936", (lambda x: (x, tensors.targets(x)))(tensors.logits(8192, 151936, bf16))
    yield "score_stats", "65536x4096", tensors.scores(65536, 4096, f32)
    yield "score_stats", "1048576x256", tensors.scores(1048576, 256, f32)
    yield "sum_tokens", "64x2048x4096", tensors.tokens(64, 2048, 4096, bf16)


def our_samples(backend, operation, arguments, count=10):
    samples = []
    for _ in range(count):
        tensors.flush()
        getattr(backend, operation)(*arguments)  # waits for the device
        samples.append(backend.kernel_seconds.value)
    return samples


def run_case(backend, operation, shape, arguments, until):
    """Each peer's time beside ours: medians, ours of samples before and after the peer's."""
    x = arguments[0]
    ours = getattr(backend, operation)(*arguments)
    our_samples(backend, operation, arguments)  # not counted
    for name, make in peers_of(operation):
        line = {"operation": operation, "shape": shape, "dtype": str(x.dtype).removeprefix("torch."), "peer": name}
        line |= {"seconds": None, "ours_seconds": None, "times_faster": None, "problem": None}
        if time.monotonic() > until:
            line["problem"] = "no time was left for it"
        else:
            try:
                call = make()
                line["problem"] = problem_of(ours, call(*arguments), x)
                samples = our_samples(backend, operation, arguments)
                seconds = tensors.seconds(lambda call=call: call(*arguments))
                ours_seconds = statistics.median(samples + our_samples(backend, operation, arguments))
                line |= {"seconds": seconds, "ours_seconds": ours_seconds, "times_faster": seconds / ours_seconds}
            except Exception as error:  # Triton's derive from nothing closer; the other peers are timed all the same
                line["problem"] = ": ".join([type(error).__name__, *str(error).splitlines()[:1]])
        print(json.dumps(line), flush=True)
        torch.cuda.empty_cache()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("backend")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--budget", type=float, default=240.0)
    options = parser.parse_args()
    until = time.monotonic() + options.budget
    backend = Backend(options.backend)
    for operation, shape, arguments in cases(options.small):
        run_case(backend, operation, shape, arguments, until)
        del arguments
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
