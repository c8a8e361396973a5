/* SPDX-License-Identifier: Apache-2.0
 *
 * Networks whose layers have other names.
 */
#ifndef CONFORMANCE_RENAME_H
#define CONFORMANCE_RENAME_H

#include "runner.h"

/* The config with layers named at random (seed 0: as they are), each with its number under "#". NULL: its network is no
 * dict, or memory is out. */
crn_value *rename_layers(crn_arena *a, const crn_value *config, uint64_t seed);
/* Report where b, built from a's config under other names, isn't the same network. */
void compare_renamed(report *r, const crn_net *a, const crn_net *b);

#endif
