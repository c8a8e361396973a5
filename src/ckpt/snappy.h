/* SPDX-License-Identifier: Apache-2.0
 *
 * Decompression of snappy blocks (format_description.txt of the snappy project). TensorFlow writes indexes without
 * compression; tables of other tools may have it, so reading is here and writing isn't.
 */
#ifndef CRN_CKPT_SNAPPY_H
#define CRN_CKPT_SNAPPY_H

#include "base/arena.h"

/* Decompressed bytes in the arena. CRN_E_FORMAT for a damaged block. */
crn_status crn_snappy_read(crn_arena *a, const uint8_t *bytes, size_t n, const uint8_t **out, size_t *out_n,
                           crn_err *err);

#endif
