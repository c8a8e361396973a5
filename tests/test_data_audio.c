/* SPDX-License-Identifier: Apache-2.0
 *
 * Audio: features against numbers computed with librosa 0.11 (tests/data/data/features.h5), zip files, OggZipDataset.
 */
#include "data_helpers.h"

#include <math.h>

#include "data/features.h"
#include "data/zip.h"

#define DATA CRN_SOURCE_DIR "/tests/data/data/"

static void expect(crn_err *err, crn_status code, crn_status wanted, const char *word) {
  if (code != wanted) fail_msg("status %d instead of %d: %s", (int)code, (int)wanted, crn_err_text(err));
  if (!strstr(crn_err_text(err), word)) fail_msg("\"%s\" lacks \"%s\"", crn_err_text(err), word);
  crn_err_clear(err);
}

static char *slurp(const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  fseek(f, 0, SEEK_END);
  *n = (size_t)ftell(f);
  rewind(f);
  char *p = malloc(*n);
  assert_int_equal(fread(p, 1, *n, f), *n);
  fclose(f);
  return p;
}

/* Within 2e-5 of the greatest value: what is left is the rounding of the stored float32 numbers and of other orders of
 * sums. */
static void compare(const crn_array *got, const char *name) {
  crn_err err = {0};
  crn_h5 *h5;
  crn_h5_info info;
  float *ref;
  TEST_OK(crn_h5_open(DATA "features.h5", &h5, &err));
  TEST_OK(crn_h5_read(h5, name, CRN_NT_F32, (void **)&ref, &info, &err));
  assert_int_equal(got->shape[0], info.shape[0]);
  assert_int_equal(got->shape[1], info.shape[1]);
  float greatest = 0;
  for (int64_t i = 0; i < info.n; i++) greatest = fmaxf(greatest, fabsf(ref[i]));
  for (int64_t i = 0; i < info.n; i++)
    if (!(fabsf(((const float *)got->data)[i] - ref[i]) <= 2e-5f * greatest))
      fail_msg("%s: element %d: %.7g instead of %.7g", name, (int)i, (double)((const float *)got->data)[i],
               (double)ref[i]);
  crn_free(ref);
  crn_h5_close(h5, NULL);
}

static void check_features(const char *options, const char *name) {
  crn_err err = {0};
  crn_arena a = {0};
  size_t n;
  char *bytes = slurp(DATA "tone.wav", &n);
  crn_features *f;
  crn_audio audio;
  crn_array out = {0};
  TEST_OK(crn_features_new(literal(&a, options), NULL, NULL, &f, &err));
  for (int i = 0; i < 2; i++) { /* the tables are made once */
    TEST_OK(crn_audio_decode(bytes, n, "tone.wav", &audio, &err));
    assert_int_equal(audio.n, 8123);
    assert_int_equal(audio.rate, 16000);
    TEST_OK(crn_features_compute(f, &audio, "tone.wav", &out, &err));
    assert_int_equal(out.shape[1], crn_features_dim(f));
    compare(&out, name);
    crn_audio_free(&audio);
  }
  crn_array_free(&out);
  crn_features_free(f);
  crn_arena_free(&a);
  free(bytes);
}

static void test_features(void **state) {
  (void)state;
  check_features("{}", "mfcc_reflect");
  check_features("{'features': 'mfcc', 'num_feature_filters': 40, 'feature_options': {'pad_mode': 'constant'}}",
                 "mfcc_zero");
  check_features("{'num_feature_filters': 13, 'feature_options': {'n_mels': 64, 'fmin': 60, 'fmax': 7600, 'center': "
                 "False}}",
                 "mfcc_nocenter");
  check_features("{'num_feature_filters': 20, 'with_delta': 2}", "mfcc_delta2");
  check_features("{'features': 'log_mel_filterbank'}", "log_mel");
  check_features("{'features': 'log_log_mel_filterbank'}", "log_log_mel");
  check_features("{'features': 'db_mel_filterbank'}", "db_mel");
  check_features("{'features': 'linear_spectrogram', 'num_feature_filters': 256}", "linear");
  check_features("{'preemphasis': 0.97, 'norm_mean': 'per_seq', 'norm_std_dev': 'per_seq', 'join_frames': 3}",
                 "pre_norm_join");
}

