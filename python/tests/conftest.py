"""What tests share; those that need what is not here are skipped by name."""

from __future__ import annotations

import os

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("WANDB_DISABLED", "true")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
# Addresses of pages have no token, whoever else uses this machine.
os.environ.setdefault("COLLAPSAR_TOKEN", "")


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(1)
