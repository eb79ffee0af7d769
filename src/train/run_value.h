/* Values of run files, from text. */
#ifndef FOCI_TRAIN_RUN_VALUE_H
#define FOCI_TRAIN_RUN_VALUE_H

#include "train/run_file.h"

enum { FOCI_RUN_PROBLEM = 384 };

/* Reads a key's value into its field; false, and what is wrong in `problem`, when it is none. */
bool foci_run_value_read(const foci_run_key *key, foci_text text, foci_run *run,
                         char problem[FOCI_RUN_PROBLEM]);

/* How many letters must change to make one name of the other; of long ones, by their beginnings. */
int foci_run_distance(foci_text a, foci_text b);

#endif /* FOCI_TRAIN_RUN_VALUE_H */
