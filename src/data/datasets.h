/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of all implemented dataset classes, for dataset_all.c.
 */
#ifndef CRN_DATA_DATASETS_H
#define CRN_DATA_DATASETS_H

#include "data/dataset_class.h"

extern const crn_dataset_class crn_hdf_dataset;    /* hdf_dataset.c */
extern const crn_dataset_class crn_static_dataset; /* static_dataset.c */
extern const crn_dataset_class crn_12ax_dataset;   /* generated_tasks.c */
extern const crn_dataset_class crn_copy_dataset;
extern const crn_dataset_class crn_xml_dataset;
extern const crn_dataset_class crn_base_dataset;
extern const crn_dataset_class crn_dummy_dataset;
extern const crn_dataset_class crn_lm_dataset;          /* lm_dataset.c */
extern const crn_dataset_class crn_meta_dataset;        /* meta_dataset.c */
extern const crn_dataset_class crn_translation_dataset; /* translation_dataset.c */
extern const crn_dataset_class crn_concat_dataset;      /* concat_dataset.c */
extern const crn_dataset_class crn_combined_dataset;    /* combined_dataset.c */
extern const crn_dataset_class crn_oggzip_dataset;      /* oggzip_dataset.c */
extern const crn_dataset_class crn_librispeech_dataset; /* librispeech_dataset.c */

#endif
