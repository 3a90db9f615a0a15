"""How long it takes from another process's CUDA IPC handle to results, beyond the kernel's own time.

  python bench/gpu/ipc_round_trip.py BACKEND.so     prints {"case", "wall_seconds", "kernel_seconds", "beyond_seconds", ...}

A child process allocates logits with torch and shares them as a trainer does (UntypedStorage._share_cuda_); this
process opens the handle, computes, closes it, many times over. The results must be those of the child.
"""

import base64
import ctypes as c
import json
import statistics
import subprocess
import sys
import time

from backend import DTYPES, Backend, Logits, LogitStats, i64, ptr, struct

ROWS, COLUMNS = 256, 32768
PRODUCER = f"""
import base64, json, sys, torch
x = torch.randn({ROWS}, {COLUMNS}, device="cuda").bfloat16()
share = x.untyped_storage()._share_cuda_()
_, handle, size, offset, _, _, event, event_needed = share
torch.cuda.synchronize()
expected = torch.logsumexp(x.double(), -1).cpu().tolist()
print(json.dumps({{"handle": base64.b64encode(handle).decode(), "size": size, "offset": offset,
                  "event": base64.b64encode(event).decode() if event_needed else None,
                  "expected": expected}}), flush=True)
sys.stdin.readline()
"""

Import = struct(
    "Import",
    *(("handle_bytes", c.c_uint32), ("handle", ptr), ("offset", i64), ("bytes", i64)),
    *(("event", ptr), ("pointer", ptr), ("base", ptr)),
)


def main():
    import torch

    child = subprocess.Popen([sys.executable, "-c", PRODUCER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    shared = json.loads(child.stdout.readline())
    handle = base64.b64decode(shared["handle"])
    event = base64.b64decode(shared["event"]) if shared["event"] else None
    backend = Backend(sys.argv[1])
    lse = torch.full((ROWS,), -777.0, dtype=torch.float64)
    opens, walls, closes, kernels = [], [], [], []
    for _ in range(60):
        start = time.perf_counter()
        given = Import(
            *(c.sizeof(Import), len(handle), c.cast(c.c_char_p(handle), ptr), shared["offset"], shared["size"]),
            *(c.cast(c.c_char_p(event), ptr) if event else None, None, None),
        )
        backend.call("ipc_import", backend.device, c.byref(given))
        opens.append(time.perf_counter() - start)
        logits = Logits(
            *(c.sizeof(Logits), DTYPES[torch.bfloat16], given.pointer, 1, 0, ROWS, COLUMNS, COLUMNS, 1),
            *(None, None, 1.0, 0, None, None),
        )
        out = LogitStats(c.sizeof(LogitStats), 0, lse.data_ptr(), *([None] * 7))
        backend.call("logit_stats", backend.device, c.byref(logits), c.byref(out), c.byref(backend.control))
        walls.append(time.perf_counter() - start)
        kernels.append(backend.kernel_seconds.value)
        start = time.perf_counter()
        backend.call("ipc_close", backend.device, ptr(given.base))
        closes.append(time.perf_counter() - start)
    child.stdin.write("\n")
    child.stdin.close()
    child.wait()
    worst = (lse - torch.tensor(shared["expected"], dtype=torch.float64)).abs().max().item()
    opening, wall, closing, kernel = (statistics.median(times[10:]) for times in (opens, walls, closes, kernels))
    print(
        json.dumps(
            {
                "case": f"ipc bf16 {ROWS}x{COLUMNS}",
                "open_seconds": opening,
                "wall_seconds": wall,
                "close_seconds": closing,
                "kernel_seconds": kernel,
                "beyond_seconds": wall - kernel,
                "problem": None if worst < 1e-5 else f"results differ from the producer's by {worst:.3g}",
            }
        )
    )


if __name__ == "__main__":
    main()
