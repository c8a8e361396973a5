/* SPDX-License-Identifier: Apache-2.0
 *
 * Text: LmDataset, vocabularies, byte-pair units (with results of the original program), pickles.
 */
#include "data_helpers.h"

#include "data/pickle.h"
#include "data/vocab.h"

static void expect(crn_err *err, crn_status code, crn_status wanted, const char *word) {
  if (code != wanted) fail_msg("status %d instead of %d: %s", (int)code, (int)wanted, crn_err_text(err));
  if (!strstr(crn_err_text(err), word)) fail_msg("\"%s\" lacks \"%s\"", crn_err_text(err), word);
  crn_err_clear(err);
}

static const char *write_text(const char *name, const char *text) {
  const char *path = temp_path(name);
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
  return path;
}

/* Labels of a sequence as "a b c", joined by sep. */
static void check_seq(crn_dataset *ds, int64_t i, const char *key, const char *sep, const char *expected) {
  crn_err err = {0};
  int k = crn_dataset_find_key(ds, key);
  assert_true(k >= 0);
  const crn_data_key *info = crn_dataset_key(ds, (size_t)k);
  int64_t n;
  crn_array a = {0};
  TEST_OK(crn_dataset_length(ds, i, (size_t)k, &n, &err));
  TEST_OK(crn_dataset_read(ds, i, (size_t)k, 0, n, &a, &err));
  crn_str s = {0};
  for (int64_t t = 0; t < n; t++) {
    int64_t label;
    assert_true(
        crn_ntype_convert(a.dtype, (char *)a.data + (size_t)t * crn_ntype_bytes(a.dtype), CRN_NT_I64, &label, 1));
    crn_str_addf(&s, "%s%s", t ? sep : "", info->labels[label]);
  }
  assert_string_equal(crn_str_get(&s), expected);
  crn_str_free(&s);
  crn_array_free(&a);
}

static const char vocab_text[] = "[END] 0\n[START] 1\n[UNKNOWN] 2\na 3\nb 4\nc 5\nA 3\n[FOO] 6\n";

static crn_status lm(const char *corpus, const char *vocab, const char *more, crn_dataset **ds, crn_err *err) {
  char text[1500];
  snprintf(text, sizeof text, "{'class': 'LmDataset', 'corpus_file': '%s', 'orth_symbols_map_file': '%s', %s}", corpus,
           vocab, more);
  CRN_TRY(new_dataset(text, "", ds, err));
  return crn_dataset_begin_epoch(*ds, 1, NULL, err);
}

/* As the published configs have it. */
static void test_words(void **state) {
  (void)state;
  crn_err err = {0};
  const char *vocab = write_text("vocab.txt", vocab_text);
  const char *corpus = write_text("corpus.txt", "  a (b) [foo] c\nA zzz b\n\n \nlost");
  crn_dataset *ds;
  TEST_OK(lm(corpus, vocab,
             "'word_based': True, 'seq_end_symbol': '[END]', 'unknown_symbol': '[UNKNOWN]', 'add_delayed_seq_data': "
             "True, 'delayed_seq_data_start_symbol': '[START]', 'auto_replace_unknown_symbol': True",
             &ds, &err));
  assert_int_equal(crn_dataset_num_seqs(ds), 3); /* the blank line counts, the last without end is lost */
  check_seq(ds, 0, "data", " ", "a b [FOO] c [END]");
  check_seq(ds, 0, "delayed", " ", "[START] a b [FOO] c");
  check_seq(ds, 1, "data", " ", "a [UNKNOWN] b [END]");
  check_seq(ds, 2, "data", " ", "[END]");
  check_order(ds, "line-0 line-1 line-2");
  const crn_data_key *k = crn_dataset_key(ds, 0);
  assert_true(k->dim == 7 && k->sparse && k->is_target && k->dtype == CRN_NT_I8);
  assert_false(crn_dataset_key(ds, 1)->is_target);
  TEST_OK(crn_dataset_set_order(ds, "sorted", &err));
  TEST_OK(crn_dataset_begin_epoch(ds, 1, NULL, &err));
  check_order(ds, "line-2 line-1 line-0");
  crn_dataset_free(ds);
  /* without replacement: an error, or lines left out */
  TEST_OK(lm(corpus, vocab, "'word_based': True", &ds, &err));
  int64_t n;
  expect(&err, crn_dataset_length(ds, 1, 0, &n, &err), CRN_E_DATA, "'zzz'");
  crn_dataset_free(ds);
  TEST_OK(lm(corpus, vocab, "'word_based': True, 'error_on_invalid_seq': False, 'tag_prefix': 'x'", &ds, &err));
  check_order(ds, "x0 x2");
  crn_dataset_free(ds);
  remove(vocab);
  remove(corpus);
}

