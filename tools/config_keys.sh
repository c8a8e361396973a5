#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Correct the states in the table of config keys: a key that the code names is used (U), one that it doesn't isn't (N).
# Keys that are named without having an effect are listed in tests/test_config_keys.c, which checks the same.
set -eu
cd "$(dirname "$0")/.."
table=src/config/keys_table.c
exceptions=$(sed -n '/named_otherwise\[\] = {/,/};/s/^ *"\([a-z_0-9]*\)".*/\1/p' tests/test_config_keys.c)
sed -nE 's/^ *\{"(\w+)", "\w+", ([UN]), .*/\1 \2/p' $table | while read -r key state; do
  grep -qx "$key" <<<"$exceptions" && continue
  is=N
  grep -rqF --include=*.[ch] --exclude=keys_table.c "\"$key\"" src cli && is=U
  [ $is = "$state" ] && continue
  sed -i -E "s/^( *\{\"$key\", \"\w+\", )[UN],/\1$is,/" $table
  echo "$key: $state -> $is"
done
