# SPDX-License-Identifier: Apache-2.0
"""Makes the checkpoints types.* and parts.* here with TensorFlow: every type, and partitioned variables in two shards.

python3 make_tf.py [DIRECTORY]     (run once with TensorFlow 2.21; values are known to tests/test_ckpt_read.c)
"""
import os
import sys

import tensorflow as tf

tf1 = tf.compat.v1
directory = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))


def save(name, names, slices, tensors, shard=None):
    prefix = os.path.join(directory, name)
    path = prefix if shard is None else "%s_part%d" % (prefix, shard)
    tf.raw_ops.SaveV2(prefix=path, tensor_names=names, shape_and_slices=slices, tensors=tensors)
    return path


numbers = [0, 1, 2, 3, 4, 5]
types = {t: tf.cast(tf.reshape(tf.constant(numbers), [2, 3]), t)
         for t in ["float32", "float64", "int32", "uint8", "int16", "int8", "int64", "bfloat16", "uint16", "float16",
                   "uint32", "uint64", "bool", "complex64", "complex128"]}
types["string"] = tf.constant(["", "a", "longer text \0 with NUL", "ü"])
types["scalar"] = tf.constant(7, tf.int64)
types["empty"] = tf.zeros([0, 4])
names = sorted(types)
save("types", names, [""] * len(names), [types[n] for n in names])

# m [5,300] in rows 0:2, 2:5 (shard 0, shard 1); c [4,6] in four boxes; v [3] whole; k [2,3,4] along the middle axis
m = tf.reshape(tf.range(1500, dtype=tf.float32), [5, 300])
c = tf.reshape(tf.range(24, dtype=tf.float32), [4, 6])
k = tf.reshape(tf.range(24, dtype=tf.float32), [2, 3, 4])
v = tf.constant([1.5, 2.5, 3.5])
first = save("parts", ["m", "c", "c", "k", "v"],
             ["5 300 0,2:-", "4 6 0,1:0,2", "4 6 0,1:2,4", "2 3 4 -:0,1:-", ""],
             [m[0:2], c[0:1, 0:2], c[0:1, 2:6], k[:, 0:1], v], 0)
second = save("parts", ["m", "c", "c", "k"],
              ["5 300 2,3:-", "4 6 1,3:0,2", "4 6 1,3:2,4", "2 3 4 -:1,2:-"],
              [m[2:5], c[1:4, 0:2], c[1:4, 2:6], k[:, 1:3]], 1)
tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=[first, second],
                              destination_prefix=os.path.join(directory, "parts"), delete_old_dirs=False)

# enough variables for an index of several blocks
if len(sys.argv) > 1:
    many = ["layer%05d/rec/%s" % (i, n) for i in range(4000) for n in ("W", "W_re", "b")]
    save("many", many, [""] * len(many), [tf.constant(float(i)) for i in range(len(many))])
