/* The keys of run files: the one place where a setting is named, limited and explained. Defaults
 * are those of the 34 M model of docs/MATH.md, 2. */
#include "train/run_file.h"

#include "focal/attn.h"

#define FIELD(field) offsetof(foci_run, field)
#define TOKENS_MOST 1e12
#define STEPS_MOST 1e9

#define INT(name, field, least, most, initial, about)                                              \
    {                                                                                              \
        name, FOCI_RUN_INT, FIELD(field), least, most, initial, NULL, about                        \
    }
#define REAL(name, field, least, most, initial, about)                                             \
    {                                                                                              \
        name, FOCI_RUN_REAL, FIELD(field), least, most, initial, NULL, about                       \
    }
#define BOOL(name, field, initial, about)                                                          \
    {                                                                                              \
        name, FOCI_RUN_BOOL, FIELD(field), 0, 0, initial, NULL, about                              \
    }
#define CHOICE(name, field, choices, initial, about)                                               \
    {                                                                                              \
        name, FOCI_RUN_CHOICE, FIELD(field), 0, 0, initial, choices, about                         \
    }
#define STRING(name, field, initial, about)                                                        \
    {                                                                                              \
        name, FOCI_RUN_STRING, FIELD(field), 0, 0, initial, NULL, about                            \
    }
#define INTS(name, field, least, most, initial, about)                                             \
    {                                                                                              \
        name, FOCI_RUN_INTS, FIELD(field), least, most, initial, NULL, about                       \
    }

