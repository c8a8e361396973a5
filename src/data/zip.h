/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading members of zip files, stored or deflated, also beyond 4 GB (zip64).
 */
#ifndef CRN_DATA_ZIP_H
#define CRN_DATA_ZIP_H

#include "base/status.h"

typedef struct crn_zip crn_zip; /* one thread at a time */

crn_status crn_zip_open(const char *path, crn_zip **out, crn_err *err);
void crn_zip_close(crn_zip *z); /* NULL is fine */
const char *crn_zip_path(const crn_zip *z);
size_t crn_zip_count(const crn_zip *z);
const char *crn_zip_name(const crn_zip *z, size_t i);
bool crn_zip_has(const crn_zip *z, const char *name);
/* Whole content with a zero byte behind it, by crn_malloc. */
crn_status crn_zip_read(crn_zip *z, const char *name, char **data, size_t *len, crn_err *err);

#endif
