/* SPDX-License-Identifier: Apache-2.0
 *
 * A checkpoint is there when its .index is. A new one is easy: data file first, then the index, each written under a
 * temporary name, synced and renamed. Overwriting is not: the index names its data file only by count of shards, so
 * between two renames an old index would see new data. Therefore three steps, each leaving a whole checkpoint:
 *
 *   0. P.index (1 shard) + P.data-00000-of-00001         old
 *   1. new data at P.data-00000-of-00002, unknown to any index; then P.index := new index that claims 2 shards
 *   2. the same data (a hard link) over P.data-00000-of-00001, which no index uses now
 *   3. P.index := new index with 1 shard; P.data-00000-of-00002 is removed
 *
 * Every rename is made durable before the next one. If the old checkpoint has another number of shards than 1 (also
 * after a crash in step 2), its files don't collide with the new ones and the easy way is right.
 */
#include "ckpt/commit.h"

#include "ckpt/entry.h"
#include "ckpt/path.h"
#include "ckpt/table.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { MID_SHARDS = 2 };

static bool sleep_ms(void *user, int64_t ms) {
  (void)user;
  struct timespec left = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
  return true;
}

crn_save_opts crn_save_defaults(void) { return (crn_save_opts){.retry_delay_ms = 10000, .sleep = sleep_ms}; }

crn_status crn_retry(const crn_save_opts *opts, const char *what, crn_attempt_fn attempt, void *arg, crn_err *err) {
  const crn_fileops *ops = opts->ops ? opts->ops : crn_fileops_system();
  for (;;) {
    crn_err reason = {0};
    int error = 0;
    crn_status status = attempt(arg, ops, &error, &reason);
    if (status == CRN_OK) return CRN_OK;
    bool again = status == CRN_E_FILE && crn_errno_passes(error);
    if (again)
      crn_warnf(opts->log, "%s: %s; trying again in %g s", what, crn_err_text(&reason),
                (double)opts->retry_delay_ms / 1000);
    if (again && !(opts->sleep ? opts->sleep : sleep_ms)(opts->sleep_user, opts->retry_delay_ms)) {
      again = false;
      status = CRN_E_INTERRUPTED;
    }
    if (!again) crn_fail(err, status, "%s: %s", what, crn_err_text(&reason));
    crn_err_clear(&reason);
    if (!again) return status;
  }
}

/* State of one attempt. Names are in the arena. */
typedef struct attempt {
  const crn_commit *c;
  const crn_fileops *ops;
  crn_arena arena;
  crn_str index;
  const char *index_path, *data_path, *mid_path;
  const char *index_tmp, *mid_index_tmp, *data_tmp;
  bool data_in_place; /* data_path is new, but no index uses it yet */
  bool mid_in_place;  /* mid_path is new, but no index uses it yet */
  int *error;
  crn_err *err;
} attempt;

/* Shards of the checkpoint that is in place; 0: there is none. One that can't be read counts as the usual one shard. */
static int32_t shards_in_place(crn_arena *a, const char *index_path) {
  struct stat st;
  if (stat(index_path, &st) != 0 && errno == ENOENT) return 0;
  const uint8_t *bytes;
  size_t n;
  crn_table_items items;
  crn_bundle_header header;
  bool good = crn_ckpt_read_file(a, index_path, &bytes, &n, NULL) == CRN_OK &&
              crn_table_read(a, bytes, n, &items, NULL) == CRN_OK && items.n > 0 && items.at[0].key_len == 0 &&
              crn_header_parse(&items.at[0], &header, NULL) == CRN_OK;
  return good && header.n_shards > 0 ? header.n_shards : 1;
}

static bool make_names(attempt *t) {
  crn_arena *a = &t->arena;
  const char *prefix = t->c->prefix;
  t->index_path = crn_ckpt_index_path(a, prefix);
  t->data_path = crn_ckpt_data_path(a, prefix, 0, 1);
  t->mid_path = crn_ckpt_data_path(a, prefix, 0, MID_SHARDS);
  t->index_tmp = crn_arena_printf(a, "%s.index.tmp", prefix);
  t->mid_index_tmp = crn_arena_printf(a, "%s.index.mid.tmp", prefix);
  t->data_tmp = crn_arena_printf(a, "%s.data-00000-of-00001.tmp", prefix);
  return !a->failed;
}

