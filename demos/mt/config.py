# SPDX-License-Identifier: Apache-2.0
#
# Translation of names from English to French, by characters: a bidirectional LSTM reads the source, and an LSTM with
# MLP attention (and attention feedback: each position remembers how much it was looked at) writes the target.
# demos/mt/run prepares the texts and runs this from its output folder; any key can be set on the command line,
# e.g. ++num_epochs 40.

import pickle

use_tensorflow = True
task = "train"

# ---- data ----

END = "</s>"  # label 0 of both vocabularies


def texts(name, **options):
    """Lines source.NAME and target.NAME of the folder data, each with an end label."""
    return dict({
        "class": "TranslationDataset",
        "path": "data",
        "file_postfix": name,
        "source_postfix": " " + END,
        "target_postfix": " " + END,
    }, **options)


def vocabulary_size(side):
    with open("data/%s.vocab.pkl" % side, "rb") as f:
        return len(pickle.load(f))


extern_data = {
    "data": {"dim": vocabulary_size("source"), "shape": (None,), "sparse": True, "dtype": "int32"},
    "classes": {"dim": vocabulary_size("target"), "shape": (None,), "sparse": True, "dtype": "int32",
                "available_for_inference": False},
}
target = "classes"

train = texts("train", seq_ordering="laplace:.400")
dev = texts("dev", seq_ordering="sorted")
search_data = texts("test")

batch_size = 1600  # characters, padding included
max_seqs = 64

# ---- network ----


def encoder_layer(source, direction, size):
    return {"class": "rec", "unit": "nativelstm2", "n_out": size, "direction": direction, "from": source}


# One step of the decoder. It uses the character before and the place looked at before to update its state s, looks for
# the place of the source that fits s, and chooses the next character from both.
decoder = {
    # the character written, and its embedding for the next step
    "output": {"class": "choice", "target": target, "beam_size": 8, "from": "output_prob", "initial_output": 0},
    "end": {"class": "compare", "from": "output", "value": 0},
    "embedding": {"class": "linear", "activation": None, "with_bias": False, "from": "output", "n_out": 48,
                  "initial_output": 0},
    "s": {"class": "rnn_cell", "unit": "LSTMBlock", "from": ["prev:embedding", "prev:context"], "n_out": 192},
    # where to look
    "query": {"class": "linear", "activation": None, "with_bias": False, "from": "s", "n_out": 128},
    "feedback": {"class": "linear", "activation": None, "with_bias": False, "from": "prev:looked_at", "n_out": 128},
    "energy_in": {"class": "combine", "kind": "add", "from": ["base:keys", "query", "feedback"], "n_out": 128},
    "energy_tanh": {"class": "activation", "activation": "tanh", "from": "energy_in"},
    "energy": {"class": "linear", "activation": None, "with_bias": False, "from": "energy_tanh", "n_out": 1},
    "weights": {"class": "softmax_over_spatial", "from": "energy"},
    "looked_at": {"class": "eval", "from": ["prev:looked_at", "weights"], "eval": "source(0) + source(1)",
                  "out_type": {"dim": 1, "shape": (None, 1)}},
    "context": {"class": "generic_attention", "weights": "weights", "base": "base:encoder"},
    # what to write
    "readout_in": {"class": "linear", "activation": None, "from": ["s", "prev:embedding", "context"], "n_out": 192},
    "readout": {"class": "reduce_out", "mode": "max", "num_pieces": 2, "from": "readout_in"},
    "output_prob": {"class": "softmax", "from": "readout", "dropout": 0.2, "target": target,
                    "loss": "ce", "loss_opts": {"label_smoothing": 0.1}},
    # for the plots
    "look": {"class": "squeeze", "axis": "f", "from": "weights", "is_output_layer": True},
}

network = {
    "source": {"class": "linear", "activation": None, "with_bias": False, "from": "data", "n_out": 48},
    "forward": encoder_layer("source", 1, 128),
    "backward": encoder_layer("source", -1, 128),
    "encoder": {"class": "copy", "from": ["forward", "backward"], "dropout": 0.2},
    "keys": {"class": "linear", "activation": None, "from": "encoder", "n_out": 128},
    "output": {"class": "rec", "from": [], "unit": decoder, "target": target,
               "max_seq_len": "max_len_from('base:encoder') * 2"},
    "decision": {"class": "decide", "from": "output", "loss": "edit_distance", "target": target,
                 "only_on_search": True},
    "attention": {"class": "decide", "from": "output/look", "only_on_search": True, "is_output_layer": True},
}

# ---- training ----

num_epochs = 16
optimizer = {"class": "adam"}
learning_rates = [0.003] * 8 + [0.002] * 4 + [0.001] * 2 + [0.0005] * 2
gradient_clip_global_norm = 5.0
model = "models/mt"
learning_rate_file = "learning_rates"
save_interval = 4
log_verbosity = 3

# ---- after training: creturnn search: translations of the held-out names, and where the decoder looked ----

search_output_layer = ["attention", "decision"]
search_output_file = "translations.py"
search_output_file_format = "py"
