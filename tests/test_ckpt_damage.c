/* SPDX-License-Identifier: Apache-2.0
 *
 * Damaged checkpoints: every byte flipped, every length cut, and messages changed behind right checksums. Each must end
 * in an error that says where, or in the right values; never in a crash (run it under sanitizers).
 */
#include "test_ckpt_util.h"

#include "ckpt/table.h"

typedef struct copy {
  char dir[64], prefix[80], index[100], data[2][120];
  uint8_t *index_bytes, *data_bytes[2];
  size_t index_n, data_n[2];
  int n_shards;
} copy;

static void copy_open(copy *c, const char *from, int n_shards) {
  *c = (copy){.n_shards = n_shards};
  snprintf(c->dir, sizeof c->dir, "%s", make_dir());
  snprintf(c->prefix, sizeof c->prefix, "%s/net", c->dir);
  snprintf(c->index, sizeof c->index, "%s.index", c->prefix);
  char path[300];
  snprintf(path, sizeof path, "%s.index", from);
  c->index_bytes = slurp(path, &c->index_n);
  spill(c->index, c->index_bytes, c->index_n);
  for (int i = 0; i < n_shards; i++) {
    snprintf(path, sizeof path, "%s.data-%05d-of-%05d", from, i, n_shards);
    snprintf(c->data[i], sizeof c->data[i], "%s.data-%05d-of-%05d", c->prefix, i, n_shards);
    c->data_bytes[i] = slurp(path, &c->data_n[i]);
    spill(c->data[i], c->data_bytes[i], c->data_n[i]);
  }
}

static void copy_close(copy *c) {
  free(c->index_bytes);
  for (int i = 0; i < c->n_shards; i++) free(c->data_bytes[i]);
  remove_dir(c->dir);
}

/* All variables' names, shapes and values as one hash; 0: an error, which has a message. */
static uint32_t fingerprint(const char *prefix) {
  crn_err err = {0};
  crn_bundle *b;
  crn_str s = {0};
  uint32_t h = 2166136261u;
  crn_status status = crn_bundle_open(prefix, &b, &err);
  for (size_t i = 0; status == CRN_OK && i < crn_bundle_count(b); i++) {
    const crn_bundle_entry *e = crn_bundle_at(b, i);
    crn_arena a = {0};
    size_t bytes = 0;
    const uint8_t *p = NULL;
    if (e->dtype == CRN_TF_STRING) {
      const char **strings;
      size_t *lengths;
      status = crn_bundle_read_strings(b, e, &a, &strings, &lengths, &err);
      for (int64_t k = 0; status == CRN_OK && k < e->n_elements; k++)
        for (size_t j = 0; j < lengths[k]; j++) h = (h ^ (uint8_t)strings[k][j]) * 16777619u;
    } else {
      bytes = (size_t)e->n_elements * crn_tf_dtype_bytes(e->dtype);
      /* A partitioned variable may claim any shape: don't ask for more than the parts can fill. */
      uint8_t *values = bytes < (1u << 24) ? crn_arena_alloc(&a, bytes) : NULL;
      status = values ? crn_bundle_read(b, e, values, bytes, &err) : crn_fail(&err, CRN_E_MEMORY, "claims too much");
      p = values;
    }
    for (const char *t = e->name; *t; t++) h = (h ^ (uint8_t)*t) * 16777619u;
    for (const char *t = crn_bundle_describe(e, &s); *t; t++) h = (h ^ (uint8_t)*t) * 16777619u;
    for (size_t k = 0; status == CRN_OK && k < bytes; k++) h = (h ^ p[k]) * 16777619u;
    crn_arena_free(&a);
  }
  if (status != CRN_OK) assert_true(strlen(crn_err_text(&err)) > 10);
  crn_err_clear(&err);
  crn_str_free(&s);
  crn_bundle_free(b);
  return status == CRN_OK ? h | 1 : 0;
}

/* Every bit of a file flipped, every length cut; right says what an unharmed checkpoint gives. Returns how many changes
 * were harmless. */
static int damage(const char *prefix, const char *path, uint8_t *bytes, size_t n, size_t step, uint32_t right) {
  int harmless = 0;
  for (size_t i = 0; i < n; i += step)
    for (int bit = 0; bit < 8; bit++) {
      bytes[i] ^= (uint8_t)(1 << bit);
      spill(path, bytes, n);
      uint32_t got = fingerprint(prefix);
      if (got != 0 && got != right) fail_msg("%s: wrong values after flipping bit %d of byte %zu", path, bit, i);
      harmless += got == right;
      bytes[i] ^= (uint8_t)(1 << bit);
    }
  for (size_t cut = 0; cut < n; cut += step) {
    spill(path, bytes, cut);
    uint32_t got = fingerprint(prefix);
    if (got != 0) fail_msg("%s: no error after cutting to %zu bytes", path, cut);
  }
  spill(path, bytes, n);
  return harmless;
}

