/* SPDX-License-Identifier: Apache-2.0
 *
 * String map: entries in order of insertion plus a hash table of indices into them (linear probing). A removed entry
 * keeps its place with key NULL, which also serves as the table's tombstone, until the next growth packs the entries.
 */
#include "base/map.h"

#include "base/arena.h"

#include <string.h>

uint64_t crn_hash(const void *bytes, size_t n) {
  const unsigned char *p = bytes;
  uint64_t h = 14695981039346656037u; /* FNV-1a, 64 bit */
  for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 1099511628211u;
  return h;
}

static size_t first_slot(const crn_map *m, const char *key) {
  uint64_t h = crn_hash(key, strlen(key));
  return (size_t)(h ^ (h >> 32)) & (m->n_slots - 1);
}

static crn_map_entry *find(const crn_map *m, const char *key) {
  if (m->n_slots == 0) return NULL;
  for (size_t s = first_slot(m, key); m->slots[s]; s = (s + 1) & (m->n_slots - 1)) {
    crn_map_entry *e = &m->entries[m->slots[s] - 1];
    if (e->key && strcmp(e->key, key) == 0) return e;
  }
  return NULL;
}

static void enter(crn_map *m, size_t index) {
  size_t s = first_slot(m, m->entries[index].key);
  while (m->slots[s]) s = (s + 1) & (m->n_slots - 1);
  m->slots[s] = (uint32_t)(index + 1);
}

/* Pack the entries and make room for one more. */
static crn_status make_room(crn_map *m) {
  size_t live = 0;
  for (size_t i = 0; i < m->n; i++) live += m->entries[i].key != NULL;
  size_t cap = 8;
  while (cap < live + live / 2 + 1) cap *= 2;
  if (cap > UINT32_MAX / 4) return CRN_E_MEMORY;
  uint32_t *slots = crn_calloc(cap * 2, sizeof *slots);
  crn_map_entry *entries = crn_malloc(cap * sizeof *entries);
  if (!slots || !entries) {
    crn_free(slots);
    crn_free(entries);
    return CRN_E_MEMORY;
  }
  size_t n = 0;
  for (size_t i = 0; i < m->n; i++)
    if (m->entries[i].key) entries[n++] = m->entries[i];
  crn_free(m->entries);
  crn_free(m->slots);
  *m = (crn_map){.entries = entries, .n = n, .cap = cap, .slots = slots, .n_slots = cap * 2};
  for (size_t i = 0; i < n; i++) enter(m, i);
  return CRN_OK;
}

crn_status crn_map_set(crn_map *m, const char *key, void *value) {
  crn_map_entry *e = find(m, key);
  if (e) {
    e->value = value;
    return CRN_OK;
  }
  if (m->n == m->cap) CRN_TRY(make_room(m));
  char *copy = crn_strdup(key);
  if (!copy) return CRN_E_MEMORY;
  m->entries[m->n++] = (crn_map_entry){.key = copy, .value = value};
  enter(m, m->n - 1);
  return CRN_OK;
}

void *crn_map_get(const crn_map *m, const char *key) {
  crn_map_entry *e = find(m, key);
  return e ? e->value : NULL;
}

bool crn_map_has(const crn_map *m, const char *key) { return find(m, key) != NULL; }

bool crn_map_remove(crn_map *m, const char *key) {
  crn_map_entry *e = find(m, key);
  if (!e) return false;
  crn_free((void *)(uintptr_t)e->key);
  *e = (crn_map_entry){0};
  return true;
}

void crn_map_free(crn_map *m) {
  for (size_t i = 0; i < m->n; i++) crn_free((void *)(uintptr_t)m->entries[i].key);
  crn_free(m->entries);
  crn_free(m->slots);
  memset(m, 0, sizeof *m);
}
