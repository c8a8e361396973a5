/* SPDX-License-Identifier: Apache-2.0
 *
 * Configs in Python: values of every kind, modules that aren't there, functions, errors, options, threads.
 * Where there is no CPython library the tests are skipped.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "config/python_host.h"

static char folder[64];

static int start(void **state) {
  (void)state;
  crn_err err = {0};
  snprintf(folder, sizeof folder, "/tmp/crn_python_XXXXXX");
  if (!mkdtemp(folder)) return 1;
  setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
  if (crn_py_start(&err) != CRN_OK) {
    printf("skipped: %s\n", crn_err_text(&err));
    crn_err_clear(&err);
    exit(77);
  }
  return 0;
}

static int finish(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  return system(command);
}

static const char *write_file(const char *name, const char *text) {
  static char path[160];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
  return path;
}

static crn_config *load(const char *text) {
  crn_err err = {0};
  crn_config *c;
  if (crn_config_load(write_file("test.config", text), NULL, &c, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
  return c;
}

static void expect_repr(const crn_config *c, const char *key, const char *expected) {
  crn_str s = {0};
  crn_v_repr(crn_config_get(c, key), &s, 0);
  assert_string_equal(crn_str_get(&s), expected);
  crn_str_free(&s);
}

static void expect_failure(const char *text, const char *expected) {
  crn_err err = {0};
  crn_config *c;
  assert_int_equal(crn_config_load(write_file("test.config", text), NULL, &c, &err), CRN_E_CONFIG);
  assert_null(c);
  char whole[400];
  snprintf(whole, sizeof whole, "%s/test.config%s", folder, expected);
  assert_string_equal(crn_err_text(&err), whole);
  crn_err_clear(&err);
}

static void test_values(void **state) {
  (void)state;
  crn_config *c = load("#!rnn.py\n"
                       "import os\n"
                       "_n = None\nb = True\ni = -7\nbig = 10 ** 30\nf = 1e-3\ninf = float('inf')\n"
                       "s = 'a\\'b\\u20ac'\nl = [1, [2]]\nt = (None, 3)\none = (1,)\nst = {3, 1, 2}\n"
                       "d = {'x': 1, 2: 'y', (1, 2): 3}\nr = range(3)\nr2 = list(range(4))\nby = b'ab'\n"
                       "dk = d.keys()\nfar = range(10**9)\nhere = os.path.basename(__file__)\n");
  expect_repr(c, "_n", "None");
  expect_repr(c, "b", "True");
  expect_repr(c, "i", "-7");
  expect_repr(c, "big", "1e+30");
  expect_repr(c, "f", "0.001");
  expect_repr(c, "inf", "inf");
  expect_repr(c, "l", "[1, [2]]");
  expect_repr(c, "t", "(None, 3)");
  expect_repr(c, "one", "(1,)");
  expect_repr(c, "st", "{1, 2, 3}");
  expect_repr(c, "d", "{'x': 1, 2: 'y', (1, 2): 3}");
  expect_repr(c, "r", "[0, 1, 2]");
  expect_repr(c, "dk", "['x', 2, (1, 2)]");
  assert_int_equal(crn_config_get(c, "far")->kind, CRN_V_OBJECT); /* not written out */
  expect_repr(c, "here", "'test.config'");
  assert_string_equal(crn_v_cstr(crn_config_get(c, "s")), "a'b\xe2\x82\xac");
  assert_null(crn_config_get(c, "os"));
  assert_null(crn_config_get(c, "__file__"));
  crn_config_free(c);
}

static void test_arrays(void **state) {
  (void)state;
  crn_config *c = load("import array\na = array.array('i', [3, 4])\n");
  const crn_value *v = crn_config_get(c, "a");
  assert_int_equal(v->kind, CRN_V_ARRAY);
  assert_int_equal(v->u.array.rank, 1);
  assert_int_equal(v->u.array.shape[0], 2);
  assert_true(v->u.array.data[1] == 4);
  crn_config_free(c);
}

