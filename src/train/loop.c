/* The training loop: steps, and between them what is due: validation, samples, checkpoints. All of
 * that happens at the top of the loop, so that a run which resumes behind a step does what is still
 * due there, and nothing twice. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "train/collapse.h"
#include "train/group_begin.h"
#include "train/group_setup.h"
#include "train/journal.h"
#include "train/pace.h"
#include "train/progress.h"
#include "train/repeat.h"
#include "train/result.h"
#include "train/run.h"
#include "train/run_groups.h"
#include "train/samples.h"
#include "train/state.h"
#include "train/step_cost.h"
#include "train/validate.h"

/* A session of a run. */
typedef struct session {
    focal_ctx *ctx;
    foci_run run; /* resolved */
    double peak_flops;
    foci_run_folder folder;
    foci_start start;
    float *groups_before; /* their numbers before a step: its passes move the balance; or NULL */
    foci_optimiser *optimiser;
    foci_pace pace;
    foci_order order;
    foci_validation validation;
    foci_feed feed;
    foci_state state;
    foci_journal journal;
    int64_t first_step;   /* of this session */
    bool is_resumed;      /* a checkpoint was there */
    bool is_unbegun;      /* stopped while routers began: there is nothing to keep */
    bool is_saved;        /* nothing has changed since the last checkpoint */
    double before, began; /* seconds of earlier sessions; the clock at the start */
    double flops_per_second, tokens_per_second; /* of the last steps, smoothed */
    double valid_kl;                            /* of its last validation; NaN: none yet */
    bool has_samples;
    bool is_told_short; /* documents without a distant pair */
    focal_train_end end;
} session;

static double clock_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Seconds of all sessions. */
static double seconds_now(const session *s)
{
    return s->before + (clock_now() - s->began);
}

static int32_t pass_windows(const foci_run *run)
{
    return (int32_t)(run->data.batch / run->data.accumulation);
}

/* ---- Opening ---- */

static focal_status check_sizes(const session *s)
{
    const int64_t rows = pass_windows(&s->run) * s->run.data.length;
    if (rows <= FOCI_MAX_CONTEXT) return FOCAL_OK;
    return foci_fail(s->ctx, FOCAL_EINVAL,
                     "run: a pass of %d windows of %lld tokens, at most %d tokens: raise "
                     "data.accumulation",
                     pass_windows(&s->run), (long long)s->run.data.length, FOCI_MAX_CONTEXT);
}

static focal_status open_order(session *s)
{
    const foci_run *run = &s->run;
    int64_t border = 0;
    if (!foci_run_has_data(run)) return FOCAL_OK;
    FOCAL_TRY(foci_order_split(s->ctx, &s->start.tokens, run->data.valid_share, &border));
    s->order = (foci_order){.tokens = &s->start.tokens,
                            .end = border,
                            .length = (int32_t)run->data.length,
                            .seed = (uint64_t)run->seed,
                            .is_shuffled = true,
                            .crosses_documents = run->data.cross_documents};
    FOCAL_TRY(foci_order_check(s->ctx, &s->order));
    FOCAL_TRY(foci_validation_plan(s->ctx, &s->order, border, run->validation.tokens,
                                   pass_windows(run), &s->validation));
    return foci_feed_open(s->ctx, run->data.batch, (int32_t)run->data.length, &s->feed);
}

static focal_status open_optimiser(session *s)
{
    const foci_run *run = &s->run;
    const foci_optimiser_options options = {.has_muon = run->optimiser.kind == FOCI_RUN_MUON,
                                            .beta1 = run->optimiser.beta1,
                                            .beta2 = run->optimiser.beta2,
                                            .epsilon = run->optimiser.eps,
                                            .momentum = run->optimiser.momentum,
                                            .decay = run->optimiser.decay,
                                            .clip = run->optimiser.clip,
                                            .group_steps = run->groups.first};
    return foci_optimiser_new(s->start.trainable, &options, &s->optimiser);
}

