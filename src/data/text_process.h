/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes of transcriptions that options as `orth_post_process` name: lowercase, get_replace("a", "b"), or a list.
 */
#ifndef CRN_DATA_TEXT_PROCESS_H
#define CRN_DATA_TEXT_PROCESS_H

#include "base/str.h"
#include "value/value.h"

/* Check the option (may be None); unknown names and what isn't built are errors. */
crn_status crn_text_process_check(const crn_value *steps, crn_err *err);
/* Apply the checked option; the result replaces out's content. */
crn_status crn_text_process(const crn_value *steps, const char *text, crn_str *out, crn_err *err);

#endif
