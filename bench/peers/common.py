# SPDX-License-Identifier: Apache-2.0
"""What the PyTorch peers share: one thread, process CPU clock, one line "ms X" per run (as the bench programs print)."""
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
import time

import torch

torch.set_num_threads(1)
torch.manual_seed(1)


def measure(fn, runs, warm=1):
    for i in range(-warm, runs):
        start = time.process_time()
        fn()
        if i >= 0:
            print("ms %.3f" % (1e3 * (time.process_time() - start)), flush=True)


def adam(params):
    """The fastest Adam that PyTorch has on a CPU."""
    return torch.optim.Adam(params, lr=1e-4, fused=True)


def ragged_lengths(longest, batch):
    """The lengths that bench_model draws: evenly from a fifth of the longest to the longest."""
    return torch.tensor([longest // 5 + (longest - longest // 5) * b // max(batch - 1, 1) for b in range(batch)])


def mask_of(lengths, longest):
    return torch.arange(longest)[None, :] < lengths[:, None]
