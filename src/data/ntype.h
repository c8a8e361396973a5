/* SPDX-License-Identifier: Apache-2.0
 *
 * Types of the elements of data arrays, named as NumPy names them. Files, data sets and batches use these; the engine
 * converts to its own types by name when a batch is fed.
 */
#ifndef CRN_DATA_NTYPE_H
#define CRN_DATA_NTYPE_H

#include "base/status.h"

typedef enum crn_ntype {
  CRN_NT_NONE, /* unknown, or a type that is not supported */
  CRN_NT_BOOL, /* one byte, 0 or 1 */
  CRN_NT_I8,
  CRN_NT_U8,
  CRN_NT_I16,
  CRN_NT_U16,
  CRN_NT_I32,
  CRN_NT_U32,
  CRN_NT_I64,
  CRN_NT_U64,
  CRN_NT_F32,
  CRN_NT_F64,
  CRN_NT_C64,  /* pair of float */
  CRN_NT_C128, /* pair of double */
  CRN_NT_STR   /* const char *, NUL-terminated UTF-8 */
} crn_ntype;

size_t crn_ntype_bytes(crn_ntype t);           /* bytes of one element; 0 for NONE */
const char *crn_ntype_name(crn_ntype t);       /* "float32", "int32", "string", …; "unknown" for NONE */
crn_ntype crn_ntype_by_name(const char *name); /* CRN_NT_NONE if there is no such type */
bool crn_ntype_is_int(crn_ntype t);            /* signed and unsigned integers, not bool */
bool crn_ntype_is_float(crn_ntype t);          /* real floating-point types */

/* Convert n numbers from one type to another as C does (values that the target can't hold are clamped to its range).
 * Real and integer types and bool only; false if either is of another kind. */
bool crn_ntype_convert(crn_ntype from, const void *src, crn_ntype to, void *dst, size_t n);

#endif
