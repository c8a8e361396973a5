/* SPDX-License-Identifier: Apache-2.0
 *
 * CRC-32C (Castagnoli), the checksum of TensorFlow's checkpoints, event files and TFRecords, and its "masked" form
 * (rotated and shifted by a constant, so that a checksum over data that holds checksums stays good).
 */
#ifndef CRN_CKPT_CRC32C_H
#define CRN_CKPT_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crn_crc32c(const void *bytes, size_t n);
/* Checksum of A followed by bytes, given crc = checksum of A (0 for an empty A). */
uint32_t crn_crc32c_extend(uint32_t crc, const void *bytes, size_t n);
/* The same by table only; the twin that tests compare with. */
uint32_t crn_crc32c_table(uint32_t crc, const void *bytes, size_t n);
uint32_t crn_crc32c_mask(uint32_t crc);
uint32_t crn_crc32c_unmask(uint32_t masked);

#endif
