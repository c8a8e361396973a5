# SPDX-License-Identifier: Apache-2.0
#
# The 1-2-AX task: after the last "1" the sequence A X is a hit, after the last "2" it is B Y. The network must remember
# one symbol over other ones: easy for an LSTM, impossible without memory. The data set makes its sequences itself.

use_tensorflow = True
task = "train"

train = {"class": "Task12AXDataset", "num_seqs": 1000}
dev = {"class": "Task12AXDataset", "num_seqs": 100, "fixed_random_seed": 1}
extern_data = {
    "data": {"dim": 9, "shape": (None, 9)},
    "classes": {"dim": 2, "shape": (None,), "sparse": True, "dtype": "int32"},
}
target = "classes"
batch_size = 5000
max_seqs = 10

network = {
    "fw": {"class": "rec", "unit": "nativelstm2", "n_out": 10, "direction": 1, "from": "data"},
    "output": {"class": "softmax", "loss": "ce", "from": "fw", "target": "classes"},
}

num_epochs = 8
optimizer = {"class": "adam"}
learning_rate = 0.02
model = "models/12ax"
learning_rate_file = "learning_rates"
log_verbosity = 3
