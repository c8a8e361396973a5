/* SPDX-License-Identifier: Apache-2.0
 *
 * Map from strings to pointers, iterated in order of insertion. Keys are copied. Open addressing, FNV-1a.
 */
#ifndef CRN_BASE_MAP_H
#define CRN_BASE_MAP_H

#include "base/status.h"

typedef struct crn_map_entry {
  const char *key; /* owned by the map */
  void *value;
} crn_map_entry;

typedef struct crn_map {
  crn_map_entry *entries; /* n of them, in order of insertion; a removed one has key NULL */
  size_t n, cap;
  uint32_t *slots; /* index+1 into entries, 0 = free */
  size_t n_slots;
} crn_map; /* zero-initialised = empty */

/* Insert or replace. CRN_E_MEMORY when memory is out. */
crn_status crn_map_set(crn_map *m, const char *key, void *value);
void *crn_map_get(const crn_map *m, const char *key); /* NULL if absent */
bool crn_map_has(const crn_map *m, const char *key);
bool crn_map_remove(crn_map *m, const char *key);
void crn_map_free(crn_map *m); /* values are not touched */
uint64_t crn_hash(const void *bytes, size_t n);

#endif