/* Room for the numbers of groups as they were before a step. */
static focal_status open_groups_before(session *s)
{
    const foci_groups *groups = s->start.groups;
    if (!groups) return FOCAL_OK;
    s->groups_before =
        foci_alloc(s->ctx, (size_t)foci_max64(groups->number_count, 1), sizeof *groups->numbers);
    return s->groups_before ? FOCAL_OK : FOCAL_ENOMEM;
}

/* The state of the newest checkpoint, or that of the beginning. */
static focal_status resume(session *s)
{
    char note[FOCI_CHECKPOINT_NOTE];
    s->state = foci_state_first(&s->start.info, s->start.model);
    FOCAL_TRY(
        foci_state_load(s->optimiser, &s->state, s->folder.checkpoints, &s->is_resumed, note));
    if (note[0] != '\0') foci_journal_warn(&s->journal, "passed over: %s", note);
    s->is_saved = s->is_resumed;
    s->first_step = s->state.step;
    s->before = s->state.seconds;
    s->began = clock_now();
    if (s->is_resumed || !s->start.groups) return FOCAL_OK;
    if (foci_run_is_grouped(&s->run) && foci_run_has_data(&s->run))
        foci_journal_note(&s->journal, "routers begin: a pass of the model, layer by layer");
    return foci_group_begin(&s->start, &s->run, &s->order, foci_journal_must_stop, &s->journal,
                            &s->is_unbegun);
}

static focal_status open_samples(session *s)
{
    s->has_samples = s->run.samples.every > 0;
    if (!s->has_samples) return FOCAL_OK;
    const char *obstacle = foci_sample_obstacle(s->start.trainable);
    if (obstacle) {
        foci_journal_warn(&s->journal, "%s", obstacle);
        s->has_samples = false;
        return FOCAL_OK;
    }
    return foci_sample_check(s->start.trainable, &s->run);
}

static bool is_same_place(const char *a, const char *b)
{
    struct stat of_a, of_b;
    return stat(a, &of_a) == 0 && stat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
           of_a.st_ino == of_b.st_ino;
}

/* Shards that lie in the folder of the run are found there when it was moved, also where another
 * run has taken its place. A run that begins takes those that it names: beside others in its
 * folder they could not be told from moved ones later. */
static focal_status find_shards(session *s, const char *folder)
{
    char *shards = s->run.data.shards, moved[FOCI_RUN_TEXT], settings[FOCI_RUN_TEXT];
    const char *name = strrchr(shards, '/');
    const bool is_there = access(shards, F_OK) == 0;
    const bool is_named = strcmp(name ? name + 1 : shards, "shards") == 0;
    if (shards[0] == '\0' || (is_there && !is_named)) return FOCAL_OK;
    if (snprintf(moved, sizeof moved, "%s/shards", folder) >= FOCI_RUN_TEXT ||
        snprintf(settings, sizeof settings, "%s/run.conf", folder) >= FOCI_RUN_TEXT ||
        access(moved, F_OK) != 0 || is_same_place(shards, moved))
        return FOCAL_OK;
    if (is_there && access(settings, F_OK) != 0)
        return foci_fail(
            s->ctx, FOCAL_EINVAL,
            "run: data.shards is %.300s, and %.300s is there too: take another folder, "
            "or remove those",
            shards, moved);
    memcpy(shards, moved, sizeof moved);
    return FOCAL_OK;
}

/* Whether some pair of so many tokens is neither near nor with a sink. */
static bool has_distant_pairs(const foci_run *run, int64_t tokens)
{
    return tokens > run->groups.window + run->groups.sinks + 1;
}

