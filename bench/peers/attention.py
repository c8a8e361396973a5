# SPDX-License-Identifier: Apache-2.0
"""Attention encoder-decoders in PyTorch, the same networks as bench/models/attention_*.json.

What doesn't depend on the loop is computed outside of it (keys of the encoder, embeddings, the readout and softmax in
training); search keeps its states between steps and all hypotheses of a batch in one tensor.
Usage: attention.py published|decoder|small|endtoend train|search|attention padded|packed|full RUNS WARM BEAM
"""
import sys

import common
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

MODELS = {  # pools: after which encoder layer; key, state, embedding, readout, labels; batch, frames, labels per sequence
    "published": dict(inputs=40, enc=1024, pools=[3, 2, 1, 1, 1, 1], key=1024, state=1000, emb=620, out=1000, labels=10000, B=16, T=798, U=60),
    "decoder": dict(inputs=2048, enc=1024, pools=[], key=1024, state=1000, emb=620, out=1000, labels=10000, B=16, T=133, U=60),
    "small": dict(inputs=40, enc=256, pools=[1], key=512, state=512, emb=128, out=512, labels=1000, B=8, T=100, U=50),
    "endtoend": dict(inputs=10, enc=24, pools=[1], key=32, state=32, emb=16, out=32, labels=12, B=20, T=23, U=7),
}