static void test_characters(void **state) {
  (void)state;
  crn_err err = {0};
  const char *vocab = write_text("chars.txt", "a\nb\n_\n[END]\n[X]\n\xc3\xa4\n");
  const char *corpus = write_text("corpus.txt", "ab  [x]a\n\xc3\xa4-b\n");
  const char *map = write_text("map.json", "{\"-\": \"\", \"b\": \"aa\"}");
  crn_dataset *ds;
  char text[1000];
  const char *format = "{'class': 'LmDataset', 'corpus_file': ['%s'], 'orth_symbols_file': '%s', %s}";
  snprintf(text, sizeof text, format, corpus, vocab,
           "'word_end_symbol': '_', 'auto_replace_unknown_symbol': True, 'unknown_symbol': None");
  TEST_OK(new_dataset(text, "", &ds, &err));
  TEST_OK(crn_dataset_begin_epoch(ds, 1, NULL, &err));
  check_seq(ds, 0, "data", "", "ab_[X]a_[END]");
  check_seq(ds, 1, "data", "",
            "\xc3\xa4"
            "b_[END]");
  crn_dataset_free(ds);
  snprintf(text, sizeof text,
           "{'class': 'LmDataset', 'corpus_file': ['%s'], 'orth_symbols_file': '%s', 'orth_replace_map_file': '%s', "
           "'word_end_symbol': '_', 'seq_end_symbol': None, 'dtype': 'int32', 'parse_orth_opts': {'postfix': []}}",
           corpus, vocab, map);
  TEST_OK(new_dataset(text, "", &ds, &err));
  TEST_OK(crn_dataset_begin_epoch(ds, 1, NULL, &err));
  check_seq(ds, 0, "data", "", "aaa_[X]a");
  check_seq(ds, 1, "data", "",
            "\xc3\xa4"
            "aa");
  assert_int_equal(crn_dataset_key(ds, 0)->dtype, CRN_NT_I32);
  crn_dataset_free(ds);
  remove(vocab);
  remove(corpus);
  remove(map);
}

static void test_lm_errors(void **state) {
  (void)state;
  crn_err err = {0};
  const char *corpus = write_text("corpus.txt", "a\n");
  crn_dataset *ds;
  const char *vocab = write_text("v.txt", "a 0\na 1\n");
  expect(&err, lm(corpus, vocab, "", &ds, &err), CRN_E_FORMAT, "'a' has the indices 0 and 1");
  vocab = write_text("v.txt", "a 1\n");
  expect(&err, lm(corpus, vocab, "", &ds, &err), CRN_E_FORMAT, "index 0");
  vocab = write_text("v.txt", "a 0\nb\n");
  expect(&err, lm(corpus, vocab, "", &ds, &err), CRN_E_FORMAT, ":2: expected a symbol and its index");
  vocab = write_text("v.txt", "a 0\n");
  expect(&err, lm(corpus, vocab, "'auto_replace_unknown_symbol': True", &ds, &err), CRN_E_CONFIG, "'[UNKNOWN]'");
  expect(&err, lm(corpus, vocab, "'add_delayed_seq_data': True", &ds, &err), CRN_E_CONFIG, "'[START]'");
  expect(&err, lm(corpus, vocab, "'orth_symbols_file': 'x'", &ds, &err), CRN_E_CONFIG, "exactly one");
  expect(&err, lm("/no/corpus", vocab, "", &ds, &err), CRN_E_FILE, "/no/corpus");
  expect(&err, lm(corpus, vocab, "'parse_orth_opts': {'posfix': []}", &ds, &err), CRN_E_CONFIG, "'postfix'");
  expect(&err, lm(corpus, vocab, "'dtype': 'float32'", &ds, &err), CRN_E_CONFIG, "'dtype'");
  /* a dict, recognised by its beginning */
  vocab = write_text("v.txt", "{\"a\": 0, \"[END]\": 1}");
  TEST_OK(lm(corpus, vocab, "", &ds, &err));
  check_seq(ds, 0, "data", " ", "a [END]");
  crn_dataset_free(ds);
  remove(vocab);
  remove(corpus);
}

