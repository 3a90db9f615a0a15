"""Runs examples/gpu/trainer.py without a GPU: tensors stay in host memory, and what PyTorch would say of where they are
on a GPU is said of a shared file that the fake CUDA backend (native/test/fake_cuda) can open."""

import ctypes
import os
import runpy
import struct
import sys

import torch

HEADER = 512  # something before the storage, as PyTorch's allocator has it
files = []


def share(storage):
    file = os.memfd_create("fake-cuda-share")
    files.append(file)
    os.pwrite(file, ctypes.string_at(storage.data_ptr(), storage.nbytes()), HEADER)
    # struct Handle of the fake backend, after PyTorch's version and kind.
    handle = struct.pack("16sqqq", b"collapsar fake", os.getpid(), file, HEADER + storage.nbytes())
    return 0, b"\x03c" + handle.ljust(64, b"\0"), storage.nbytes(), HEADER, b"/torch_0_0_0", 0, bytes(64), False


torch.UntypedStorage._share_cuda_ = share
script = sys.argv[1]
sys.argv = sys.argv[1:]
runpy.run_path(script, run_name="__main__")