const foci_run_key foci_run_keys[FOCI_RUN_KEYS] = {
    STRING("data.shards", data.shards, "",
           "folder of the token shards that `focal tokenize` writes"),
    REAL("data.valid_share", data.valid_share, 0, 0.5, "0.01",
         "share of the tokens, at the end of the data, that is kept for validation"),
    INT("data.length", data.length, 2, 1 << 20, "2048",
        "tokens of a window; where only groups learn, the default is no more than the model was "
        "made for"),
    INT("data.batch", data.batch, 1, 1 << 20, "32", "windows of a step"),
    INT("data.accumulation", data.accumulation, 1, 1 << 20, "1",
        "passes that a step is divided into, each of batch / accumulation windows; changes memory "
        "and no data"),
    BOOL("data.cross_documents", data.cross_documents, "false",
         "whether attention looks across the border of two documents in a window"),
    REAL("data.repeat", data.repeat, 0, 1, "0",
         "share of the sequences that get a passage of theirs once more, so that copying is "
         "learned; where only groups learn the default is 0.3"),

    CHOICE("model.family", model.family, "qwen3|gpt2", "qwen3", "what the model is built like"),
    INT("model.layers", model.layers, 1, 512, "8", "layers"),
    INT("model.width", model.width, 8, 1 << 16, "512", "width of the residual stream"),
    INT("model.ffn", model.ffn, 8, 1 << 20, "1408", "hidden width of the feed-forward part"),
    INT("model.heads", model.heads, 1, 1024, "8", "query heads"),
    INT("model.kv_heads", model.kv_heads, 0, 1024, "0",
        "key and value heads; 0: as many as query heads"),
    INT("model.head_dim", model.head_dim, 0, FOCAL_MAX_HEAD_WIDTH, "0",
        "width of a head; 0: width / heads"),
    INT("model.vocabulary", model.vocabulary, 0, 1 << 22, "16384",
        "ids of the vocabulary; 0: those of the shards"),
    BOOL("model.tied", model.tied, "true", "whether the head is the embedding"),
    REAL("model.rope_base", model.rope_base, 2, 1e9, "10000", "base of the rotation's frequencies"),
    CHOICE("model.qk_norm", model.qk_norm, "plain|gain|none", "plain",
           "norm of queries and keys: without gain, so that a temperature binds; with one; none "
           "(gpt2's default)"),
    REAL(
        "model.qk_gain", model.qk_gain, 0.01, 100, "1",
        "what the gain of the queries' norm begins with; 1 / t is the control for a temperature t"),

    CHOICE("temperature.kind", temperature.kind, "constant|learned|learned-paper|per-head|length",
           "constant", "how the temperature of attention comes about"),
    REAL("temperature.value", temperature.value, 0.01, 100, "0.4",
         "the temperature t, or what it starts from; with start.from the default is 1"),
    REAL("temperature.length_c", temperature.length_c, 0, 10, "0.1",
         "of kind length: c in t / (1 + c ln(max(1, (i + 1) / n0)))"),
    INT("temperature.length_n0", temperature.length_n0, 0, 1 << 24, "0",
        "of kind length: n0; 0: data.length"),
    INTS("temperature.layers", temperature.layers, 0, 511, "all",
         "layers that have the temperature; the others have t = 1"),
    INTS("temperature.heads", temperature.heads, 0, 1023, "all",
         "query heads that have the temperature; the others have t = 1"),

    STRING("start.from", start.from, "",
           "model to continue, a directory or a GGUF file; empty: start from random weights"),
    INT("start.ramp_steps", start.ramp_steps, 0, STEPS_MOST, "0",
        "steps over which the temperature of a continued model goes from 1 to its value"),
    REAL("start.rope_base", start.rope_base, 0, 1e9, "0",
         "new base of the rotation of a continued model; 0: its own"),
    REAL("start.yarn_factor", start.yarn_factor, 1, 1024, "1",
         "how many times its context a continued model is stretched by yarn; 1: not at all"),

    CHOICE("learn", learn, "all|groups", "all",
           "what learns: everything; groups on a model that stays as it is (`focal fit`)"),
    CHOICE("objective", objective, "lm|kl", "lm",
           "what is made small: the loss on the text; how far the model with groups is from the "
           "model without, the default where only groups learn"),
    CHOICE("groups.method", groups.method, "focus|temperature|none|random|start|lora|scale",
           "focus",
           "of learn = groups: routers and temperatures learn; temperatures alone do, all keys "
           "being seen (or none but window and sinks: groups.top = 0); only window and sinks are "
           "seen; groups are random; or the routers are as they begin, balanced; those three learn "
           "nothing. And in place of groups, all keys being seen, LoRA, or one number that the "
           "logits of keys beyond window and sinks are multiplied by"),
    INT("groups.count", groups.count, 0, 64, "0",
        "groups of a router; 0: no groups. Where only groups learn the default is 16"),
    INT("groups.width", groups.width, 1, 256, "16", "width of a router"),
    INT("groups.top", groups.top, 0, 64, "4",
        "groups that a token looks into when the model runs; 0, of groups.method = temperature: "
        "window and sinks alone are seen, in training too"),
    INT("groups.top_fit", groups.top_fit, 1, 64, "2",
        "groups that a token looks into while routers learn"),
    INT("groups.window", groups.window, 0, 1 << 27, "128",
        "keys before its own that a token sees always"),
    INT("groups.sinks", groups.sinks, 0, 1 << 27, "4", "first keys, which all tokens see"),
    CHOICE("groups.scope", groups.scope, "kv|layer", "kv",
           "a router for each key head, or one for a layer"),
    CHOICE("groups.mode", groups.mode, "directed|shared", "directed",
           "a key is in one group and a query looks into several; or a token is in several, and "
           "looks into the same"),
    CHOICE("groups.gate", groups.gate, "straight|paper|log", "straight",
           "how the gradient passes the choice of groups: straight through what runs; the paper's "
           "sigmoid or a logarithm, which see all keys while they learn"),
    CHOICE("groups.balance", groups.balance, "bias|sign|sinkhorn|none", "bias",
           "what keeps groups of one size: a bias moved by the logarithm of their load, or by its "
           "sign; Sinkhorn over each sequence, which is not causal; nothing"),
    REAL("groups.rate", groups.rate, 0, 10, "0.55",
         "how far the bias moves at first; of sign the default is 0.11"),
    REAL("groups.rate_end", groups.rate_end, 0, 10, "0.05",
         "and at the end, with a line between; of sign the default is 0.01"),
    CHOICE("groups.router", groups.router, "unit|raw", "unit",
           "form of a router: vectors of length 1 with offsets and bias; the paper's, without"),
    BOOL("groups.temperatures", groups.temperatures, "false",
         "whether each head gets a temperature that learns; where only groups learn the default "
         "is true"),
    CHOICE("groups.init", groups.init, "heads|random", "heads",
           "what routers begin with: the model's own heads, or random numbers"),
    INTS("groups.layers", groups.layers, 0, 511, "all",
         "layers that get a router, of those whose attention has no window of its own; or LoRA"),
    INT("groups.first", groups.first, 0, STEPS_MOST, "0",
        "of learn = all: steps at the beginning in which only groups learn"),
    CHOICE("groups.type", groups.type, "bf16|f32", "bf16",
           "type of the projections in the adapter's file; all else there is float32"),
    INT("lora.rank", lora.rank, 1, 4096, "8", "of groups.method = lora: rows of its A"),
    REAL("lora.alpha", lora.alpha, 0, 1e6, "0",
         "its product is multiplied by alpha / rank; 0: twice the rank"),
    CHOICE("lora.targets", lora.targets, "qv|all", "qv",
           "what it is added to: the projections of queries and values, or all of a layer"),

    CHOICE("optimiser.kind", optimiser.kind, "adamw|muon", "adamw",
           "optimiser of the matrices; what is no matrix of a layer is AdamW's always"),
    REAL("optimiser.lr", optimiser.lr, 0, 10, "0.0015", "highest learning rate"),
    REAL("optimiser.beta1", optimiser.beta1, 0, 0.99999, "0.9",
         "AdamW: decay of the mean of gradients"),
    REAL("optimiser.beta2", optimiser.beta2, 0, 0.9999999, "0.95",
         "AdamW: decay of the mean of their squares"),
    REAL("optimiser.eps", optimiser.eps, 1e-30, 1, "1e-8",
         "AdamW: what is added to the root of that mean"),
    REAL("optimiser.momentum", optimiser.momentum, 0, 0.99999, "0.95",
         "Muon: decay of the mean of gradients"),
    REAL("optimiser.decay", optimiser.decay, 0, 10, "0.1",
         "weight decay, on matrices only; where only groups learn it is 0"),
    REAL("optimiser.clip", optimiser.clip, 0, 1e6, "1",
         "largest norm of the whole gradient; 0: no limit"),
    REAL("optimiser.z_loss", optimiser.z_loss, 0, 1, "0",
         "weight of the squared log of the softmax sum in the loss; 0: none"),

    CHOICE("schedule.kind", schedule.kind, "constant|cosine|decay", "cosine",
           "learning rate after the warm-up: constant; a cosine to the floor; constant, then a "
           "line to the floor"),
    INT("schedule.warmup", schedule.warmup, 0, STEPS_MOST, "60",
        "steps until the learning rate is at its highest; by default at most a tenth of the steps"),
    REAL("schedule.floor", schedule.floor, 0, 1, "0.1",
         "last learning rate as a share of the highest"),
    REAL("schedule.decay_part", schedule.decay_part, 0, 1, "0.2",
         "of kind decay: share of the steps, at the end, in which the rate falls"),
    INT("schedule.steps", schedule.steps, 0, STEPS_MOST, "1100",
        "steps of the run; 0, and the default where minutes are given: until they are over"),
    REAL("schedule.minutes", schedule.minutes, 0, 1e6, "0",
         "time after which the run ends at the latest; 0: none"),

    CHOICE("precision", precision, "bf16|f32", "bf16",
           "what products read; masters, moments and gradients are float32 in either case"),
    CHOICE("recompute", recompute, "none|inputs|block", "none",
           "what backward computes again to save memory: nothing; what follows from the inputs of "
           "attention and feed-forward; whole blocks"),
    INT("seed", seed, 0, 9007199254740992.0, "1",
        "number that weights and order of the data depend on"),

    INT("checkpoint.every", checkpoint.every, 0, STEPS_MOST, "100",
        "steps between checkpoints; 0: only at the end"),
    INT("checkpoint.keep", checkpoint.keep, 1, 1 << 16, "2", "newest checkpoints that are kept"),
    INT("checkpoint.keep_every", checkpoint.keep_every, 0, STEPS_MOST, "0",
        "checkpoints of steps that are a multiple of it are kept as well; 0: none"),
    INT("validation.every", validation.every, 0, STEPS_MOST, "100",
        "steps between validations; 0: only at the end"),
    INT("validation.tokens", validation.tokens, 1, TOKENS_MOST, "131072",
        "tokens that a validation reads at most"),
    INT("samples.every", samples.every, 0, STEPS_MOST, "0",
        "steps between samples of generated text; 0: none"),
    STRING("samples.prompt", samples.prompt, "", "text that samples continue"),
    INT("samples.tokens", samples.tokens, 1, 1 << 20, "64", "tokens of a sample"),
    CHOICE(
        "on_spike", on_spike, "stop|skip", "stop",
        "what happens when a loss is no number or a spike: save and stop, or leave the step out"),
    REAL("spike_threshold", spike_threshold, 0, 1000, "2",
         "nats above the mean of the last losses that make a spike; 0: only what is no number is "
         "one"),
};