static void check_encode(const crn_vocab *v, const char *text, const char *expected) {
  crn_err err = {0};
  crn_indices l = {0};
  crn_str s = {0};
  TEST_OK(crn_vocab_encode(v, text, &l, &err));
  for (int64_t i = 0; i < l.n; i++) crn_str_addf(&s, "%s%s", i ? " " : "", crn_vocab_labels(v)[l.p[i]]);
  assert_string_equal(crn_str_get(&s), expected);
  crn_str_free(&s);
  crn_free(l.p);
}

static crn_status vocab_of(const char *text, crn_vocab **v, crn_err *err) {
  crn_arena a = {0};
  crn_status code = crn_vocab_new(literal(&a, text), NULL, NULL, v, err);
  crn_arena_free(&a);
  return code;
}

static void test_bpe(void **state) {
  (void)state;
  crn_err err = {0};
  const char *codes = write_text("codes", "#version: 0.2\nl o\nlo w</w>\ne r</w>\nn e\nne w\nnew er</w>\n");
  const char *labels =
      write_text("labels", "UNK\nlo@@\nlow\ner\nn@@\ne@@\nw@@\nw\nl@@\no@@\nnew@@\nnewer\ns\n$x\n{\na@@\n");
  char text[700];
  crn_vocab *v;
  snprintf(text, sizeof text, "{'bpe_file': '%s', 'vocab_file': '%s'}", codes, labels);
  TEST_OK(vocab_of(text, &v, &err));
  check_encode(v, "low newer lower news lo", "low newer lo@@ w@@ er new@@ s l@@ UNK");
  check_encode(v, "$x { low } low", "$x { low UNK low");
  check_encode(v, "", "");
  crn_vocab_free(v);
  snprintf(text, sizeof text, "{'bpe_file': '%s', 'vocab_file': '%s', 'unknown_label': None, 'seq_postfix': [0]}",
           codes, labels);
  TEST_OK(vocab_of(text, &v, &err));
  check_encode(v, "low", "low UNK");
  crn_indices l = {0};
  expect(&err, crn_vocab_encode(v, "xy", &l, &err), CRN_E_DATA, "'x@@'");
  crn_free(l.p);
  crn_vocab_free(v);
  codes = write_text("codes", "#version: 0.3\n");
  expect(&err, vocab_of(text, &v, &err), CRN_E_FORMAT, "version 0.3");
  remove(codes);
  remove(labels);
}