/* What learns, if anything does, may learn nothing, or not be judged. */
static void warn_of_groups(const session *s)
{
    const foci_run *run = &s->run;
    const foci_validation *v = &s->validation;
    const bool is_distant = foci_run_is_grouped(run) || foci_run_is_near(run) ||
                            run->groups.method == FOCI_RUN_ONLY_SCALE;
    if (!foci_run_has_groups(run) || !foci_run_has_steps(run) || !is_distant) return;
    if (!has_distant_pairs(run, run->data.length))
        foci_journal_warn(&s->journal,
                          "windows of %lld tokens (data.length) have no distant pair behind %lld "
                          "near keys and %lld sinks: groups have nothing to learn",
                          (long long)run->data.length, (long long)run->groups.window,
                          (long long)run->groups.sinks);
    else if (v->windows > 0 && !has_distant_pairs(run, v->order.length))
        foci_journal_warn(&s->journal,
                          "the text for validation is one window of %d tokens, without a distant "
                          "pair, so it will not tell what groups cost: more text, or a larger "
                          "data.valid_share",
                          v->order.length);
    if (foci_run_is_grouped(run) && run->groups.top_fit == run->groups.count)
        foci_journal_warn(&s->journal,
                          "groups.top_fit is %lld of %lld groups: nothing is hidden while they "
                          "learn",
                          (long long)run->groups.top_fit, (long long)run->groups.count);
}

/* What is odd about the settings, and does not keep a run from beginning. */
static void warn_of_settings(const session *s)
{
    const foci_run *run = &s->run;
    if (s->start.note[0] != '\0') foci_journal_warn(&s->journal, "%s", s->start.note);
    warn_of_groups(s);
    if (s->start.model && foci_run_has_steps(run) && run->data.length > s->start.made_for)
        foci_journal_warn(&s->journal,
                          "windows of %lld tokens (data.length), the model was made for %d",
                          (long long)run->data.length, s->start.made_for);
    if (!foci_run_is_causal(run))
        foci_journal_note(
            &s->journal, "not causal: Sinkhorn balances whole sequences, so losses of steps are no "
                         "language model's; validation is without it");
}

static focal_status open_session(session *s, const char *folder)
{
    FOCAL_TRY(foci_run_resolve(s->ctx, &s->run));
    FOCAL_TRY(check_sizes(s));
    FOCAL_TRY(find_shards(s, folder));
    foci_run_make_paths_whole(&s->run);
    FOCAL_TRY(foci_pace_open(s->ctx, &s->run, &s->pace));
    FOCAL_TRY(foci_start_open(s->ctx, &s->run, &s->start));
    FOCAL_TRY(foci_check_result(&s->start));
    FOCAL_TRY(open_order(s));
    FOCAL_TRY(open_samples(s));
    FOCAL_TRY(open_optimiser(s));
    FOCAL_TRY(open_groups_before(s));
    /* What is wrong with the settings is known by now: only a run that can begin leaves a folder.
     */
    bool is_changed = false;
    FOCAL_TRY(foci_run_folder_open(s->ctx, folder, &s->folder));
    FOCAL_TRY(foci_run_folder_compare(&s->folder, &s->run, &is_changed));
    warn_of_settings(s);
    FOCAL_TRY(resume(s));
    return is_changed ? foci_run_write(s->ctx, s->folder.run_conf, &s->run) : FOCAL_OK;
}

static void close_session(session *s)
{
    foci_journal_close(&s->journal);
    foci_feed_close(&s->feed);
    foci_optimiser_free(s->optimiser);
    foci_free(s->ctx, s->groups_before);
    foci_start_close(&s->start);
    foci_run_folder_close(&s->folder);
}

/* ---- What is due between steps ---- */

static bool is_due(int64_t every, int64_t step)
{
    return every > 0 && step > 0 && step % every == 0;
}

static focal_status save(session *s)
{
    const foci_checkpoint_policy policy = {s->run.checkpoint.keep, s->run.checkpoint.keep_every};
    if (s->is_saved) return FOCAL_OK;
    s->state.seconds = seconds_now(s);
    FOCAL_TRY(foci_journal_sync(&s->journal));
    FOCAL_TRY(foci_state_save(s->optimiser, &s->state, s->folder.checkpoints, &policy));
    s->is_saved = true;
    return FOCAL_OK;
}