class Model(nn.Module):
    def __init__(self, m, feedback):
        super().__init__()
        self.m, self.feedback, n = m, feedback, m["inputs"]
        self.lstms = nn.ModuleList()
        for _ in m["pools"]:
            self.lstms.append(nn.LSTM(n, m["enc"], bidirectional=True, batch_first=True))
            n = 2 * m["enc"]
        self.n_enc = n
        self.enc_ctx = nn.Linear(n, m["key"])
        self.embed = nn.Embedding(m["labels"], m["emb"])
        self.query = nn.Linear(m["state"], m["key"], bias=False)
        self.v = nn.Linear(m["key"], 1, bias=False)
        self.cell = nn.LSTMCell(m["emb"] + n, m["state"])
        self.readout = nn.Linear(m["state"] + m["emb"] + n, m["out"])
        self.softmax = nn.Linear(m["out"] // 2, m["labels"])
        if feedback:
            self.fertility = nn.Linear(n, 1, bias=False)
            self.weight_feedback = nn.Linear(1, m["key"], bias=False)
            self.ctc = nn.Linear(n, m["labels"] + 1)

    def encode(self, x, lengths, layout):
        for lstm, pool in zip(self.lstms, self.m["pools"]):
            if layout == "packed":
                packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
                x = pad_packed_sequence(lstm(packed)[0], batch_first=True)[0]
            else:
                x = lstm(x)[0]
            if pool > 1:
                x = F.max_pool1d(x.transpose(1, 2), pool, ceil_mode=True).transpose(1, 2)
        return x.contiguous()

    def attend(self, ctx, enc, s, mask, feedback=None):
        """ctx [B, T, K], enc [B, T, D], s [B, beam, state] to weights [B, beam, T] and context [B, beam, D]."""
        energy_in = ctx[:, None] + self.query(s)[:, :, None]
        if feedback is not None:
            energy_in = energy_in + self.weight_feedback(feedback[..., None])
        energy = self.v(torch.tanh(energy_in)).squeeze(-1)
        if mask is not None:
            energy = energy.masked_fill(~mask[:, None], float("-inf"))
        weights = torch.softmax(energy, -1)
        return weights, torch.bmm(weights, enc)

    def read(self, s, emb, att):
        z = self.readout(torch.cat([s, emb, att], -1))
        return self.softmax(z.view(*z.shape[:-1], -1, 2).amax(-1))

    def train_loss(self, x, lengths, labels, label_lengths, layout):
        B, U = labels.shape
        ragged = layout != "full"
        enc = self.encode(x, lengths, layout)
        ctx = self.enc_ctx(enc)
        mask = common.mask_of(lengths, enc.shape[1]) if ragged else None
        emb = self.embed(F.pad(labels[:, :-1], (1, 0)))  # previous labels
        h, c = x.new_zeros(B, self.m["state"]), x.new_zeros(B, self.m["state"])
        att, fb = x.new_zeros(B, self.n_enc), (x.new_zeros(B, 1, enc.shape[1]) if self.feedback else None)
        fertility = torch.sigmoid(self.fertility(enc)).transpose(1, 2) * 0.5 if self.feedback else None
        hs, atts = [], []
        for u in range(U):
            h, c = self.cell(torch.cat([emb[:, u], att], -1), (h, c))
            weights, att = self.attend(ctx, enc, h[:, None], mask, fb)
            if fb is not None:
                fb = fb + weights * fertility
            att = att.squeeze(1)
            hs.append(h)
            atts.append(att)
        logits = self.read(torch.stack(hs, 1), emb, torch.stack(atts, 1))
        smoothing = 0.1 if self.feedback else 0.0
        target = labels.masked_fill(~common.mask_of(label_lengths, U), -100) if ragged else labels
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), label_smoothing=smoothing, ignore_index=-100)
        if self.feedback:
            logp = F.log_softmax(self.ctc(enc), -1).transpose(0, 1)
            loss = loss + 0.3 * F.ctc_loss(logp, labels, lengths, label_lengths, blank=self.m["labels"], zero_infinity=True)
        return loss

    def search(self, x, lengths, layout, beam, steps):
        """Every hypothesis runs all the steps, as in the networks of bench/models, whose end label never comes."""
        B, V = x.shape[0], self.m["labels"]
        enc = self.encode(x, lengths, layout)
        ctx = self.enc_ctx(enc)
        mask = common.mask_of(lengths, enc.shape[1]) if layout != "full" else None
        n = B * beam
        h, c = x.new_zeros(n, self.m["state"]), x.new_zeros(n, self.m["state"])
        att, emb = x.new_zeros(n, self.n_enc), self.embed(torch.zeros(n, dtype=torch.long))
        fb = x.new_zeros(B, beam, enc.shape[1]) if self.feedback else None
        fertility = torch.sigmoid(self.fertility(enc)).transpose(1, 2) * 0.5 if self.feedback else None
        scores = torch.full((B, beam), float("-inf"))
        scores[:, 0] = 0
        offset = (torch.arange(B) * beam)[:, None]
        chosen, parents = [], []
        for _ in range(steps):
            h, c = self.cell(torch.cat([emb, att], -1), (h, c))
            weights, att = self.attend(ctx, enc, h.view(B, beam, -1), mask, fb)
            if fb is not None:
                fb = fb + weights * fertility
            att = att.reshape(n, -1)
            logp = torch.log_softmax(self.read(h, emb, att), -1).view(B, beam, V)
            scores, best = (scores[:, :, None] + logp).view(B, beam * V).topk(beam)
            parent, label = best // V, best % V
            rows = (parent + offset).view(-1)
            h, c, att = h[rows], c[rows], att[rows]
            if fb is not None:
                fb = fb.view(n, -1)[rows].view(B, beam, -1)
            emb = self.embed(label.view(-1))
            chosen.append(label)
            parents.append(parent)
        index, result = torch.zeros(B, 1, dtype=torch.long), []
        for label, parent in zip(reversed(chosen), reversed(parents)):
            result.append(label.gather(1, index))
            index = parent.gather(1, index)
        return torch.cat(result[::-1], 1)


def main():
    name, mode, layout = sys.argv[1:4]
    runs, warm, beam = map(int, sys.argv[4:7])
    m = MODELS[name]
    model = Model(m, name == "endtoend")
    x = torch.rand(m["B"], m["T"], m["inputs"]) * 2 - 1
    labels = torch.randint(1, m["labels"], (m["B"], m["U"]))
    lengths = torch.full((m["B"],), m["T"]) if layout == "full" else common.ragged_lengths(m["T"], m["B"])
    label_lengths = torch.full((m["B"],), m["U"]) if layout == "full" else common.ragged_lengths(m["U"], m["B"])
    if mode == "train":
        opt = common.adam(model.parameters())

        def step():
            opt.zero_grad()
            model.train_loss(x, lengths, labels, label_lengths, layout).backward()
            if name == "endtoend":
                nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()

        common.measure(step, runs, warm)
        return
    with torch.inference_mode():
        if mode == "search":
            steps = m["T"] if name == "endtoend" else m["U"]
            common.measure(lambda: model.search(x, lengths, layout, beam, steps), runs, warm)
        else:  # the attention part of one decoder step
            ctx, s = model.enc_ctx(x), torch.rand(m["B"], beam, m["state"])
            common.measure(lambda: model.attend(ctx, x, s, None), runs, warm)


main()