static void damage_all(const char *from, int n_shards, size_t data_step) {
  copy c;
  copy_open(&c, from, n_shards);
  uint32_t right = fingerprint(c.prefix);
  assert_int_not_equal(right, 0);
  /* harmless: only the footer's padding */
  int harmless = damage(c.prefix, c.index, c.index_bytes, c.index_n, 1, right);
  assert_true(harmless <= 40 * 8);
  for (int i = 0; i < n_shards; i++)
    assert_int_equal(damage(c.prefix, c.data[i], c.data_bytes[i], c.data_n[i], data_step, right), 0);
  assert_int_equal(fingerprint(c.prefix), right);
  copy_close(&c);
}

static void test_flip_and_cut(void **state) {
  (void)state;
  damage_all(DATA "lstm/model.004", 1, 7);
  damage_all(DATA "parts", 2, 61);
  damage_all(DATA "types", 1, 1);
}

/* Change the messages and keys of an index and give it right checksums. */
static void change_behind_checksums(const char *from, int n_shards) {
  copy c;
  copy_open(&c, from, n_shards);
  crn_arena a = {0};
  crn_table_items items;
  OK(crn_table_read(&a, c.index_bytes, c.index_n, &items, err));
  int errors = 0;
  for (size_t i = 0; i < items.n; i++) {
    crn_table_item original = items.at[i];
    uint8_t *value = crn_arena_alloc(&a, original.value_len + 1);
    memcpy(value, original.value, original.value_len);
    items.at[i].value = value;
    for (size_t k = 0; k < original.value_len; k++) {
      static const uint8_t patterns[] = {1, 2, 4, 8, 16, 32, 64, 128, 255, 127};
      for (size_t p = 0; p < sizeof patterns + 1; p++) {
        value[k] = p < sizeof patterns ? original.value[k] ^ patterns[p] : 0;
        items.at[i].value_len = original.value_len;
        crn_str out = {0};
        crn_table_write(items.at, items.n, &out);
        spill(c.index, out.p, out.len);
        errors += fingerprint(c.prefix) == 0;
        crn_str_free(&out);
      }
      value[k] = original.value[k];
      items.at[i].value_len = k; /* cut */
      crn_str out = {0};
      crn_table_write(items.at, items.n, &out);
      spill(c.index, out.p, out.len);
      errors += fingerprint(c.prefix) == 0;
      crn_str_free(&out);
    }
    items.at[i] = original;
  }
  assert_true(errors > 100);
  crn_arena_free(&a);
  copy_close(&c);
}

static void test_behind_checksums(void **state) {
  (void)state;
  change_behind_checksums(DATA "lstm/model.004", 1);
  change_behind_checksums(DATA "parts", 2);
  change_behind_checksums(DATA "types", 1);
}

static void test_messages(void **state) {
  (void)state;
  copy c;
  copy_open(&c, DATA "lstm/model.004", 1);
  crn_bundle *b;
  float w[360];
  c.data_bytes[0][5] ^= 1;
  spill(c.data[0], c.data_bytes[0], c.data_n[0]);
  OK(crn_bundle_open(c.prefix, &b, err));
  FAILS(crn_bundle_read(b, crn_bundle_find(b, "fw0/rec/W"), w, sizeof w, err), CRN_E_FORMAT,
        "variable 'fw0/rec/W': wrong checksum: '");
  free(read_floats(b, "output/b", 2)); /* the others are fine */
  crn_bundle_free(b);
  spill(c.data[0], c.data_bytes[0], 1000);
  OK(crn_bundle_open(c.prefix, &b, err));
  FAILS(crn_bundle_read(b, crn_bundle_find(b, "fw0/rec/W"), w, sizeof w, err), CRN_E_FORMAT,
        "is cut: it has 1000 bytes, at least 1440 expected");
  crn_bundle_free(b);
  spill(c.index, "{}", 2);
  FAILS(crn_bundle_open(c.prefix, &b, err), CRN_E_FORMAT, "net.index: no checkpoint index: 2 bytes");
  c.index_bytes[20] ^= 1;
  spill(c.index, c.index_bytes, c.index_n);
  FAILS(crn_bundle_open(c.prefix, &b, err), CRN_E_FORMAT, "wrong checksum of the block at byte 0");
  unlink(c.index);
  mkdir(c.index, 0777);
  FAILS(crn_bundle_open(c.prefix, &b, err), CRN_E_FILE, "no checkpoint");
  copy_close(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_flip_and_cut),
      cmocka_unit_test(test_behind_checksums),
      cmocka_unit_test(test_messages),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
