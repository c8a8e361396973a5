/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8 text as Python sees it: characters, white space, splitting; and a growing list of short strings.
 */
#ifndef CRN_DATA_WORDS_H
#define CRN_DATA_WORDS_H

#include "base/str.h"

/* Bytes of the character that starts here (1..4; 1 for damaged bytes); *code: its code point. s must not be at the
 * end. */
size_t crn_utf8_next(const char *s, uint32_t *code);
bool crn_is_space(uint32_t code); /* Python's str.isspace */
/* Runs of white space become one space, none at the ends; appended to out. */
void crn_collapse_spaces(const char *text, crn_str *out);

/* Strings one after the other in one buffer. Zero-initialised = empty. */
typedef struct crn_words {
  crn_str bytes;
  size_t *starts;
  size_t n, cap;
  bool failed;
} crn_words;

void crn_words_add(crn_words *w, const char *text, size_t len);
void crn_words_addz(crn_words *w, const char *text);
const char *crn_words_at(const crn_words *w, size_t i);
bool crn_words_ok(const crn_words *w);
void crn_words_pop(crn_words *w);   /* remove the last one */
void crn_words_clear(crn_words *w); /* keeps memory */
void crn_words_free(crn_words *w);
void crn_words_split(crn_words *w, const char *text); /* add the parts between white space */
/* The first part of text between white space, *len bytes long; *len = 0: there is none. */
const char *crn_words_next(const char *text, size_t *len);

#endif
