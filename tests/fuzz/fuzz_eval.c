/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer: any text is compiled as an expression of an eval layer and run on two small tensors, and as an activation;
 * or refused with a message.
 */
#include "kernel/kernel.h"
#include "tensor/eval.h"
#include "tensor/mem.h"

#include <string.h>

#include "memory_limit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static crn_status name(void *user, crn_run *r, const char *text, crn_ev *out, bool *found) {
  static const float x[6] = {0.5f, -1, 2, 0, 3, -4};
  static const int32_t i[6] = {1, 0, -2, 5, 3, 7};
  (void)user;
  *found = strcmp(text, "x") == 0 || strcmp(text, "i") == 0;
  if (!*found) return CRN_OK;
  bool real = text[0] == 'x';
  crn_tensor *t = crn_t_copy_in(r, real ? CRN_F32 : CRN_I32, 2, (const int64_t[]){2, 3}, real ? (const void *)x : i);
  if (!t) return r->err->code;
  t->needs_grad = real;
  *out = crn_ev_of_tensor(t);
  return CRN_OK;
}

static void run_text(const char *text) {
  crn_arena a = {0};
  crn_err err = {0};
  crn_eval *e = NULL;
  crn_activation *act = NULL;
  crn_run r;
  crn_ev out = crn_ev_none();
  crn_mem *mem = crn_mem_new();
  if (!mem || crn_run_init(&r, mem, crn_kernels_nth(0), NULL, NULL, &err) != CRN_OK) abort();
  r.recording = true;
  crn_status s = crn_eval_compile(&a, text, &e, &err);
  if (s == CRN_OK) s = crn_eval_run(&r, e, &(crn_eval_env){.name = name}, &out);
  if ((s == CRN_OK) != (crn_err_text(&err)[0] == '\0')) abort();
  if (s == CRN_OK && out.kind == CRN_EV_TENSOR && crn_dtype_is_float(out.u.t->dtype))
    (void)crn_backward(&r, out.u.t, NULL);
  crn_err_clear(&err);
  s = crn_activation_compile(&a, text, &act, &err);
  if (s == CRN_OK)
    (void)crn_activation_run(&r, act, crn_t_full(&r, CRN_F32, 1, (const int64_t[]){3}, 0.5));
  else if (crn_err_text(&err)[0] == '\0')
    abort();
  crn_run_deinit(&r);
  crn_mem_free_all(mem);
  crn_err_clear(&err);
  crn_arena_free(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size + 1);
  if (!text) return 0;
  memcpy(text, data, size);
  text[size] = '\0';
  run_text(text);
  free(text);
  return 0;
}
