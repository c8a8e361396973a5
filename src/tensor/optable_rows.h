/* SPDX-License-Identifier: Apache-2.0
 *
 * The families of rows that make up the table of functions (optable.h), one a file.
 */
#ifndef CRN_TENSOR_OPTABLE_ROWS_H
#define CRN_TENSOR_OPTABLE_ROWS_H

#include "tensor/optable.h"

extern const crn_oprow crn_rows_elementwise[], crn_rows_shape[], crn_rows_index[], crn_rows_reduce[], crn_rows_python[];
extern const int crn_n_rows_elementwise, crn_n_rows_shape, crn_n_rows_index, crn_n_rows_reduce, crn_n_rows_python;

#endif
