/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that runs out in operations and expressions: every allocation in turn fails, alone or with all later ones.
 * Each time: CRN_E_MEMORY, a message, no leak. Run it under sanitizers.
 */
#include "base/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernel/kernel.h"
#include "tensor/eval.h"
#include "tensor/mem.h"

/* These take the place of src/base/memory.c in this program. */
static long allocation, fail_at = -1;
static bool fail_all_later;

static bool fails(void) {
  long i = allocation++;
  return fail_at >= 0 && (fail_all_later ? i >= fail_at : i == fail_at);
}

void *crn_malloc(size_t bytes) { return fails() ? NULL : malloc(bytes ? bytes : 1); }
void *crn_calloc(size_t n, size_t size) { return fails() ? NULL : n && size ? calloc(n, size) : calloc(1, 1); }
void *crn_realloc(void *p, size_t bytes) { return fails() ? NULL : realloc(p, bytes ? bytes : 1); }
void crn_free(void *p) { free(p); }

typedef crn_status (*body_fn)(crn_run *r, crn_arena *a);

static crn_status once(body_fn body, crn_err *err) {
  crn_arena a = {0};
  crn_run r;
  crn_mem *mem = crn_mem_new();
  if (!mem) return crn_err_memory(err);
  crn_status s = crn_run_init(&r, mem, crn_kernels_select(NULL), NULL, NULL, err);
  if (s == CRN_OK) {
    r.recording = true;
    s = body(&r, &a);
    crn_run_deinit(&r);
  }
  crn_mem_free_all(mem);
  crn_arena_free(&a);
  return s;
}

static void exhaust(body_fn body) {
  for (int later = 0; later < 2; later++) {
    fail_all_later = later;
    for (long at = 0;; at++) {
      crn_err err = {0};
      allocation = 0;
      fail_at = at;
      crn_status s = once(body, &err);
      fail_at = -1;
      bool done = s == CRN_OK && allocation <= at; /* an arena does without a larger block: then it is OK before that */
      if (s != CRN_OK && s != CRN_E_MEMORY) fail_msg("allocation %ld: status %d, %s", at, (int)s, crn_err_text(&err));
      assert_int_equal(s != CRN_OK, crn_err_text(&err)[0] != 0);
      crn_err_clear(&err);
      if (done) break;
      assert_true(at < 100000);
    }
  }
}

/* Large enough that every tensor is an allocation of its own. */
static crn_tensor *input(crn_run *r) {
  crn_tensor *x = crn_t_full(r, CRN_F32, 3, (const int64_t[]){3, 40, 50}, 0.5);
  if (x) x->needs_grad = true;
  return x;
}

static crn_status operations(crn_run *r, crn_arena *a) {
  (void)a;
  crn_tensor *x = input(r), *row = crn_reduce(r, CRN_R_MEAN, x, 3, false), *lens, *idx = NULL;
  crn_tensor *y = crn_mul(r, crn_unary(r, CRN_U_TANH, x), row);
  y = crn_add(r, y, crn_transpose(r, crn_transpose(r, x, (const int[]){2, 1, 0}), (const int[]){2, 1, 0}));
  y = crn_concat(r, 2, (crn_tensor *[]){y, crn_reverse(r, x, 1)}, 2);
  y = crn_pad(r, y, 1, 1, 2, "reflect", 0);
  crn_tensor *mask = crn_binary(r, CRN_B_GREATER, y, crn_t_scalar(r, CRN_F32, 0.1));
  y = crn_mask_fill(r, y, mask, -1);
  y = crn_where(r, mask, y, crn_scale(r, y, 2));
  y = crn_mask_select(r, y, crn_reduce(r, CRN_R_ANY, mask, 4, false), &lens);
  y = crn_pack_frames(r, y, lens);
  y = crn_top_k(r, y, 70, &idx);
  y = crn_gather_batched(r, y, crn_argsort(r, y, -1, false), 1);
  y = crn_cumsum(r, crn_dropout(r, "d", y, 0.5, y ? y->shape : NULL), 0, false, false);
  y = crn_reduce_all(r, CRN_R_LOGSUMEXP, y);
  return y ? crn_backward(r, y, NULL) : r->err->code;
}

static crn_status x_of(void *user, crn_run *r, const char *name, crn_ev *out, bool *found) {
  (void)user;
  *found = strcmp(name, "x") == 0;
  if (!*found) return CRN_OK;
  crn_tensor *t = input(r);
  if (!t) return r->err->code;
  *out = crn_ev_of_tensor(t);
  return CRN_OK;
}

static crn_status expressions(crn_run *r, crn_arena *a) {
  static const char *const texts[] = {
      "safe_log(tf.reshape(tf.nn.softmax(x * 2), [-1, 50])) if len([1, 2, 3]) > 2 and not None else 'a' 'b' + \"c\"",
      ("tf.where(x[..., ::2] > 0, tf.concat([x, x], axis=-1)[..., 1:2], 3.0) + "
       "tf.reduce_sum(tf.stack((x, x)), axis=[0, 1])[0, 0]"),
      "optional_add(None, x, tf.random.uniform(tf.shape(x))) ** 2 - tf.split(x, [20, -1], axis=1)[0][:, 1:2]",
  };
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    crn_eval *e = NULL;
    crn_ev v = crn_ev_none();
    CRN_TRY(crn_eval_compile(a, texts[i], &e, r->err));
    CRN_TRY(crn_eval_run(r, e, &(crn_eval_env){.name = x_of}, &v));
    assert_int_equal(v.kind, CRN_EV_TENSOR);
  }
  return CRN_OK;
}

static crn_status activations(crn_run *r, crn_arena *a) {
  static const char *const texts[] = {"3 + 2 * sigmoid", "tf.nn.relu(x) * 2", "log_softmax"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    crn_activation *act = NULL;
    CRN_TRY(crn_activation_compile(a, texts[i], &act, r->err));
    if (!crn_activation_run(r, act, input(r))) return r->err->code;
  }
  return CRN_OK;
}

static void test_operations(void **state) {
  (void)state;
  exhaust(operations);
}

static void test_expressions(void **state) {
  (void)state;
  exhaust(expressions);
}

static void test_activations(void **state) {
  (void)state;
  exhaust(activations);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_operations), cmocka_unit_test(test_expressions),
                                     cmocka_unit_test(test_activations)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
