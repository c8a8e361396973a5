# SPDX-License-Identifier: Apache-2.0
"""Transformers in PyTorch, the same networks as bench/models/transformer*.json: 6 blocks, 512 / 2048 / 8 heads.

Training: framewise encoder. Search: decoder-only, beam 4, keys and values of past steps in buffers of full size.
Usage: transformer.py train|search RUNS WARM
"""
import sys

import common
import torch
import torch.nn.functional as F
from torch import nn

D, FF, HEADS, BLOCKS = 512, 2048, 8, 6


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.o = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False)
        self.f1, self.f2 = nn.Linear(D, FF), nn.Linear(FF, D)

    def heads(self, x):
        B, T, _ = x.shape
        return self.qkv(self.n1(x)).view(B, T, 3, HEADS, D // HEADS).permute(2, 0, 3, 1, 4)

    def rest(self, x, a):
        x = x + self.o(a.transpose(1, 2).reshape(x.shape))
        return x + self.f2(torch.relu(self.f1(self.n2(x))))

    def forward(self, x):
        q, k, v = self.heads(x)
        return self.rest(x, F.scaled_dot_product_attention(q, k, v))

    def step(self, x, cache, t):
        q, k, v = self.heads(x[:, None])
        cache[0][:, :, t], cache[1][:, :, t] = k.squeeze(2), v.squeeze(2)
        return self.rest(x[:, None], F.scaled_dot_product_attention(q, cache[0][:, :, : t + 1], cache[1][:, :, : t + 1]))[:, 0]


class Encoder(nn.Module):
    def __init__(self, inputs, labels):
        super().__init__()
        self.start, self.blocks = nn.Linear(inputs, D), nn.ModuleList(Block() for _ in range(BLOCKS))
        self.norm, self.softmax = nn.LayerNorm(D), nn.Linear(D, labels)

    def forward(self, x):
        x = self.start(x)
        for b in self.blocks:
            x = b(x)
        return self.softmax(self.norm(x))


class Decoder(nn.Module):
    def __init__(self, labels):
        super().__init__()
        self.embed, self.blocks = nn.Embedding(labels, D), nn.ModuleList(Block() for _ in range(BLOCKS))
        self.norm, self.softmax, self.labels = nn.LayerNorm(D), nn.Linear(D, labels), labels

    def search(self, B, beam, steps):
        n = B * beam
        # two sets of buffers: the histories of the surviving hypotheses move from one to the other
        cache = [[torch.zeros(n, HEADS, steps, D // HEADS) for _ in range(2)] for _ in self.blocks]
        spare = [[torch.zeros_like(x) for x in c] for c in cache]
        label, scores = torch.zeros(n, dtype=torch.long), torch.full((B, beam), float("-inf"))
        scores[:, 0] = 0
        offset = (torch.arange(B) * beam)[:, None]
        history = torch.zeros(n, steps, dtype=torch.long)
        for t in range(steps):
            x = self.embed(label)
            for b, c in zip(self.blocks, cache):
                x = b.step(x, c, t)
            logp = torch.log_softmax(self.softmax(self.norm(x)), -1).view(B, beam, -1)
            scores, best = (scores[:, :, None] + logp).view(B, -1).topk(beam)
            rows, label = (best // self.labels + offset).view(-1), (best % self.labels).view(-1)
            for c, s in zip(cache, spare):
                for x, y in zip(c, s):
                    y[:, :, : t + 1] = x[:, :, : t + 1].index_select(0, rows)
            cache, spare = spare, cache
            history = history[rows]
            history[:, t] = label
        return history


def main():
    mode, runs, warm = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if mode == "train":
        net = Encoder(40, 1000)
        x, y = torch.rand(16, 100, 40) * 2 - 1, torch.randint(1, 1000, (16, 100))
        opt = common.adam(net.parameters())

        def step():
            opt.zero_grad()
            F.cross_entropy(net(x).flatten(0, 1), y.flatten()).backward()
            opt.step()

        common.measure(step, runs, warm)
    else:
        net = Decoder(10000)
        with torch.inference_mode():
            common.measure(lambda: net.search(16, 4, 60), runs, warm)


main()
