#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Shows that TensorFlow reads the checkpoints that we write, and that rewriting TensorFlow's checkpoints gives the same
# bytes. Makes a virtual environment with tensorflow-cpu (once; VENV, default BUILD/tf-venv). `ninja -C build check-tf`
# builds the program and calls this.
#
#   tools/check_tf.sh [BUILD]      BUILD: build folder with the program check_tf_rewrite, default build
set -e
root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build}
venv=${VENV:-$build/tf-venv}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -c 'import tensorflow' 2>/dev/null; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q tensorflow-cpu
fi
TF_CPP_MIN_LOG_LEVEL=3 CUDA_VISIBLE_DEVICES= \
  "$venv/bin/python" "$root/tools/check_tf.py" "$work" "$build/check_tf_rewrite"