static void test_raw_and_norm(void **state) {
  (void)state;
  crn_err err = {0};
  crn_arena a = {0};
  crn_features *f;
  double samples[4] = {0.5, -0.25, 0, 0.125};
  crn_array out = {0};
  TEST_OK(crn_features_new(literal(&a, "{'features': 'raw', 'norm_mean': 0.5, 'norm_std_dev': [2]}"), NULL, NULL, &f,
                           &err));
  crn_audio audio = {.samples = samples, .n = 4, .channels = 1, .rate = 8000};
  TEST_OK(crn_features_compute(f, &audio, "x", &out, &err));
  static const float expected[] = {0.25f, -0.5f, -0.25f, -0.125f}; /* peak first: 1, -.5, 0, .25 */
  for (int i = 0; i < 4; i++) assert_float_equal(((float *)out.data)[i], expected[i], 1e-7);
  crn_features_free(f);
  crn_array_free(&out);
  static const struct {
    const char *options, *word;
    crn_status code;
  } wrong[] = {
      {"{'feature': 'mfcc'}", "'features'", CRN_E_CONFIG},
      {"{'features': 'mffc'}", "'mfcc'", CRN_E_CONFIG},
      {"{'features': 'f0'}", "not implemented", CRN_E_NOT_IMPLEMENTED},
      {"{'random_permute': True}", "'random_permute'", CRN_E_NOT_IMPLEMENTED},
      {"{'norm_mean': [1, 2]}", "expected 40 numbers, got 2", CRN_E_CONFIG},
      {"{'norm_mean': '/no/such/file'}", "/no/such/file", CRN_E_FILE},
      {"{'window_len': -1}", "'window_len'", CRN_E_CONFIG},
      {"{'num_feature_filters': 200}", "n_mels", CRN_E_CONFIG},
      {"{'feature_options': {'fmn': 1}}", "'fmin'", CRN_E_CONFIG},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    expect(&err, crn_features_new(literal(&a, wrong[i].options), NULL, NULL, &f, &err), wrong[i].code, wrong[i].word);
  TEST_OK(crn_features_new(literal(&a, "{'with_delta': 1, 'sample_rate': 8000}"), NULL, NULL, &f, &err));
  expect(&err, crn_features_compute(f, &audio, "x", &out, &err), CRN_E_DATA, "9 frames");
  audio.rate = 16000;
  expect(&err, crn_features_compute(f, &audio, "x", &out, &err), CRN_E_DATA, "16000");
  crn_features_free(f);
  crn_array_free(&out);
  crn_arena_free(&a);
}

static void test_oggzip(void **state) {
  (void)state;
  crn_err err = {0};
  crn_dataset *ds;
  TEST_OK(new_dataset(
      "{'class': 'OggZipDataset', 'path': '" DATA "corpus.zip', 'audio': {'features': 'mfcc'}, "
      "'targets': {'class': 'CharacterTargets', 'unknown_label': '?', 'labels': ['?', ' ', 'l', 'o', 'b', 'c'], "
      "'vocab_file': None}, 'targets_post_process': ['lowercase', \"get_remove_chars('()')\"], "
      "'seq_ordering': 'sorted'}",
      "", &ds, &err));
  TEST_OK(crn_dataset_begin_epoch(ds, 1, NULL, &err));
  check_order(ds, "corpus/rec/3 b.wav corpus/rec/1");
  size_t data = (size_t)crn_dataset_find_key(ds, "data"), classes = (size_t)crn_dataset_find_key(ds, "classes");
  size_t orth = (size_t)crn_dataset_find_key(ds, "orth"), raw = (size_t)crn_dataset_find_key(ds, "raw");
  crn_array x = {0};
  int64_t n;
  TEST_OK(crn_dataset_length(ds, 2, data, &n, &err));
  assert_int_equal(n, 51);
  TEST_OK(crn_dataset_read(ds, 2, data, 0, n, &x, &err));
  compare(&x, "mfcc_reflect");
  TEST_OK(crn_dataset_length(ds, 1, data, &n, &err));
  assert_int_equal(n, 21);
  static const int32_t labels[] = {0, 0, 2, 2, 3, 1, 0, 3, 0, 2, 0};
  TEST_OK(crn_dataset_length(ds, 2, classes, &n, &err));
  assert_int_equal(n, 11);
  TEST_OK(crn_dataset_read(ds, 2, classes, 0, n, &x, &err));
  assert_memory_equal(x.data, labels, sizeof labels);
  TEST_OK(crn_dataset_length(ds, 2, orth, &n, &err));
  assert_int_equal(n, 13);
  TEST_OK(crn_dataset_read(ds, 2, orth, 6, 9, &x, &err));
  assert_memory_equal(x.data, "(WO", 3);
  TEST_OK(crn_dataset_read(ds, 2, raw, 0, 1, &x, &err));
  assert_int_equal(x.rank, 0);
  assert_string_equal(*(const char **)x.data, "Hello (WORLD)");
  crn_array_free(&x);
  /* a batch of them */
  crn_arena a = {0};
  crn_batch_options o = {.batch_size = literal(&a, "1000"), .max_seqs = -1};
  crn_batch_key keys[] = {{.name = "data"}, {.name = "classes"}, {.name = "raw"}};
  crn_batcher *b;
  crn_batch *batch;
  TEST_OK(crn_batcher_new(ds, &o, keys, 3, &b, &err));
  TEST_OK(crn_batcher_next(b, &batch, &err));
  assert_int_equal(batch->n_seqs, 3);
  assert_int_equal(batch->arrays[0].shape[1], 51);
  assert_int_equal(batch->arrays[1].lengths[0], 0);
  assert_int_equal(batch->arrays[2].rank, 1);
  assert_string_equal(((const char **)batch->arrays[2].data)[1], "b c");
  crn_batch_free(batch);
  crn_batcher_free(b);
  crn_arena_free(&a);
  crn_dataset_free(ds);
}

static void check_zip_order(const char *options, int64_t epoch, const char *expected) {
  crn_err err = {0};
  crn_dataset *ds;
  char text[600];
  snprintf(text, sizeof text,
           "{'class': 'OggZipDataset', 'path': ['" DATA "corpus.zip'], 'audio': None, 'targets': None, %s}", options);
  TEST_OK(new_dataset(text, "", &ds, &err));
  TEST_OK(crn_dataset_begin_epoch(ds, epoch, NULL, &err));
  check_order(ds, expected);
  assert_int_equal(crn_dataset_find_key(ds, "data"), -1);
  crn_dataset_free(ds);
}

static void test_subsets(void **state) {
  (void)state;
  const char *segments = temp_path("segments");
  FILE *f = fopen(segments, "w");
  fputs("b.wav\ncorpus/rec/3\n", f);
  fclose(f);
  char option[300];
  snprintf(option, sizeof option, "'segment_file': '%s'", segments);
  check_zip_order(option, 1, "b.wav corpus/rec/3");
  remove(segments);
  /* RandomState(42).permutation(3) = 0 1 2; RandomState(1).permutation(3) = 0 2 1 */
  check_zip_order("'fixed_random_subset': 2, 'fixed_random_subset_seed': 1", 1, "corpus/rec/1 corpus/rec/3");
  check_zip_order("'fixed_random_subset': 0.7", 1, "corpus/rec/1 b.wav");
  /* lengths 50, 20, 11: the mean of the shortest is 11, of two 15.5: for 12 the search ends at two */
  const char *filter = "'epoch_wise_filter': {(1, 2): {'max_mean_len': 12}, (None, None): {}}";
  check_zip_order(filter, 2, "b.wav corpus/rec/3");
  check_zip_order(filter, 3, "corpus/rec/1 b.wav corpus/rec/3");
}

static void test_zip(void **state) {
  (void)state;
  crn_err err = {0};
  crn_zip *z;
  char *data;
  size_t n;
  TEST_OK(crn_zip_open(DATA "corpus.zip", &z, &err));
  assert_int_equal(crn_zip_count(z), 4);
  assert_string_equal(crn_zip_name(z, 1), "corpus/a.wav");
  TEST_OK(crn_zip_read(z, "corpus/a.wav", &data, &n, &err));
  size_t m;
  char *same = slurp(DATA "tone.wav", &m);
  assert_int_equal(n, m);
  assert_memory_equal(data, same, n);
  crn_free(data);
  free(same);
  expect(&err, crn_zip_read(z, "corpus/x.wav", &data, &n, &err), CRN_E_FILE, "'corpus/x.wav'");
  crn_zip_close(z);
  expect(&err, crn_zip_open(DATA "tone.wav", &z, &err), CRN_E_FORMAT, "no zip file");
  /* damage: bytes flipped, cuts; the WAV files inside too, as stored members have no other protection than the CRC */
  char *bytes = slurp(DATA "corpus.zip", &m);
  const char *broken = temp_path("broken.zip");
  for (size_t i = 0; i < m + 100; i += i < m ? 7 : 1) {
    size_t at = i < m ? i : (i - m) * m / 100;
    char old = bytes[at];
    if (i < m) bytes[at] = (char)(old ^ (1 << i % 8));
    FILE *f = fopen(broken, "wb");
    assert_int_equal(fwrite(bytes, 1, i < m ? m : at, f), i < m ? m : at);
    fclose(f);
    bytes[at] = old;
    if (crn_zip_open(broken, &z, &err) != CRN_OK) {
      assert_non_null(strstr(crn_err_text(&err), broken));
      crn_err_clear(&err);
      continue;
    }
    for (size_t j = 0; j < crn_zip_count(z); j++) {
      if (crn_zip_read(z, crn_zip_name(z, j), &data, &n, &err) == CRN_OK) {
        crn_audio audio;
        if (crn_audio_decode(data, n, "x", &audio, &err) == CRN_OK) crn_audio_free(&audio);
        crn_free(data);
      }
      crn_err_clear(&err);
    }
    crn_zip_close(z);
  }
  free(bytes);
  remove(broken);
}

/* Other kinds through libsndfile, where it is installed; without it the message says so. */
static void test_sndfile(void **state) {
  (void)state;
  crn_err err = {0};
  size_t n, m, k;
  char *wav = slurp(DATA "tone.wav", &n), *flac = slurp(DATA "tone.flac", &m), *ogg = slurp(DATA "tone.ogg", &k);
  crn_audio a, b, c;
  crn_status code = crn_audio_decode(flac, m, "tone.flac", &b, &err);
  if (code == CRN_E_FILE) {
    assert_non_null(strstr(crn_err_text(&err), "libsndfile"));
    crn_err_clear(&err);
    free(wav), free(flac), free(ogg);
    skip();
  }
  TEST_OK(code);
  TEST_OK(crn_audio_decode(wav, n, "tone.wav", &a, &err));
  TEST_OK(crn_audio_decode(ogg, k, "tone.ogg", &c, &err));
  assert_int_equal(a.n, b.n);
  assert_int_equal(a.n, c.n);
  assert_int_equal(a.rate, c.rate);
  double off = 0, all = 0;
  for (int64_t i = 0; i < a.n; i++) {
    assert_float_equal(a.samples[i], b.samples[i], 0);
    off += (a.samples[i] - c.samples[i]) * (a.samples[i] - c.samples[i]);
    all += a.samples[i] * a.samples[i];
  }
  assert_true(off < 0.1 * all); /* ogg vorbis loses something */
  crn_audio_free(&a);
  crn_audio_free(&b);
  crn_audio_free(&c);
  for (size_t i = 0; i < m; i += 3) { /* damage */
    char old = flac[i];
    flac[i] = (char)(old ^ 0x55);
    if (crn_audio_decode(flac, m, "x", &a, &err) == CRN_OK) crn_audio_free(&a);
    crn_err_clear(&err);
    flac[i] = old;
  }
  free(wav), free(flac), free(ogg);
}

static void test_wav_damage(void **state) {
  (void)state;
  size_t n;
  char *bytes = slurp(DATA "tone.wav", &n);
  for (size_t i = 0; i < 200; i++) {
    crn_err err = {0};
    crn_audio audio;
    size_t at = i % 60;
    char old = bytes[at];
    bytes[at] = (char)(old ^ (0x81 >> i % 3));
    if (crn_audio_decode(bytes, i < 100 ? n : i % 70, "x.wav", &audio, &err) == CRN_OK)
      crn_audio_free(&audio);
    else
      assert_non_null(strstr(crn_err_text(&err), "x.wav"));
    crn_err_clear(&err);
    bytes[at] = old;
  }
  free(bytes);
}

static void check_libri(const char *options, int64_t epoch, const char *expected, int64_t frames) {
  crn_err err = {0};
  crn_dataset *ds;
  char text[700];
  snprintf(text, sizeof text,
           "{'class': 'LibriSpeechCorpus', 'path': '" DATA "libri', 'audio': {}, 'chars': {'labels': ['?', ' ', 'a'], "
           "'vocab_file': None, 'unknown_label': '?'}, 'orth_post_process': 'lowercase', %s}",
           options);
  TEST_OK(new_dataset(text, "", &ds, &err));
  TEST_OK(crn_dataset_begin_epoch(ds, epoch, NULL, &err));
  check_order(ds, expected);
  int64_t n;
  TEST_OK(crn_dataset_length(ds, 0, (size_t)crn_dataset_find_key(ds, "data"), &n, &err));
  assert_int_equal(n, frames);
  crn_dataset_free(ds);
}

static void test_librispeech(void **state) {
  (void)state;
  crn_err err = {0};
  crn_dataset *ds;
  check_libri("'prefix': 'dev'", 1, "dev-clean-7-12-0000 dev-clean-7-12-0001 dev-other-3-1-0000", 26);
  check_libri("'prefix': 'dev-other'", 1, "dev-other-3-1-0000", 11);
  check_libri("'prefix': 'dev', 'seq_ordering': 'sorted'", 1,
              "dev-clean-7-12-0001 dev-other-3-1-0000 dev-clean-7-12-0000", 21);
  check_libri("'prefix': 'train', 'use_zip': True, 'use_ogg': True", 1,
              "train-clean-100-9-5-0000 train-clean-100-20-5-0000 train-clean-100-20-5-0002 train-clean-100-20-5-0010",
              11);
  check_libri("'prefix': 'dev', 'epoch_wise_filter': {(None, 2): {'subdirs': ['dev-other']}}", 2, "dev-other-3-1-0000",
              11);
  /* lengths 16, 1, 3: in the older rule the first midpoint whose mean isn't above 5 is taken: of the 2 shortest, and
   * the order becomes sorted */
  check_libri("'prefix': 'dev', 'seq_ordering': 'reverse', 'epoch_wise_filter': {(1, 1): {'max_mean_len': 5}}", 1,
              "dev-clean-7-12-0001 dev-other-3-1-0000", 21);
  check_libri("'prefix': 'dev', 'seq_ordering': 'reverse', 'epoch_wise_filter': {(1, 1): {'max_mean_len': 1.5, "
              "'use_new_filter': True}}",
              1, "dev-other-3-1-0000 dev-clean-7-12-0001", 11);
  expect(&err, new_dataset("{'class': 'LibriSpeechCorpus', 'path': '" DATA "libri', 'prefix': 'test'}", "", &ds, &err),
         CRN_E_FILE, "'test'");
  expect(&err, new_dataset("{'class': 'LibriSpeechCorpus', 'path': '/no', 'prefix': 'test'}", "", &ds, &err),
         CRN_E_FILE, "/no");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_features), cmocka_unit_test(test_raw_and_norm), cmocka_unit_test(test_oggzip),
      cmocka_unit_test(test_subsets),  cmocka_unit_test(test_zip),          cmocka_unit_test(test_wav_damage),
      cmocka_unit_test(test_sndfile),  cmocka_unit_test(test_librispeech),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
