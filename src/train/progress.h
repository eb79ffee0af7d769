/* The line that tells how a run goes, as text: who prints it, and when, is the program's business.
 */
#ifndef FOCI_TRAIN_PROGRESS_H
#define FOCI_TRAIN_PROGRESS_H

#include "focal/base.h"

enum { FOCI_PROGRESS_LINE = 256, FOCI_PROGRESS_TIME = 32 };

/* How far a run is. */
typedef struct foci_progress {
    int64_t step, steps;               /* done, and of the whole run; 0: not known */
    double loss;                       /* may be NaN */
    double tokens_per_second;          /* 0: not known yet */
    double peak_share;                 /* of the machine's peak, 0..1; 0: not known */
    double seconds_left;               /* below 0: not known */
    bool has_kl, has_kept, has_groups; /* whether there are the next ones */
    double kl;
    double kept, largest_group; /* shares */
} foci_progress;

/* "step 120/1,100  loss 4.1234  1,215 tok/s  58 % of peak  12 min left", without what is not known.
 * The parts keep their width while a run goes on, so that a line can be written over the last. */
void foci_progress_text(const foci_progress *progress, char out[FOCI_PROGRESS_LINE]);

/* "41 s", "12 min", "3 h 05 min", "2 d 04 h"; "?" for what is no time. */
void foci_progress_time(double seconds, char out[FOCI_PROGRESS_TIME]);

/* Seconds until the run ends, from what the steps of this session took: by steps (0: no limit), by
 * minutes of the whole run (0: no limit), whichever comes first; below 0 when nothing can be said.
 * A run that resumed has done first_step steps and spent before_seconds before this session. */
typedef struct foci_progress_clock {
    int64_t first_step, step, steps;
    double before_seconds, seconds; /* before this session, and in it */
    double minutes;
} foci_progress_clock;
double foci_progress_left(const foci_progress_clock *clock);

#endif /* FOCI_TRAIN_PROGRESS_H */
