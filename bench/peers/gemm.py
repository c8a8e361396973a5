# SPDX-License-Identifier: Apache-2.0
"""Matrix products of the libraries that come with PyTorch and NumPy: MKL and oneDNN, OpenBLAS.

Usage: gemm.py SHAPE…, as bench_gemm names them. Prints "SHAPE|LIBRARY|GFLOP/s", the best of several runs by the process
CPU clock less the time of a call from Python that computes next to nothing. Where weights are packed for bench_gemm they
are for the libraries too, if they can.
"""
import re
import sys
import time

import numpy as np
import torch

torch.set_num_threads(1)
RUNS, WORK = 7, 2e8


def best_seconds(call, flops):
    inner, best = int(WORK / flops) + 1, float("inf")
    for _ in range(RUNS):
        start = time.process_time()
        for _ in range(inner):
            call()
        best = min(best, (time.process_time() - start) / inner)
    return best


def calls(M, K, N, layout, packed):
    """By library a call that computes [M, K]·[K, N]; layout: TN or NT where that operand is stored transposed."""
    a = torch.randn(K, M).t() if layout == "TN" else torch.randn(M, K)
    b = torch.randn(N, K).t() if layout == "NT" else torch.randn(K, N)
    c, rows = torch.empty(M, N), b.t().contiguous()
    na, nb, nc = a.numpy(), b.numpy(), c.numpy()
    yield "MKL", lambda: torch.mm(a, b, out=c)
    yield "OpenBLAS", lambda: np.dot(na, nb, out=nc)
    if packed:
        mkl = torch.ops.mkl._mkl_reorder_linear_weight(rows, M)
        dnn = torch.ops.mkldnn._reorder_linear_weight(rows, M)
        yield "MKL packed", lambda: torch.ops.mkl._mkl_linear(a, mkl, rows, None, M)
        yield "oneDNN packed", lambda: torch.ops.mkldnn._linear_pointwise(a, dnn, None, "none", [], "")
    elif layout == "NT":
        yield "oneDNN", lambda: torch.ops.mkldnn._linear_pointwise(a, rows, None, "none", [], "")


with torch.inference_mode():
    empty = {library: best_seconds(call, 2e4) for library, call in calls(1, 1, 1, "NT", False)}
    empty.update((library, best_seconds(call, 2e4)) for library, call in calls(1, 1, 1, "", True))
    for shape in sys.argv[1:]:
        M, K, N = map(int, re.search(r"(\d+)x(\d+)x(\d+)", shape).groups())
        layout = re.search(r"\b(TN|NT)\b|$", shape).group()
        packed = "plain" not in shape and layout != "TN" and K * N >= 2**16  # as in bench_gemm
        for library, call in calls(M, K, N, layout, packed):
            seconds = best_seconds(call, 2.0 * M * K * N) - empty[library]
            print(f"{shape}|{library}|{2e-9 * M * K * N / seconds:.1f}", flush=True)