/* With groups as the model runs with them. */
static focal_status validate(session *s, bool *is_stopped)
{
    foci_batch_loss loss;
    const foci_groups_pass groups = foci_group_run(&s->run);
    const foci_backward_options options = {.is_loss_only = true,
                                           .groups = foci_run_has_groups(&s->run) ? &groups : NULL,
                                           .is_kl = s->run.objective == FOCI_RUN_KL};
    focal_ctx_trim(s->ctx); /* its memory is of another size than that of steps */
    FOCAL_TRY(foci_validate(s->start.trainable, &s->validation, &s->feed, &options,
                            foci_journal_must_stop, &s->journal, &loss, is_stopped));
    focal_ctx_trim(s->ctx);
    if (*is_stopped) return FOCAL_OK;
    s->state.valid_step = s->state.step;
    s->is_saved = false;
    if (loss.targets == 0) return FOCAL_OK;
    s->state.valid_loss = loss.nll / (double)loss.targets;
    if (loss.kl_rows > 0) s->valid_kl = loss.kl / (double)loss.kl_rows;
    return foci_journal_validation(&s->journal, s->state.step, &loss, s->state.tokens);
}

static focal_status sample(session *s)
{
    focal_buffer text = {0};
    focal_status status = foci_sample(s->start.trainable, &s->run, s->state.step, &text);
    if (status == FOCAL_OK) status = foci_journal_sample(&s->journal, s->state.step, text.data);
    s->state.sampled_step = s->state.step;
    s->is_saved = false;
    focal_buffer_free(s->ctx, &text);
    return status;
}

static bool must_validate(const session *s, bool is_last)
{
    return s->validation.windows > 0 && s->state.step > 0 && s->state.valid_step != s->state.step &&
           (is_last || is_due(s->run.validation.every, s->state.step));
}

static bool must_sample(const session *s, bool is_last)
{
    return s->has_samples && s->state.step > 0 && s->state.sampled_step != s->state.step &&
           (is_last || is_due(s->run.samples.every, s->state.step));
}

/* *is_over: the session ends here, as s->end says. */
static focal_status between_steps(session *s, bool *is_over)
{
    const int64_t step = s->state.step;
    const bool is_last = foci_pace_is_over(&s->pace, step, seconds_now(s));
    bool is_stopped = false;
    if (must_validate(s, is_last)) FOCAL_TRY(validate(s, &is_stopped));
    if (!is_stopped && must_sample(s, is_last)) FOCAL_TRY(sample(s));
    if (!is_last && !is_stopped) is_stopped = foci_journal_must_stop(&s->journal);
    *is_over = is_last || is_stopped;
    s->end = is_stopped ? FOCAL_TRAIN_STOPPED : FOCAL_TRAIN_FINISHED;
    if (*is_over || is_due(s->run.checkpoint.every, step)) return save(s);
    return FOCAL_OK;
}

/* ---- A step ---- */

/* Pairs of tokens that attention sees in a layer without a window. */
static double count_pairs(const foci_batch *batch)
{
    double pairs = 0.0;
    for (int32_t n = 0; n < batch->span_count; n++)
        pairs += 0.5 * batch->spans[n].count * (batch->spans[n].count + 1.0);
    return pairs;
}

/* Only groups learn in the first steps of some runs. */
static bool is_first_phase(const session *s)
{
    return s->optimiser->steps < s->run.groups.first;
}

/* The gradients of groups, which are the last ones, from the view in which nothing else has any. */
static void take_group_gradients(const session *s)
{
    const foci_trainable *from = s->start.only_groups, *to = s->start.trainable;
    const size_t count = from->gradient_count;
    memcpy(to->gradients + to->gradient_count - count, from->gradients,
           count * sizeof *to->gradients);
    memset(from->gradients, 0, count * sizeof *from->gradients);
}

