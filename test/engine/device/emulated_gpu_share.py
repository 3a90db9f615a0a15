"""Runs examples/gpu/trainer.py without a GPU: tensors stay in host memory, and what PyTorch would say of where they are
on a GPU is said of a shared file that the emulated GPU (native/test/cuda_emulation) can open."""

import ctypes
import os
import runpy
import struct
import sys

import torch

HEADER = 512  # something before the storage, as PyTorch's allocator has it
files = []


def share(storage):
    file = os.memfd_create("emulated-gpu-share")
    files.append(file)
    os.pwrite(file, ctypes.string_at(storage.data_ptr(), storage.nbytes()), HEADER)
    # struct Handle of the emulation, after PyTorch's version and kind.
    handle = struct.pack("8sii", b"emulate", os.getpid(), file)
    return 0, b"\x03c" + handle.ljust(64, b"\0"), storage.nbytes(), HEADER, b"/torch_0_0_0", 0, bytes(64), False


torch.UntypedStorage._share_cuda_ = share
script = sys.argv[1]
sys.argv = sys.argv[1:]
runpy.run_path(script, run_name="__main__")