/* Something with numpy's interface, as the library itself needn't be there. */
static void test_numpy_likes(void **state) {
  (void)state;
  crn_config *c = load("import array\n"
                       "class DType:\n  kind = 'f'\n  def __str__(self): return 'float32'\n"
                       "class Array:\n  dtype = DType()\n  shape = (2, 1)\n  def tolist(self): return [[1.5], [2.5]]\n"
                       "  def astype(self, t): return array.array('d', [1.5, 2.5])\n"
                       "class Scalar(Array):\n  shape = ()\n  def tolist(self): return 0.25\n"
                       "x = Array()\ny = Scalar()\n");
  const crn_value *v = crn_config_get(c, "x");
  assert_int_equal(v->kind, CRN_V_ARRAY);
  assert_string_equal(v->u.array.dtype, "float32");
  assert_int_equal(v->u.array.rank, 2);
  assert_int_equal(v->u.array.shape[0], 2);
  assert_true(v->u.array.data[1] == 2.5);
  expect_repr(c, "y", "0.25");
  crn_config_free(c);
}

static void test_missing_modules(void **state) {
  (void)state;
  crn_config *c = load("import tensorflow as tf\n"
                       "from tensorflow.python.ops import array_ops\n"
                       "from returnn.tf.layers.base import LayerBase, register_layer_class\n"
                       "from no_such_module_at_all.sub import thing\n"
                       "from returnn.util.basic import get_login_username\nuser = get_login_username()\n"
                       "from Log import log\nprint('dropped', file=log.v3)\npath = '/a/' + tf.b\n"
                       "import copy, pickle\n" /* library modules that try others still find them missing */
                       "try:\n  import json.no_such\n  wrong = 1\nexcept ImportError:\n  pass\n"
                       "@register_layer_class\nclass Mine(LayerBase):\n  layer_class = 'mine'\n"
                       "def transform(x):\n  return tf.nn.relu(x) + 1\n"
                       "x = tf.constant(3) * 2\n"
                       "t = isinstance(3, tf.Tensor)\n"
                       "with tf.name_scope('a'):\n  n = 3\n"
                       "version = tf.__version__\n"
                       "cls = Mine\nnetwork = {'a': {'class': 'eval', 'eval': transform}}\n");
  assert_int_equal(crn_config_get(c, "x")->kind, CRN_V_OBJECT);
  expect_repr(c, "t", "False");
  assert_true(crn_v_is_str(crn_config_get(c, "user")));
  assert_int_equal(crn_config_get(c, "path")->kind, CRN_V_OBJECT);
  expect_repr(c, "n", "3");
  assert_null(crn_config_get(c, "wrong"));
  assert_int_equal(crn_config_get(c, "thing")->kind, CRN_V_OBJECT);
  assert_string_equal(crn_config_get(c, "thing")->u.obj.name, "no_such_module_at_all.sub.thing");
  const crn_value *f = crn_v_get(crn_v_get(crn_config_get(c, "network"), "a"), "eval");
  assert_int_equal(f->kind, CRN_V_CALLABLE);
  assert_string_equal(f->u.obj.name, "transform");
  assert_non_null(f->u.obj.host);
  assert_string_equal(crn_config_get(c, "cls")->u.obj.name, "Mine");
  crn_config_free(c);
}

static void collect(void *user, int level, const char *text) { crn_str_addf(user, "%d %s\n", level, text); }

static void test_modules_of_the_config(void **state) {
  (void)state;
  crn_err err = {0};
  crn_config *c;
  crn_str text = {0};
  crn_log log = {collect, &text, 5};
  write_file("crn_test_helper.py", "import other_missing\nvalue = 5\n");
  const char *path = write_file("m.py", "from crn_test_helper import value\nimport missing_too\nbatch_size = value\n");
  assert_int_equal(crn_config_load(path, &log, &c, &err), CRN_OK);
  expect_repr(c, "batch_size", "5");
  assert_non_null(strstr(crn_str_get(&text), "the modules missing_too, other_missing:"));
  crn_str_free(&text);
  crn_config_free(c);
}