/* The tokens of the next step. */
static focal_status read_step(session *s)
{
    const foci_run *run = &s->run;
    const int64_t first = s->state.step * run->data.batch;
    FOCAL_TRY(foci_feed_read(&s->feed, &s->order, first, (int32_t)run->data.batch));
    if (run->data.repeat > 0.0)
        foci_repeat_passages(&s->feed.rows, first, s->order.length, run->data.repeat,
                             (uint64_t)run->seed);
    if (s->feed.target_count > 0) return FOCAL_OK;
    return foci_fail(s->ctx, FOCAL_EINVAL,
                     "data: step %lld has no target, its documents have one token each",
                     (long long)s->state.step + 1);
}

static focal_status fail_memory(const session *s, int32_t windows)
{
    return foci_fail(s->ctx, FOCAL_ENOMEM,
                     "a pass of %d windows of %lld tokens does not fit in memory: lower data.batch "
                     "or data.length, raise data.accumulation, or set recompute",
                     windows, (long long)s->run.data.length);
}

/* What a step was made of, for its operations. */
typedef struct step_work {
    const foci_trainable *trainable; /* whose gradient it found */
    bool has_teacher;
    double pairs; /* of attention without groups */
} step_work;

/* The gradient of the whole step, its losses and its work. */
static focal_status find_gradient(session *s, foci_batch_loss *loss, step_work *work)
{
    const foci_run *run = &s->run;
    const int32_t windows = pass_windows(run);
    const bool is_first = is_first_phase(s), is_alone = is_first || s->start.model;
    foci_trainable *trainable = is_first ? s->start.only_groups : s->start.trainable;
    FOCAL_TRY(read_step(s));
    const foci_groups_pass groups =
        foci_group_step(run, foci_pace_part(&s->pace, s->state.step, seconds_now(s)));
    const foci_backward_options options = {.recompute = (foci_recompute)run->recompute,
                                           .scale = 1.0 / (double)s->feed.target_count,
                                           .z = run->optimiser.z_loss,
                                           .groups = foci_run_has_groups(run) ? &groups : NULL,
                                           .is_kl = is_alone && run->objective == FOCI_RUN_KL};
    *loss = (foci_batch_loss){0};
    *work = (step_work){.trainable = trainable, .has_teacher = options.is_kl};
    for (int64_t pass = 0; pass < run->data.accumulation; pass++) {
        foci_batch_loss part;
        const foci_batch batch =
            foci_feed_pass(&s->feed, &s->order, (int32_t)pass * windows, windows);
        const focal_status status = foci_backward(trainable, &batch, &options, &part);
        if (status == FOCAL_ENOMEM) return fail_memory(s, windows);
        if (status != FOCAL_OK) return status;
        foci_batch_loss_add(loss, &part);
        work->pairs += count_pairs(&batch);
    }
    if (is_first) take_group_gradients(s);
    return FOCAL_OK;
}

/* Speeds as people like them: a mean in which older steps count ever less. */
static void note_speed(session *s, double tokens, const step_work *work, double seconds)
{
    const double newest = s->tokens_per_second > 0.0 ? 0.1 : 1.0;
    if (!(seconds > 0.0)) return;
    const double flops = foci_step_flops(work->trainable, work->has_teacher, tokens, work->pairs);
    s->tokens_per_second += newest * (tokens / seconds - s->tokens_per_second);
    s->flops_per_second += newest * (flops / seconds - s->flops_per_second);
    s->state.step_seconds += seconds;
}

/* A warning when groups collapse. */
static void watch_groups(session *s, double largest_load)
{
    if (!foci_collapse_found(&s->state.collapse, s->start.groups, largest_load)) return;
    foci_journal_warn(&s->journal,
                      "groups collapse: one group of a router has %.0f %% of all that is in its "
                      "groups, and too much of it for %d steps; %s",
                      100.0 * largest_load, FOCI_COLLAPSE_STEPS, foci_collapse_advice(&s->run));
}