static void test_vocabularies(void **state) {
  (void)state;
  crn_err err = {0};
  crn_vocab *v;
  TEST_OK(vocab_of("{'labels': ['UNK', 'a', 'b'], 'vocab_file': None, 'seq_postfix': [0]}", &v, &err));
  check_encode(v, " a  zz b ", "a UNK b UNK");
  crn_str s = {0};
  int32_t indices[] = {1, 2};
  TEST_OK(crn_vocab_decode(v, indices, 2, &s, &err));
  assert_string_equal(crn_str_get(&s), "a b");
  crn_vocab_free(v);
  TEST_OK(vocab_of("{'class': 'CharacterTargets', 'labels': ['@', 'a', ' '], 'vocab_file': None}", &v, &err));
  check_encode(v, "a \xc3\xa4", "a   @");
  crn_str_clear(&s);
  TEST_OK(crn_vocab_decode(v, indices, 2, &s, &err));
  assert_string_equal(crn_str_get(&s), "a ");
  crn_vocab_free(v);
  crn_str_free(&s);
  expect(&err, vocab_of("{'labels': ['a'], 'unknown_label': 'UNK'}", &v, &err), CRN_E_CONFIG, "'UNK'");
  expect(&err, vocab_of("{'labels': ['a']}", &v, &err), CRN_E_CONFIG, "'unknown_label'");
  expect(&err, vocab_of("{'labels': ['UNK'], 'num_labels': 2}", &v, &err), CRN_E_CONFIG, "'num_labels'");
  expect(&err, vocab_of("{'labels': ['UNK'], 'seq_post': 2}", &v, &err), CRN_E_CONFIG, "'seq_postfix'");
  expect(&err, vocab_of("{'class': 'Vocabulry'}", &v, &err), CRN_E_CONFIG, "'Vocabulary'");
  expect(&err, vocab_of("{'class': 'SentencePieces'}", &v, &err), CRN_E_NOT_IMPLEMENTED, "not implemented");
  for (int p = 0; p < 6; p++) {
    char path[300];
    snprintf(path, sizeof path, CRN_SOURCE_DIR "/tests/data/data/vocab.proto%d.pkl", p);
    TEST_OK(crn_vocab_from_file(path, "<s>", false, &v, &err));
    assert_int_equal(crn_vocab_size(v), 4);
    assert_int_equal(crn_vocab_find(v, "b"), 2);
    assert_int_equal(crn_vocab_find(v, "\xc3\xbc"), 3);
    assert_string_equal(crn_vocab_labels(v)[2], "x"); /* the last in order of those that share the index */
    crn_vocab_free(v);
  }
}

static void test_pickles(void **state) {
  (void)state;
  crn_err err = {0};
  crn_arena a = {0};
  crn_value *v;
  TEST_OK(crn_pickle_read(&a, CRN_SOURCE_DIR "/tests/data/data/values.proto4.pkl", &v, &err));
  crn_str s = {0}, x = {0};
  for (int i = 0; i < 300; i++) crn_str_addc(&x, 'x');
  crn_v_repr(v, &s, 0);
  char expected[1000];
  snprintf(expected, sizeof expected,
           "[1, -2, 3.5, 'text', True, None, (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), {1, 2}, [], {}, 1099511627776, "
           "-1099511627776, 300, 70000, '%s', ['a', 'a'], 'bytes']",
           crn_str_get(&x));
  assert_string_equal(crn_str_get(&s), expected);
  TEST_OK(crn_pickle_read(&a, CRN_SOURCE_DIR "/tests/data/data/values.proto2.pkl", &v, &err));
  assert_int_equal(crn_v_len(v), 18);
  TEST_OK(crn_pickle_read(&a, CRN_SOURCE_DIR "/tests/data/data/tags.pkl.gz", &v, &err));
  assert_string_equal(crn_v_cstr(crn_v_at(v, 1)), "seq-1");
  expect(&err, crn_pickle_read(&a, CRN_SOURCE_DIR "/tests/data/data/object.pkl", &v, &err), CRN_E_NOT_IMPLEMENTED,
         "objects");
  /* damage: every byte flipped, every cut */
  for (int p = 0; p < 6; p++) {
    char path[300], bytes[600];
    snprintf(path, sizeof path, CRN_SOURCE_DIR "/tests/data/data/%s",
             p == 5 ? "values.proto4.pkl" : "vocab.proto0.pkl");
    path[strlen(path) - 5] = p == 5 ? '4' : (char)('0' + p);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    for (size_t i = 0; i < 2 * n; i++) {
      char old = bytes[i % n];
      if (i < n) bytes[i] = (char)(old ^ (1 << i % 8));
      if (crn_pickle_parse(&a, bytes, i < n ? n : i - n, "x", &v, &err) != CRN_OK)
        assert_true(strlen(crn_err_text(&err)) > 10);
      else
        assert_non_null(v);
      crn_err_clear(&err);
      bytes[i % n] = old;
    }
  }
  crn_str_free(&s);
  crn_str_free(&x);
  crn_arena_free(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_words), cmocka_unit_test(test_characters),   cmocka_unit_test(test_lm_errors),
      cmocka_unit_test(test_bpe),   cmocka_unit_test(test_vocabularies), cmocka_unit_test(test_pickles),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
