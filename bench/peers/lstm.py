# SPDX-License-Identifier: Apache-2.0
"""LSTM layers in PyTorch. Usage: lstm.py 1x512x16|1x512x32|6x500x16 forward|training full|padded|packed RUNS"""
import sys

import common
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

name, mode, layout, runs = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
layers, size, batch = map(int, name.split("x"))
both = layers > 1
n_in, T = (40 if both else size), 100
net = torch.nn.LSTM(n_in, size, num_layers=layers, bidirectional=both)
x = torch.rand(T, batch, n_in) * 2 - 1
lengths = torch.tensor([T - (T * 4 // 5) * b // (batch - 1) for b in range(batch)])
opt = torch.optim.SGD(net.parameters(), lr=1e-9, foreach=True)


def forward():
    if layout == "packed":
        return pad_packed_sequence(net(pack_padded_sequence(x, lengths))[0])[0]
    return net(x)[0]


def training():
    opt.zero_grad()
    forward().sum().backward()
    opt.step()


if mode == "forward":
    with torch.inference_mode():
        common.measure(forward, runs)
else:
    common.measure(training, runs)