/* A warning, once: windows may be long and the documents in them short. */
static void watch_documents(session *s, const foci_batch_loss *loss)
{
    const foci_run *run = &s->run;
    if (s->is_told_short || loss->distant_pairs > 0 || !has_distant_pairs(run, run->data.length))
        return;
    s->is_told_short = true;
    foci_journal_warn(&s->journal,
                      "no document of step %lld has a distant pair behind %lld near keys and %lld "
                      "sinks: groups learn nothing from it; longer documents, a smaller "
                      "groups.window, or data.cross_documents = true",
                      (long long)s->state.step, (long long)run->groups.window,
                      (long long)run->groups.sinks);
}

static focal_status tell_step(session *s, const foci_batch_loss *loss, double norm, double rate)
{
    const double seconds = seconds_now(s);
    const bool has_groups = foci_run_is_grouped(&s->run);
    const foci_progress_clock clock = {.first_step = s->first_step,
                                       .step = s->state.step,
                                       .steps = s->pace.steps,
                                       .before_seconds = s->before,
                                       .seconds = seconds - s->before,
                                       .minutes = s->run.schedule.minutes};
    const focal_train_step told = {
        .step = s->state.step,
        .steps = s->pace.steps,
        .tokens = s->state.tokens,
        .loss = s->state.loss,
        .norm = norm,
        .rate = rate,
        .tokens_per_second = s->tokens_per_second,
        .peak_share = s->peak_flops > 0.0 ? s->flops_per_second / s->peak_flops : 0.0,
        .seconds_left = foci_progress_left(&clock),
        .has_kl = loss->kl_rows > 0,
        .kl = loss->kl_rows > 0 ? loss->kl / (double)loss->kl_rows : 0.0,
        .has_groups = has_groups,
        .has_kept = loss->distant_pairs > 0,
        .kept =
            loss->distant_pairs > 0 ? (double)loss->kept_pairs / (double)loss->distant_pairs : 0.0,
        .largest_group = loss->largest_load,
        .mean_largest_group = loss->mean_largest_load};
    if (has_groups) {
        watch_documents(s, loss);
        watch_groups(s, loss->largest_load);
    }
    return foci_journal_step(&s->journal, &told, seconds);
}

static size_t group_bytes(const session *s)
{
    return s->start.groups ? (size_t)s->start.groups->number_count * sizeof(float) : 0;
}

/* A step that is none: left out, or the end. The optimiser has not moved anything; the balance of
 * groups has moved, pass by pass, and goes back. */
static focal_status handle_spike(session *s, const char *why, bool *is_over)
{
    const long long step = (long long)s->state.step + 1;
    const bool is_skipped = s->run.on_spike == FOCI_RUN_SPIKE_SKIP;
    foci_optimiser_skip(s->optimiser);
    if (s->groups_before) memcpy(s->start.groups->numbers, s->groups_before, group_bytes(s));
    if (is_skipped && s->state.spikes.skips < FOCI_SPIKE_SKIPS) {
        s->state.spikes.skips++;
        s->state.step++;
        s->is_saved = false;
        return foci_journal_skip(&s->journal, s->state.step, why);
    }
    foci_journal_note(&s->journal, "stopped before step %lld: %s%s", step, why,
                      is_skipped ? ", as many steps before it" : "");
    s->end = FOCAL_TRAIN_SPIKED;
    *is_over = true;
    return save(s);
}

static focal_status take_step(session *s, bool *is_over)
{
    const double begin = clock_now(),
                 rate = foci_pace_rate(&s->pace, s->state.step, seconds_now(s));
    const int64_t tokens = s->run.data.batch * s->run.data.length;
    foci_batch_loss sums;
    step_work work;
    foci_gradient_norm norm;
    char why[FOCI_SPIKE_SENTENCE];
    foci_start_ramp(&s->start, &s->run, s->state.step);
    if (s->groups_before) memcpy(s->groups_before, s->start.groups->numbers, group_bytes(s));
    FOCAL_TRY(find_gradient(s, &sums, &work));
    const double loss = sums.nll / (double)s->feed.target_count;
    FOCAL_TRY(foci_optimiser_norm(s->optimiser, &norm));
    if (foci_spike_found(&s->state.spikes, loss, &norm, s->run.spike_threshold, why))
        return handle_spike(s, why, is_over);
    FOCAL_TRY(foci_optimiser_step(s->optimiser, rate, norm.norm));
    if (s->start.groups) foci_groups_limit(s->start.groups);
    foci_spike_remember(&s->state.spikes, loss);
    s->state.step++;
    s->is_saved = false;
    s->state.tokens += tokens;
    s->state.loss = loss;
    note_speed(s, (double)tokens, &work, clock_now() - begin);
    return tell_step(s, &sums, norm.norm, rate);
}

