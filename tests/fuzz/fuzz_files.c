/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer: the first byte names a reader, the others are what its file holds; it is read, or refused with a message.
 * p pickle, a audio, l learning rates, v vocabulary, b byte-pair merges, t table of a checkpoint, e one of its entries,
 * h its header, s snappy, z zip, c the file "checkpoint".
 */
#include "ckpt/entry.h"
#include "ckpt/snappy.h"
#include "ckpt/state_file.h"
#include "data/audio_file.h"
#include "data/pickle.h"
#include "data/vocab_internal.h"
#include "data/zip.h"
#include "train/learning_rate_table.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory_limit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct content {
  const char *bytes; /* a NUL after them */
  size_t n;
  const char *folder, *path; /* of a file that holds them */
  crn_arena *arena;
} content;

static crn_status read_pickle(const content *c, crn_err *err) {
  crn_value *v;
  CRN_TRY(crn_pickle_parse(c->arena, c->bytes, c->n, "fuzz", &v, err));
  crn_str s = {0};
  crn_v_repr(v, &s, 1000);
  crn_str_free(&s);
  return CRN_OK;
}

static crn_status read_audio(const content *c, crn_err *err) {
  crn_audio a = {0};
  const crn_status st = crn_audio_decode(c->bytes, c->n, "fuzz", &a, err);
  crn_audio_free(&a);
  return st;
}

static crn_status read_rates(const content *c, crn_err *err) {
  crn_lr_table t = {0}, again = {0};
  crn_str s = {0};
  const crn_status st = crn_lr_table_parse(&t, c->bytes, c->n, "fuzz", err);
  crn_lr_table_format(&t, &s); /* what was read can be written and read */
  if (st == CRN_OK && crn_lr_table_parse(&again, crn_str_get(&s), s.len, "again", err) != CRN_OK) abort();
  crn_str_free(&s);
  crn_lr_table_free(&again);
  crn_lr_table_free(&t);
  return st;
}

static crn_status read_vocab(const content *c, crn_err *err) {
  crn_vocab *v = NULL;
  crn_indices list = {0};
  crn_str text = {0};
  crn_status st = crn_vocab_from_file(c->path, NULL, c->n % 2, &v, err);
  if (st == CRN_OK && crn_vocab_size(v)) st = crn_vocab_encode(v, crn_vocab_labels(v)[0], &list, err);
  if (st == CRN_OK && v) st = crn_vocab_decode(v, list.p, list.n, &text, err);
  crn_str_free(&text);
  crn_free(list.p);
  crn_vocab_free(v);
  return st;
}

static crn_status read_merges(const content *c, crn_err *err) {
  crn_bpe *b = NULL;
  crn_words w = {0};
  crn_map known = {0};
  crn_status st = crn_bpe_load(c->path, &b, err);
  if (st == CRN_OK) st = crn_bpe_split(b, "hello fuzzed world", &known, &w, err);
  crn_words_free(&w);
  crn_map_free(&known);
  crn_bpe_free(b);
  return st;
}

static crn_status read_table(const content *c, crn_err *err) {
  crn_table_items items;
  return crn_table_read(c->arena, (const uint8_t *)c->bytes, c->n, &items, err);
}

static crn_table_item as_item(const content *c) {
  return (crn_table_item){.key = "k", .key_len = 1, .value = (const uint8_t *)c->bytes, .value_len = c->n};
}

static crn_status read_entry(const content *c, crn_err *err) {
  crn_bundle_entry e;
  const crn_table_item item = as_item(c);
  return crn_entry_parse(c->arena, &item, &e, err);
}

static crn_status read_header(const content *c, crn_err *err) {
  crn_bundle_header h;
  const crn_table_item item = as_item(c);
  return crn_header_parse(&item, &h, err);
}

static crn_status read_snappy(const content *c, crn_err *err) {
  const uint8_t *out;
  size_t n;
  return crn_snappy_read(c->arena, (const uint8_t *)c->bytes, c->n, &out, &n, err);
}

static crn_status read_zip(const content *c, crn_err *err) {
  crn_zip *z = NULL;
  crn_status st = crn_zip_open(c->path, &z, err);
  for (size_t i = 0; st == CRN_OK && i < crn_zip_count(z) && i < 20; i++) {
    char *bytes = NULL;
    size_t n;
    st = crn_zip_read(z, crn_zip_name(z, i), &bytes, &n, err);
    crn_free(bytes);
  }
  crn_zip_close(z);
  return st;
}

static crn_status read_state(const content *c, crn_err *err) {
  const char *prefix;
  return crn_ckpt_state_read(c->arena, c->folder, &prefix, err);
}

static const struct {
  char letter;
  bool file; /* from the path */
  crn_status (*read)(const content *c, crn_err *err);
} readers[] = {{'p', false, read_pickle}, {'a', false, read_audio}, {'l', false, read_rates}, {'v', true, read_vocab},
               {'b', true, read_merges},  {'t', false, read_table}, {'e', false, read_entry}, {'h', false, read_header},
               {'s', false, read_snappy}, {'z', true, read_zip},    {'c', true, read_state}};

static void write_file(const content *c) {
  FILE *f = fopen(c->path, "wb");
  if (!f || fwrite(c->bytes, 1, c->n, f) != c->n || fclose(f) != 0) abort();
}

static void read_one(size_t which, const char *bytes, size_t n) {
  char folder[64], path[96];
  crn_arena a = {0};
  crn_err err = {0};
  (void)snprintf(folder, sizeof folder, "/tmp/crn_fuzz.%ld", (long)getpid());
  (void)snprintf(path, sizeof path, "%s/checkpoint", folder);
  const content c = {.bytes = bytes, .n = n, .folder = folder, .path = path, .arena = &a};
  if (readers[which].file) {
    (void)mkdir(folder, 0700);
    write_file(&c);
  }
  const crn_status st = readers[which].read(&c, &err);
  if ((st == CRN_OK) != (crn_err_text(&err)[0] == '\0') || st == CRN_E_INTERNAL) abort();
  crn_err_clear(&err);
  crn_arena_free(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  size_t which = 0;
  const size_t n = sizeof readers / sizeof *readers;
  while (which < n && readers[which].letter != (char)data[0]) which++;
  if (which == n) which = data[0] % n;
  char *bytes = malloc(size);
  if (!bytes) return 0;
  memcpy(bytes, data + 1, size - 1);
  bytes[size - 1] = '\0';
  read_one(which, bytes, size - 1);
  free(bytes);
  return 0;
}