static void test_dims(void **state) {
  (void)state;
  crn_config *c = load("from returnn.tensor import Dim, batch_dim\n"
                       "from returnn.tf.util.data import DimensionTag, SpatialDim, FeatureDim\n"
                       "time = SpatialDim('time')\nfeat = FeatureDim('feat', 40)\n"
                       "old = DimensionTag(kind=DimensionTag.Types.Spatial, description='old', dimension=None)\n"
                       "new = Dim(7, name='new', kind=Dim.Types.Feature)\n"
                       "same = [time, time, SpatialDim('time')]\n"
                       "double = [feat * 2, feat * 2, 3 + feat, feat // 3]\nbatch = batch_dim\n");
  const crn_value *v = crn_config_get(c, "time");
  assert_int_equal(v->kind, CRN_V_DIM);
  assert_string_equal(v->u.dim.name, "time");
  assert_string_equal(v->u.dim.kind, "spatial");
  assert_int_equal(v->u.dim.size, -1);
  assert_int_equal(crn_config_get(c, "feat")->u.dim.size, 40);
  assert_string_equal(crn_config_get(c, "old")->u.dim.name, "old");
  assert_string_equal(crn_config_get(c, "old")->u.dim.kind, "spatial");
  assert_int_equal(crn_config_get(c, "new")->u.dim.size, 7);
  assert_string_equal(crn_config_get(c, "batch")->u.dim.kind, "batch");
  const crn_value *same = crn_config_get(c, "same"), *twice = crn_config_get(c, "double");
  assert_string_equal(crn_v_at(same, 0)->u.dim.id, crn_v_at(same, 1)->u.dim.id);
  assert_string_not_equal(crn_v_at(same, 0)->u.dim.id, crn_v_at(same, 2)->u.dim.id);
  assert_int_equal(crn_v_at(twice, 0)->u.dim.size, 80);
  assert_string_equal(crn_v_at(twice, 0)->u.dim.id, crn_v_at(twice, 1)->u.dim.id);
  assert_int_equal(crn_v_at(twice, 2)->u.dim.size, 43);
  assert_int_equal(crn_v_at(twice, 3)->u.dim.size, 13);
  crn_config_free(c);
}

static void test_exceptions(void **state) {
  (void)state;
  expect_failure("a = 1\nb = c + 1\n", ":2: NameError: name 'c' is not defined");
  expect_failure("a = 1\nb = = 2\n", ":2: SyntaxError: invalid syntax");
  expect_failure("import sys\nif 1:\n  sys.exit(3)\n", ":3: the config called sys.exit(3)");
  expect_failure("raise KeyboardInterrupt\n", ":1: KeyboardInterrupt");
  expect_failure("def f():\n  raise ValueError('several\\nlines')\n\nx = f()\n", ":2: ValueError: several lines");
  expect_failure("x = []\nx.append(x)\n",
                 ": key 'x': nested deeper than 200 levels (a list or dict that contains itself?)");
  char expected[200];
  snprintf(expected, sizeof expected, ":1: in %s/crn_bad_helper.py:2: ZeroDivisionError: division by zero", folder);
  write_file("crn_bad_helper.py", "a = 1\nb = 1 / 0\n");
  expect_failure("import crn_bad_helper\n", expected);
}