static crn_status write_index(attempt *t, const char *path, int32_t n_shards) {
  crn_str_clear(&t->index);
  CRN_TRY(t->c->build_index(t->c->arg, n_shards, &t->index, t->err));
  crn_span span = {t->index.p, t->index.len};
  return crn_ckpt_file_write(t->ops, path, &span, 1, t->error, t->err);
}

static crn_status write_data(attempt *t) {
  return crn_ckpt_file_write(t->ops, t->data_tmp, t->c->data, t->c->n_data, t->error, t->err);
}

/* Rename, note at once that it happened, then make it durable. */
static crn_status put_in_place(attempt *t, const char *from, const char *to, bool *flag, bool value) {
  CRN_TRY(crn_ckpt_file_rename(t->ops, from, to, t->error, t->err));
  if (flag) *flag = value;
  return crn_ckpt_file_sync_dir(t->ops, to, t->error, t->err);
}

static crn_status put_new(attempt *t) {
  CRN_TRY(put_in_place(t, t->data_tmp, t->data_path, &t->data_in_place, true));
  return put_in_place(t, t->index_tmp, t->index_path, &t->data_in_place, false);
}

static crn_status overwrite(attempt *t) {
  const crn_fileops *ops = t->ops;
  CRN_TRY(put_in_place(t, t->data_tmp, t->mid_path, &t->mid_in_place, true));
  CRN_TRY(put_in_place(t, t->mid_index_tmp, t->index_path, &t->mid_in_place, false));
  if (ops->link(ops->user, t->mid_path, t->data_tmp) != 0) CRN_TRY(write_data(t)); /* file system without links */
  CRN_TRY(put_in_place(t, t->data_tmp, t->data_path, &t->data_in_place, true));
  CRN_TRY(put_in_place(t, t->index_tmp, t->index_path, &t->data_in_place, false));
  return CRN_OK;
}

static void remove_shards(attempt *t, int32_t n_shards) {
  for (int32_t i = 0; i < n_shards; i++) {
    const char *path = crn_ckpt_data_path(&t->arena, t->c->prefix, i, n_shards);
    if (path) t->ops->unlink(t->ops->user, path); /* the new checkpoint is in place: left-overs do no harm */
  }
}

static crn_status write_and_place(attempt *t) {
  CRN_TRY(crn_ckpt_file_make_parents(t->ops, t->index_path, t->error, t->err));
  int32_t n_old = shards_in_place(&t->arena, t->index_path);
  /* Whatever can run out of space comes before anything in place is touched. */
  CRN_TRY(write_data(t));
  CRN_TRY(write_index(t, t->index_tmp, 1));
  if (n_old == 1) CRN_TRY(write_index(t, t->mid_index_tmp, MID_SHARDS));
  CRN_TRY(n_old == 1 ? overwrite(t) : put_new(t));
  if (n_old > 1) remove_shards(t, n_old);
  if (n_old != MID_SHARDS) remove_shards(t, MID_SHARDS); /* of this or of an interrupted save */
  return CRN_OK;
}

static void remove_temporaries(attempt *t) {
  const char *paths[] = {t->data_tmp, t->index_tmp, t->mid_index_tmp, t->data_in_place ? t->data_path : NULL,
                         t->mid_in_place ? t->mid_path : NULL};
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
    if (paths[i]) t->ops->unlink(t->ops->user, paths[i]);
}

crn_status crn_commit_attempt(void *arg, const crn_fileops *ops, int *error, crn_err *err) {
  attempt t = {.c = arg, .ops = ops, .error = error, .err = err};
  crn_status status = make_names(&t) ? write_and_place(&t) : crn_err_memory(err);
  if (status != CRN_OK) remove_temporaries(&t);
  crn_str_free(&t.index);
  crn_arena_free(&t.arena);
  return status;
}
