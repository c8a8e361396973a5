/* SPDX-License-Identifier: Apache-2.0
 *
 * Large pieces of memory that are read over and over (packed weights, the pool of values): in huge pages where the
 * system has them, processors find addresses without walks through page tables, and first touches cost less.
 *
 *   void *raw = crn_malloc(crn_pages_room(bytes));
 *   char *data = crn_pages_place(raw, bytes, 0);       data is aligned; free raw
 */
#ifndef CRN_BASE_PAGES_H
#define CRN_BASE_PAGES_H

#include <stddef.h>

/* How much to allocate, so that bytes find an aligned place in it. */
size_t crn_pages_room(size_t bytes);
/* That place: aligned to 64 bytes, large ones to a huge page and marked for such pages (the system may refuse) but for
 * the first `ordinary` bytes: memory that is used little by little shouldn't become resident in pieces of 2 MiB. */
char *crn_pages_place(void *raw, size_t bytes, size_t ordinary);

#endif
