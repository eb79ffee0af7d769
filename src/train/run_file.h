/* Run files: what a training run is set to, as `key = value` lines. One table of keys is the source
 * of parsing, of help, of the file that is written beside a result and of docs/TRAINING.md. */
#ifndef FOCI_TRAIN_RUN_FILE_H
#define FOCI_TRAIN_RUN_FILE_H

#include "focal/base.h"
#include "io/names.h"

enum {
    FOCI_RUN_TEXT = 1024, /* bytes of a text with its NUL */
    FOCI_RUN_LIST = 256,  /* numbers in a list */
    FOCI_RUN_KEYS = 81,
    FOCI_RUN_VALUE = 4 * FOCI_RUN_TEXT, /* bytes that hold any value as it is written */
    FOCI_RUN_FILE_BYTES = 1 << 20       /* the largest file that is read */
};

typedef enum foci_run_family { FOCI_RUN_QWEN3, FOCI_RUN_GPT2 } foci_run_family;
typedef enum foci_run_qk_norm {
    FOCI_RUN_QK_PLAIN,
    FOCI_RUN_QK_GAIN,
    FOCI_RUN_QK_NONE
} foci_run_qk_norm;
typedef enum foci_run_temperature {
    FOCI_RUN_T_CONSTANT,
    FOCI_RUN_T_LEARNED,
    FOCI_RUN_T_LEARNED_PAPER,
    FOCI_RUN_T_PER_HEAD,
    FOCI_RUN_T_LENGTH
} foci_run_temperature;
typedef enum foci_run_optimiser { FOCI_RUN_ADAMW, FOCI_RUN_MUON } foci_run_optimiser;
typedef enum foci_run_schedule {
    FOCI_RUN_CONSTANT,
    FOCI_RUN_COSINE,
    FOCI_RUN_DECAY
} foci_run_schedule;
typedef enum foci_run_precision { FOCI_RUN_BF16, FOCI_RUN_F32 } foci_run_precision;
typedef enum foci_run_recompute {
    FOCI_RUN_RECOMPUTE_NONE,
    FOCI_RUN_RECOMPUTE_INPUTS,
    FOCI_RUN_RECOMPUTE_BLOCK
} foci_run_recompute;
typedef enum foci_run_learn { FOCI_RUN_LEARN_ALL, FOCI_RUN_LEARN_GROUPS } foci_run_learn;
typedef enum foci_run_objective { FOCI_RUN_LM, FOCI_RUN_KL } foci_run_objective;
typedef enum foci_run_method {
    FOCI_RUN_FOCUS,
    FOCI_RUN_ONLY_TEMPERATURE,
    FOCI_RUN_ONLY_WINDOW,
    FOCI_RUN_RANDOM,
    FOCI_RUN_ONLY_START,
    FOCI_RUN_LORA,
    FOCI_RUN_ONLY_SCALE
} foci_run_method;
typedef enum foci_run_lora_targets { FOCI_RUN_LORA_QV, FOCI_RUN_LORA_ALL } foci_run_lora_targets;
typedef enum foci_run_scope { FOCI_RUN_SCOPE_KV, FOCI_RUN_SCOPE_LAYER } foci_run_scope;
typedef enum foci_run_mode { FOCI_RUN_DIRECTED, FOCI_RUN_SHARED } foci_run_mode;
typedef enum foci_run_gate {
    FOCI_RUN_GATE_STRAIGHT,
    FOCI_RUN_GATE_PAPER,
    FOCI_RUN_GATE_LOG
} foci_run_gate;
typedef enum foci_run_balance {
    FOCI_RUN_BALANCE_BIAS,
    FOCI_RUN_BALANCE_SIGN,
    FOCI_RUN_BALANCE_SINKHORN,
    FOCI_RUN_BALANCE_NONE
} foci_run_balance;
typedef enum foci_run_router { FOCI_RUN_ROUTER_UNIT, FOCI_RUN_ROUTER_RAW } foci_run_router;
typedef enum foci_run_begin { FOCI_RUN_BEGIN_HEADS, FOCI_RUN_BEGIN_RANDOM } foci_run_begin;
typedef enum foci_run_spike { FOCI_RUN_SPIKE_STOP, FOCI_RUN_SPIKE_SKIP } foci_run_spike;

/* Numbers in ascending order, none twice; count 0 stands for all. */
typedef struct foci_run_list {
    int64_t count;
    int64_t values[FOCI_RUN_LIST];
} foci_run_list;

/* A run. A field means what its key's line in the table says; choices are the enums above, in
 * fields of int64_t as every integer. */