static void test_calls(void **state) {
  (void)state;
  crn_config *c = load("from returnn.tf.pretrain import WrapEpochValue\nfrom returnn.config import get_global_config\n"
                       "batch_size = 5\n"
                       "def get_network(epoch, **kwargs):\n  return {'n': epoch * 2, 'f': get_network, 'k': kwargs}\n"
                       "def keep(x):\n  return x\n"
                       "def size():\n  return batch_size, get_global_config().int('batch_size', 1)\n"
                       "def bad():\n  raise KeyError('no')\n"
                       "w = WrapEpochValue(lambda epoch: epoch + 1)\n");
  crn_arena a = {0};
  crn_err err = {0};
  crn_value *out, *args = crn_v_seq(&a, CRN_V_LIST), *named = crn_v_dict(&a);
  crn_v_put(&a, named, "epoch", crn_v_int(&a, 3));
  crn_v_put(&a, named, "more", crn_v_str(&a, "x"));
  assert_int_equal(crn_config_call(c, crn_config_get(c, "get_network"), NULL, named, &a, &out, &err), CRN_OK);
  assert_int_equal(crn_v_get(out, "n")->u.i, 6);
  assert_int_equal(crn_v_get(out, "f")->kind, CRN_V_CALLABLE);
  assert_string_equal(crn_v_cstr(crn_v_get(crn_v_get(out, "k"), "more")), "x");

  /* everything survives the way there and back */
  crn_value *all;
  assert_int_equal(
      crn_v_parse_literal(&a, "[None, True, -3, 0.5, 'a\\u20ac', (1,), {2, 3}, {'x': [], 1: ()}]", "all", &all, &err),
      CRN_OK);
  crn_v_push(&a, args, all);
  assert_int_equal(crn_config_call(c, crn_config_get(c, "keep"), args, NULL, &a, &out, &err), CRN_OK);
  assert_true(crn_v_equal(all, out));
  args->u.seq.items[0] = crn_config_get(c, "keep");
  assert_int_equal(crn_config_call(c, crn_config_get(c, "keep"), args, NULL, &a, &out, &err), CRN_OK);
  assert_ptr_equal(out->u.obj.host, crn_config_get(c, "keep")->u.obj.host);
  crn_v_del(named, "more");
  assert_int_equal(crn_config_call(c, crn_config_get(c, "w"), NULL, named, &a, &out, &err), CRN_OK);
  assert_int_equal(out->u.i, 4);

  /* functions see what is set later */
  assert_int_equal(crn_config_override(c, "batch_size", "9", NULL, &err), CRN_OK);
  assert_int_equal(crn_config_call(c, crn_config_get(c, "size"), NULL, NULL, &a, &out, &err), CRN_OK);
  assert_int_equal(crn_v_at(out, 0)->u.i, 9);
  assert_int_equal(crn_v_at(out, 1)->u.i, 9);

  assert_int_equal(crn_config_call(c, crn_config_get(c, "bad"), NULL, NULL, &a, &out, &err), CRN_E_CONFIG);
  assert_non_null(strstr(crn_err_text(&err), "function 'bad': "));
  assert_non_null(strstr(crn_err_text(&err), "test.config:11: KeyError: 'no'"));
  crn_err_clear(&err);
  assert_int_equal(crn_config_call(c, crn_config_get(c, "batch_size"), NULL, NULL, &a, &out, &err), CRN_E_CONFIG);
  crn_err_clear(&err);
  crn_arena_free(&a);
  crn_config_free(c);
}

static void test_options(void **state) {
  (void)state;
  crn_config *c = load("n = 4\nbatch_size = 100\ntask = 'train'\n");
  crn_str text = {0};
  crn_log log = {collect, &text, 5};
  crn_err err = {0};
  crn_value *v;
  assert_int_equal(crn_config_override(c, "batch_size", "n * 10", &log, &err), CRN_OK); /* variables of the config */
  expect_repr(c, "batch_size", "40");
  assert_int_equal(crn_config_override(c, "batch_size", "min(1, 2)", &log, &err), CRN_OK);
  expect_repr(c, "batch_size", "1");
  assert_int_equal(text.len, 0);
  assert_int_equal(crn_config_override(c, "batch_size", "unknown_name", &log, &err), CRN_E_CONFIG);
  assert_non_null(strstr(crn_err_text(&err), "option 'batch_size': can't evaluate 'unknown_name': NameError"));
  crn_err_clear(&err);
  assert_int_equal(crn_config_override(c, "batch_size", "5 frames", &log, &err), CRN_OK); /* bad syntax: text */
  expect_repr(c, "batch_size", "'5 frames'");
  assert_non_null(strstr(crn_str_get(&text), "kept as text"));
  assert_int_equal(crn_config_override(c, "task", "n", &log, &err), CRN_OK);
  expect_repr(c, "task", "'n'");
  assert_int_equal(crn_config_eval(c, "{'class': 'X', 'n': n}", crn_config_arena(c), &v, &err), CRN_OK);
  assert_int_equal(crn_v_get(v, "n")->u.i, 4);
  crn_str_free(&text);
  crn_config_free(c);
}

