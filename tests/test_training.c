/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole trainings with known results: scores and errors of every epoch, numbers of steps, learning rates and the final
 * parameters, within the bounds that tests/data/training states.
 */
#include "training_run.h"

#include "ckpt/bundle.h"
#include "value/value.h"

static const char *const runs[] = {
    "adadelta",        "adam",
    "adam_legacy",     "batch_sorted",
    "chunking",        "clip_global_norm",
    "clip_norm",       "l2",
    "lr_list",         "momentum",
    "nadam",           "nesterov",
    "newbob",          "newbob_multi_epoch",
    "max_seq_length",  "not_trainable",
    "order_random",    "reverse",
    "rmsprop",         "sgd",
    "two_losses",      "order_sort_bin_shuffle",
    "partition_epoch",
};

static void compare_number(const char *run, int64_t epoch, const char *key, double got, const crn_value *want,
                           double rel, double abs) {
  double w;
  assert_true(crn_v_to_float(want, &w));
  if (!(fabs(got - w) <= rel * fabs(w) + abs))
    fail_msg("%s: epoch %lld: %s is %.9g, should be %.9g", run, (long long)epoch, key, got, w);
}

/* score or error of a dataset: a number, or a dict by loss name */
static void compare_scores(const char *run, const crn_lr_table *t, int64_t epoch, const char *set,
                           const crn_value *entry, const char *what) {
  const crn_value *v = crn_v_get(entry, what);
  const double rel = strcmp(what, "score") ? 0 : epoch == 1 ? 1e-4 : 5e-4, abs = strcmp(what, "score") ? 1e-3 : 0;
  char key[100];
  (void)snprintf(key, sizeof key, "%s_%s", set, what);
  if (!crn_v_is_dict(v)) {
    compare_number(run, epoch, key, number_of(t, epoch, key), v, rel, abs);
    return;
  }
  assert_true(v->u.dict.n > 0);
  for (size_t i = 0; i < v->u.dict.n; i++) {
    (void)snprintf(key, sizeof key, "%s_%s_%s", set, what, crn_v_cstr(v->u.dict.keys[i]));
    compare_number(run, epoch, key, number_of(t, epoch, key), v->u.dict.vals[i], rel, abs);
  }
}

static void compare_curve(const char *run, const crn_lr_table *t, const crn_value *curve) {
  const crn_value *train = crn_v_get(curve, "train"), *dev = crn_v_get(curve, "dev");
  const size_t n = crn_v_len(train);
  assert_true(n > 0 && crn_v_len(dev) == n && t->n == n);
  for (size_t i = 0; i < n; i++) {
    const int64_t epoch = (int64_t)i + 1;
    static const char *const kinds[] = {"score", "error"};
    for (int k = 0; k < 2; k++) {
      compare_scores(run, t, epoch, "train", crn_v_at(train, i), kinds[k]);
      compare_scores(run, t, epoch, "dev", crn_v_at(dev, i), kinds[k]);
    }
    compare_number(run, epoch, "number of steps", number_of(t, epoch, ":meta:epoch_num_train_steps"),
                   crn_v_at(crn_v_get(curve, "steps"), i), 0, 0);
    compare_number(run, epoch, "learning rate", crn_lr_table_find(t, epoch)->lr,
                   crn_v_at(crn_v_get(curve, "learning_rates"), i), 0, 0);
  }
}

static void compare_models(const char *run, const char *got_prefix, const char *want_prefix) {
  crn_err err = {0};
  crn_bundle *got = NULL, *want = NULL;
  if (crn_bundle_open(got_prefix, &got, &err) != CRN_OK || crn_bundle_open(want_prefix, &want, &err) != CRN_OK)
    fail_msg("%s", crn_err_text(&err));
  size_t n_compared = 0;
  for (size_t i = 0; i < crn_bundle_count(want); i++) {
    const crn_bundle_entry *w = crn_bundle_at(want, i), *g = crn_bundle_find(got, w->name);
    if (!g) fail_msg("%s: the checkpoint lacks '%s'", run, w->name);
    assert_int_equal(g->dtype, w->dtype);
    assert_int_equal(g->n_elements, w->n_elements);
    if (w->dtype != CRN_TF_FLOAT32) continue;
    const size_t size = (size_t)w->n_elements;
    float *a = calloc(size, sizeof *a), *b = calloc(size, sizeof *b), largest = 0, diff = 0;
    assert_true(a && b);
    assert_int_equal(crn_bundle_read(got, g, a, size * sizeof *a, &err), CRN_OK);
    assert_int_equal(crn_bundle_read(want, w, b, size * sizeof *b, &err), CRN_OK);
    for (size_t k = 0; k < size; k++) {
      largest = fmaxf(largest, fabsf(b[k]));
      diff = fmaxf(diff, fabsf(a[k] - b[k]));
    }
    if (!(diff <= 2e-3F * largest))
      fail_msg("%s: parameter '%s' differs by %g of at most %g", run, w->name, (double)diff, (double)largest);
    n_compared++;
    free(a);
    free(b);
  }
  assert_true(n_compared > 0);
  crn_bundle_free(got);
  crn_bundle_free(want);
}

static void test_run(void **state) {
  const char *run = *state;
  crn_err err = {0};
  crn_arena a = {0};
  crn_lr_table t = {0};
  crn_value *curve = NULL;
  char folder[64], config[300], reference[300], model[100], rates[100], got[120], want[400];
  make_folder(folder);
  (void)snprintf(config, sizeof config, DATA "training/%s/config.py", run);
  (void)snprintf(reference, sizeof reference, DATA "training/%s/reference/", run);
  (void)snprintf(model, sizeof model, "%s/out/model", folder);
  (void)snprintf(rates, sizeof rates, "%s/learning_rates", folder);
  const char *const settings[] = {"model", model, "learning_rate_file", rates, NULL};
  if (run_task(crn_task_train, config, settings, NULL, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
  (void)snprintf(want, sizeof want, "%scurve.json", reference);
  if (crn_v_read_json(&a, want, &curve, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
  if (crn_lr_table_read(&t, rates, &err) != CRN_OK) fail_msg("%s", crn_err_text(&err));
  compare_curve(run, &t, curve);
  (void)snprintf(got, sizeof got, "%s.%03d", model, (int)t.n);
  (void)snprintf(want, sizeof want, "%smodel.%03d", reference, (int)t.n);
  compare_models(run, got, want);
  crn_lr_table_free(&t);
  crn_arena_free(&a);
  remove_folder(folder);
}

int main(void) {
  enum { N = sizeof runs / sizeof *runs };
  struct CMUnitTest tests[N];
  for (size_t i = 0; i < N; i++) {
    union {
      const char *name;
      void *state;
    } u = {.name = runs[i]};
    tests[i] = (struct CMUnitTest){.name = runs[i], .test_func = test_run, .initial_state = u.state};
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
