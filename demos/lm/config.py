# SPDX-License-Identifier: Apache-2.0
#
# Character language model: an LSTM predicts each character of the King James Bible from those before it.
# demos/lm/run prepares the text and runs this from its output folder; any key can be set on the command line,
# e.g. ++num_epochs 20.

import json
import os

use_tensorflow = True
task = "train"

# ---- data ----


def text(name, **options):
    """Lines of characters; "delayed" is the line moved by one, which the network reads to predict "data"."""
    return dict({
        "class": "LmDataset",
        "corpus_file": "data/%s.txt" % name,
        "orth_symbols_map_file": "data/symbols.txt",
        "word_based": False,
        "seq_end_symbol": "[END]",
        "add_delayed_seq_data": True,
        "delayed_seq_data_start_symbol": "[START]",
    }, **options)


num_symbols = len(json.load(open("data/symbols.txt")))
one_symbol = {"dim": num_symbols, "shape": (None,), "sparse": True, "dtype": "int8"}
extern_data = {"data": dict(one_symbol, available_for_inference=False), "delayed": one_symbol}
target = "data"

parts = 5  # of a pass over the text: an "epoch" of the log is one of them
train = text("train", seq_ordering="random", partition_epoch=parts)
dev = text("dev", seq_ordering="sorted")

batch_size = 6000  # characters, padding included
max_seqs = 24

# ---- network ----

network = {
    "embedding": {"class": "linear", "activation": None, "with_bias": False, "from": "data:delayed", "n_out": 64},
    "lstm": {"class": "rec", "unit": "nativelstm2", "n_out": 320, "direction": 1, "from": "embedding"},
    "output": {"class": "softmax", "from": "lstm", "loss": "ce", "target": "data"},
}

# ---- training ----

num_epochs = parts
optimizer = {"class": "adam"}
learning_rates = [0.004, 0.004, 0.003, 0.002, 0.001]
gradient_clip_global_norm = 5.0
model = "models/lm"
learning_rate_file = "learning_rates"
log_verbosity = 3
calculate_exp_loss = True  # the log gives the perplexity as well

# ---- after training: outputs for held-out text, TASK=forward creturnn forward config.py ----

if os.environ.get("TASK") == "forward":
    eval = text("dev", seq_ordering="default")
    output_file = "held_out.hdf"
    load_epoch = num_epochs
    forward_batch_size = batch_size