static void test_two_configs(void **state) {
  (void)state;
  crn_config *c = load("x = 1\ny = 2\n");
  crn_config *d = load("x = 10\n");
  crn_err err = {0};
  expect_repr(c, "x", "1");
  expect_repr(d, "x", "10");
  assert_false(crn_config_has(d, "y"));
  /* a second file of one config goes on in its namespace */
  assert_int_equal(crn_config_add_file(c, write_file("second.py", "z = x + y\nx = 5\n"), NULL, &err), CRN_OK);
  expect_repr(c, "z", "3");
  expect_repr(c, "x", "5");
  crn_config_free(c);
  crn_config_free(d);
}

static void *call_often(void *user) {
  crn_config *c = user;
  for (int64_t i = 0; i < 50; i++) {
    crn_arena a = {0};
    crn_value *args = crn_v_seq(&a, CRN_V_LIST), *out;
    crn_v_push(&a, args, crn_v_int(&a, i));
    if (crn_config_call(c, crn_config_get(c, "f"), args, NULL, &a, &out, NULL) != CRN_OK || out->u.i != i * i) return c;
    crn_arena_free(&a);
  }
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  crn_config *c = load("def f(x):\n  return x * x\n");
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, call_often, c), 0);
  for (int i = 0; i < 4; i++) {
    void *failed;
    pthread_join(threads[i], &failed);
    assert_null(failed);
  }
  crn_config_free(c);
}

static void test_training_configs(void **state) {
  (void)state;
  glob_t found;
  assert_int_equal(glob(CRN_SOURCE_DIR "/tests/data/training/*/config.py", 0, NULL, &found), 0);
  assert_true(found.gl_pathc >= 23);
  for (size_t i = 0; i < found.gl_pathc; i++) {
    crn_err err = {0};
    crn_config *c;
    if (crn_config_load(found.gl_pathv[i], NULL, &c, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
    int64_t epochs;
    crn_value *network;
    assert_int_equal(crn_config_int(c, "num_epochs", 0, &epochs, &err), CRN_OK);
    assert_true(epochs > 0);
    assert_int_equal(crn_config_dict(c, "network", &network, &err), CRN_OK);
    assert_non_null(crn_v_get(crn_v_get(network, "output"), "class"));
    crn_config_free(c);
  }
  globfree(&found);
}

static void test_attention_config(void **state) {
  (void)state;
  for (int search = 0; search < 2; search++) {
    crn_err err = {0};
    crn_config *c;
    setenv("TASK", search ? "search" : "train", 1);
    if (crn_config_load(CRN_SOURCE_DIR "/tests/data/endtoend/attention/config.py", NULL, &c, &err) != CRN_OK)
      fail_msg("%s", crn_err_text(&err));
    expect_repr(c, "task", search ? "'search'" : "'train'");
    assert_int_equal(crn_config_has(c, "search_output_file"), search);
    const crn_value *unit = crn_v_get(crn_v_get(crn_config_get(c, "network"), "output"), "unit");
    assert_int_equal(crn_v_len(unit), 15);
    crn_config_free(c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_arrays),
      cmocka_unit_test(test_numpy_likes),
      cmocka_unit_test(test_missing_modules),
      cmocka_unit_test(test_modules_of_the_config),
      cmocka_unit_test(test_dims),
      cmocka_unit_test(test_exceptions),
      cmocka_unit_test(test_calls),
      cmocka_unit_test(test_options),
      cmocka_unit_test(test_two_configs),
      cmocka_unit_test(test_threads),
      cmocka_unit_test(test_training_configs),
      cmocka_unit_test(test_attention_config),
  };
  return cmocka_run_group_tests(tests, start, finish);
}
