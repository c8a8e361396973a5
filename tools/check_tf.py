# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's half of tools/check_tf.  check_tf.py WORK_DIRECTORY REWRITE_PROGRAM"""
import os
import subprocess
import sys

import numpy as np
import tensorflow as tf

work, rewrite = sys.argv[1:]
rng = np.random.RandomState(1)
print("TensorFlow", tf.__version__)


def save(prefix, values):
    names = sorted(values, key=lambda n: n.encode())
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names),
                      tensors=[tf.constant(values[n]) for n in names])


def same_bytes(a, b):
    for suffix in (".index", ".data-00000-of-00001"):
        if open(a + suffix, "rb").read() != open(b + suffix, "rb").read():
            return False
    return True


cases = {
    "lstm": {"fw0/rec/W": rng.randn(9, 40).astype("f"), "fw0/rec/W_re": rng.randn(10, 40).astype("f"),
             "fw0/rec/b": rng.randn(40).astype("f"), "global_step": np.int64(1234)},
    "types": {t: rng.randint(0, 100, (2, 3, 4)).astype(t)
              for t in ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
                        "uint64", "complex64", "complex128", "bool")},
    "odd": {"empty": np.zeros((0, 4), "f"), "scalar": np.float32(1), "a\xff\xfeb": np.float32(2),
            "a" * 300: np.float32(3), "a" * 299 + "b": np.float32(4)},
    "many": {"layer%05d/rec/%s" % (i, n): np.float32(i) for i in range(5000) for n in ("W", "W_re", "b")},
    "large": {"W%d" % i: rng.randn(1000, 1000).astype("f") for i in range(4)},
}
failed = 0
for name, values in cases.items():
    theirs, ours = os.path.join(work, name), os.path.join(work, "ours", name)
    save(theirs, values)
    for again in range(2):  # the second time over itself
        subprocess.check_call([rewrite, theirs, ours])
    ok = same_bytes(theirs, ours)
    reader = tf.train.load_checkpoint(ours)
    shapes = reader.get_variable_to_shape_map()
    ok_values = set(shapes) == set(values) and all(
        np.array_equal(reader.get_tensor(n), v) and reader.get_tensor(n).dtype == v.dtype for n, v in values.items())
    latest = tf.train.latest_checkpoint(os.path.join(work, "ours"))
    ok_latest = latest == ours
    print("%-6s %5d variables: same bytes as TensorFlow's: %s; TensorFlow reads ours: %s; latest_checkpoint: %s" %
          (name, len(values), ok, ok_values, ok_latest))
    failed += not (ok and ok_values and ok_latest)
sys.exit(1 if failed else 0)