/* ---- The whole ---- */

static focal_train_result result_of(const session *s)
{
    return (focal_train_result){.end = s->end,
                                .step = s->state.step,
                                .tokens = s->state.tokens,
                                .loss = s->state.loss,
                                .valid_loss = s->state.valid_loss,
                                .valid_kl = s->valid_kl,
                                .seconds = s->state.seconds,
                                .parameter_count = foci_parameter_count(s->start.trainable)};
}

static focal_status finish(session *s)
{
    static const char *const states[] = {[FOCAL_TRAIN_FINISHED] = "finished",
                                         [FOCAL_TRAIN_STOPPED] = "stopped",
                                         [FOCAL_TRAIN_SPIKED] = "spiked"};
    const double seconds = s->state.step_seconds;
    const foci_run_summary summary = {.state = states[s->end],
                                      .result = result_of(s),
                                      .tokens_per_second =
                                          seconds > 0.0 ? (double)s->state.tokens / seconds : 0.0};
    foci_start_ramp(&s->start, &s->run, s->state.step);
    if (!s->is_unbegun)
        FOCAL_TRY(
            foci_write_result(&s->start, &s->run, s->state.step, s->state.tokens, &s->folder));
    return foci_run_folder_summarise(&s->folder, &summary);
}

static focal_status run_session(session *s)
{
    bool is_over = false;
    if (s->is_unbegun) {
        s->end = FOCAL_TRAIN_STOPPED;
        return finish(s);
    }
    if (s->is_resumed && foci_pace_is_over(&s->pace, s->state.step, s->state.seconds) &&
        !must_validate(s, true) && !must_sample(s, true) &&
        foci_run_folder_has_summary(&s->folder) && foci_has_result(&s->start, &s->folder))
        return FOCAL_OK; /* finished before; s->end says so already */
    if (s->is_resumed)
        foci_journal_note(&s->journal, "resumed at step %lld", (long long)s->state.step);
    FOCAL_TRY(foci_journal_open(&s->journal, &s->folder, s->is_resumed ? s->state.step : -1));
    foci_run_folder_forget(&s->folder);
    for (;;) {
        FOCAL_TRY(between_steps(s, &is_over));
        if (is_over) break;
        FOCAL_TRY(take_step(s, &is_over));
        if (is_over) break;
    }
    return finish(s);
}

focal_status focal_train(focal_ctx *ctx, const focal_run *run, const char *folder,
                         double peak_flops, const focal_train_watch *watch,
                         focal_train_result *result)
{
    if (result) *result = (focal_train_result){0};
    if (!run || !folder || !*folder)
        return foci_fail(ctx, FOCAL_EINVAL, "train: there must be a run and a folder");
    session *s = foci_alloc(ctx, 1, sizeof *s); /* settings are long */
    if (!s) return FOCAL_ENOMEM;
    *s = (session){.ctx = ctx, .run = run->settings, .peak_flops = peak_flops};
    s->valid_kl = (double)NAN;
    s->end = FOCAL_TRAIN_FINISHED;
    if (watch) s->journal.watch = *watch;
    focal_status status = open_session(s, folder);
    if (status == FOCAL_OK) status = run_session(s);
    if (status == FOCAL_OK && result) *result = result_of(s);
    close_session(s);
    foci_free(ctx, s);
    return status;
}
