/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of all dataset classes. A class that configs name but that isn't implemented is here too, without functions,
 * so that it is refused by name.
 */
#include <string.h>

#include "data/dataset_class.h"
#include "data/datasets.h"

#define KNOWN_ONLY(id, text) static const crn_dataset_class id = {.name = #id, .doc = text}

KNOWN_ONLY(ExternSprintDataset, "Reads sequences from an external RASR process.");
KNOWN_ONLY(ConcatSeqsDataset, "Joins several sequences into one.");
KNOWN_ONLY(TranslationFactorsDataset, "Reads pairs of text files with factored words.");
KNOWN_ONLY(ConfusionNetworkDataset, "Reads confusion networks as translation sources.");
KNOWN_ONLY(Enwik8Corpus, "Reads the Enwik8 corpus of characters.");
KNOWN_ONLY(TimitDataset, "Reads the TIMIT corpus.");
KNOWN_ONLY(NltkTimitDataset, "Reads the part of TIMIT that NLTK has.");
KNOWN_ONLY(NextGenHDFDataset, "Reads HDF files with one dataset per sequence.");
KNOWN_ONLY(SiameseHDFDataset, "Reads triplets from NextGenHDFDataset files.");
KNOWN_ONLY(SprintCacheDataset, "Reads RASR caches.");
KNOWN_ONLY(BlissDataset, "Reads Bliss corpora.");
KNOWN_ONLY(RawWavDataset, "Reads wav files.");
KNOWN_ONLY(StereoHdfDataset, "Reads HDF files of paired signals.");
KNOWN_ONLY(NumpyDumpDataset, "Reads text matrices.");
KNOWN_ONLY(VariableDataset, "Makes a new dataset in each epoch.");
KNOWN_ONLY(MultiEpochDataset, "Runs several epochs of a dataset as one.");
KNOWN_ONLY(MultiProcDataset, "Reads a dataset in several processes.");
KNOWN_ONLY(DistributeFilesDataset, "Spreads files over epochs and workers.");
KNOWN_ONLY(PostprocessingDataset, "Changes sequences by a function.");
KNOWN_ONLY(ChunkShuffleDataset, "Shuffles chunks of a dataset.");
KNOWN_ONLY(ClusteringDataset, "Adds cluster indices to a dataset.");
KNOWN_ONLY(TextDictDataset, "Reads a dict of texts.");
KNOWN_ONLY(HuggingFaceDataset, "Reads datasets of the HuggingFace library.");
KNOWN_ONLY(TaskEpisodicCopyDataset, "Makes random digits to be copied after a pause.");
KNOWN_ONLY(TaskVariableAssignmentDataset, "Makes random assignments and a query.");
KNOWN_ONLY(DummyDatasetMultipleSequenceLength, "Makes counting numbers with other lengths of the targets.");
KNOWN_ONLY(DummyDatasetMultipleDataKeys, "Makes counting numbers for several keys.");
KNOWN_ONLY(DummyGenericDataset, "Makes random data for extern_data.");

static const crn_dataset_class *const all[] = {
    &crn_hdf_dataset,
    &crn_static_dataset,
    &crn_12ax_dataset,
    &crn_copy_dataset,
    &crn_xml_dataset,
    &crn_base_dataset,
    &crn_dummy_dataset,
    &ExternSprintDataset,
    &crn_meta_dataset,
    &crn_combined_dataset,
    &crn_concat_dataset,
    &ConcatSeqsDataset,
    &crn_librispeech_dataset,
    &crn_oggzip_dataset,
    &crn_lm_dataset,
    &crn_translation_dataset,
    &TranslationFactorsDataset,
    &ConfusionNetworkDataset,
    &Enwik8Corpus,
    &TimitDataset,
    &NltkTimitDataset,
    &NextGenHDFDataset,
    &SiameseHDFDataset,
    &SprintCacheDataset,
    &BlissDataset,
    &RawWavDataset,
    &StereoHdfDataset,
    &NumpyDumpDataset,
    &VariableDataset,
    &MultiEpochDataset,
    &MultiProcDataset,
    &DistributeFilesDataset,
    &PostprocessingDataset,
    &ChunkShuffleDataset,
    &ClusteringDataset,
    &TextDictDataset,
    &HuggingFaceDataset,
    &TaskEpisodicCopyDataset,
    &TaskVariableAssignmentDataset,
    &DummyDatasetMultipleSequenceLength,
    &DummyDatasetMultipleDataKeys,
    &DummyGenericDataset,
};

const crn_dataset_class *const *crn_dataset_classes(size_t *n) {
  *n = sizeof all / sizeof *all;
  return all;
}

crn_class_state crn_dataset_class_look_up(const char *name, const char **doc, const char **nearest) {
  const size_t n = sizeof all / sizeof *all;
  const char *names[64];
  *doc = *nearest = NULL;
  for (size_t i = 0; i < n; i++) {
    if (strcmp(all[i]->name, name) != 0) continue;
    *doc = all[i]->doc;
    return all[i]->init ? CRN_CLASS_THERE : CRN_CLASS_NOT_IMPLEMENTED;
  }
  for (size_t i = 0; i < n && i < 64; i++) names[i] = all[i]->name;
  *nearest = crn_nearest(name, names, n < 64 ? n : 64);
  return CRN_CLASS_UNKNOWN;
}

crn_status crn_dataset_check(const crn_value *spec, crn_dataset_problem fn, void *user, crn_err *err) {
  const char *name = crn_v_cstr(crn_v_get(spec, "class"));
  for (size_t i = 0; name && i < sizeof all / sizeof *all; i++)
    if (!strcmp(all[i]->name, name) && all[i]->init) return crn_dataset_check_options(all[i], spec, fn, user, err);
  return CRN_OK;
}