typedef struct foci_run {
    struct {
        char shards[FOCI_RUN_TEXT];
        double valid_share;
        int64_t length, batch, accumulation;
        bool cross_documents;
        double repeat;
    } data;
    struct {
        int64_t family, layers, width, ffn, heads, kv_heads, head_dim, vocabulary;
        bool tied;
        double rope_base;
        int64_t qk_norm;
        double qk_gain;
    } model;
    struct {
        int64_t kind;
        double value, length_c;
        int64_t length_n0;
        foci_run_list layers, heads;
    } temperature;
    struct {
        char from[FOCI_RUN_TEXT];
        int64_t ramp_steps;
        double rope_base, yarn_factor;
    } start;
    int64_t learn, objective;
    struct {
        int64_t method, count, width, top, top_fit, window, sinks, scope, mode, gate, balance;
        double rate, rate_end;
        int64_t router;
        bool temperatures;
        int64_t init;
        foci_run_list layers;
        int64_t first, type;
    } groups;
    struct {
        int64_t rank;
        double alpha;
        int64_t targets;
    } lora;
    struct {
        int64_t kind;
        double lr, beta1, beta2, eps, momentum, decay, clip, z_loss;
    } optimiser;
    struct {
        int64_t kind, warmup;
        double floor, decay_part;
        int64_t steps;
        double minutes;
    } schedule;
    int64_t precision, recompute, seed;
    struct {
        int64_t every, keep, keep_every;
    } checkpoint;
    struct {
        int64_t every, tokens;
    } validation;
    struct {
        int64_t every;
        char prompt[FOCI_RUN_TEXT];
        int64_t tokens;
    } samples;
    int64_t on_spike;
    double spike_threshold;
    bool is_given[FOCI_RUN_KEYS]; /* by the file or an override, key by key */
} foci_run;

typedef enum foci_run_type {
    FOCI_RUN_INT,
    FOCI_RUN_REAL,
    FOCI_RUN_BOOL,
    FOCI_RUN_CHOICE,
    FOCI_RUN_STRING,
    FOCI_RUN_INTS
} foci_run_type;

/* A key of run files. */
typedef struct foci_run_key {
    const char *name;
    foci_run_type type;
    size_t offset;       /* of its field */
    double least, most;  /* of a number, both included; integers up to 2^53 */
    const char *initial; /* as it would be written */
    const char *choices; /* "one|two", in the order of the enum */
    const char *about;   /* one line, without a full stop */
} foci_run_key;

extern const foci_run_key foci_run_keys[FOCI_RUN_KEYS];

/* Every key at its default. */
void foci_run_init(foci_run *run);

/* Reads a file over what the run has. FOCAL_EIO when it cannot be read; FOCAL_EFORMAT with file,
 * line, key, value and limits otherwise. After a failure the run is of no use. */
focal_status foci_run_read(focal_ctx *ctx, const char *path, foci_run *run);
/* The same for a text in memory; `path` names it in messages. */
focal_status foci_run_parse(focal_ctx *ctx, const char *path, foci_text text, foci_run *run);

/* `key=value`, as behind --set: over what the file said, and over an earlier --set. FOCAL_EINVAL on
 * anything wrong. */
focal_status foci_run_set(focal_ctx *ctx, const char *assignment, foci_run *run);
/* The same behind another option, which messages then name. */
focal_status foci_run_set_by(focal_ctx *ctx, const char *option, const char *assignment,
                             foci_run *run);

/* Checks what several keys say together and fills in what follows from others: see
 * docs/TRAINING.md. To be called once all is read; again it changes nothing. FOCAL_EINVAL. */
focal_status foci_run_resolve(focal_ctx *ctx, foci_run *run);
/* FOCAL_EINVAL when a resolved run looks at data and does not say where they are. */
focal_status foci_run_check_data(focal_ctx *ctx, const foci_run *run);

/* Makes paths mean the same wherever the run goes on. One that is not there stays as it is: who
 * opens it will say so. */
void foci_run_make_paths_whole(foci_run *run);

/* Writes every key with its value, so that reading the file gives this run to the bit. */
focal_status foci_run_write(focal_ctx *ctx, const char *path, const foci_run *run);

/* The value of key n as it is written, without the name. */
void foci_run_value(const foci_run *run, int n, char out[FOCI_RUN_VALUE]);
/* What a key accepts: "integer, 1 to 512", "bf16|f32", "true|false", ... */
void foci_run_accepts(const foci_run_key *key, char out[FOCI_RUN_TEXT]);
/* The two lines of a key in `--help keys`: name and default, and below what it is. */
void foci_run_help(const foci_run_key *key, char out[FOCI_RUN_VALUE]);
/* The key with a name; -1: there is none. The key whose name is nearest to it; never -1. */
int foci_run_find(foci_text name);
int foci_run_nearest(foci_text name);
/* Whether the key with this name, which must be one, was set by the file or an override. */
bool foci_run_is_given(const foci_run *run, const char *name);
/* Whether key n has the value that it has by default: a run file that was written has every key. */
bool foci_run_is_default(const foci_run *run, int n);

#endif /* FOCI_TRAIN_RUN_FILE_H */
