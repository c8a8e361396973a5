/* SPDX-License-Identifier: Apache-2.0
 *
 * All layer classes.
 */
#ifndef CRN_LAYER_ALL_H
#define CRN_LAYER_ALL_H

#include "layer/layer.h"

const crn_layer_desc *crn_layer_class_find(const char *name); /* also by alias; NULL: unknown */
const crn_layer_desc *crn_layer_class_at(size_t i);           /* i-th, NULL at the end */

#endif
