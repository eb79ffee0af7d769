/* Low-rank additions on a model. */
#include "model/low_rank_model.h"

#include <math.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/random.h"

foci_linear *foci_layer_linear(foci_layer *layer, foci_linear_place place)
{
    static const size_t offsets[FOCI_LINEAR_PLACES] = FOCI_LINEAR_OFFSETS(foci_layer);
    return (foci_linear *)(void *)((char *)layer + offsets[place]);
}

const char *foci_weight_names_part(const foci_weight_names *names, foci_linear_place place)
{
    const char *const parts[FOCI_LINEAR_PLACES] = {
        [FOCI_LINEAR_QKV] = names->qkv, [FOCI_LINEAR_Q] = names->q,
        [FOCI_LINEAR_K] = names->k,     [FOCI_LINEAR_V] = names->v,
        [FOCI_LINEAR_OUT] = names->out, [FOCI_LINEAR_GATE] = names->gate,
        [FOCI_LINEAR_UP] = names->up,   [FOCI_LINEAR_DOWN] = names->down};
    return parts[place];
}

void foci_model_set_low_ranks(focal_model *model, const foci_low_ranks *low_ranks)
{
    for (int32_t n = 0; n < model->config.L; n++)
        for (int place = 0; place < FOCI_LINEAR_PLACES; place++) {
            const bool is_there =
                low_ranks && n < low_ranks->L && low_ranks->layers[n][place].a != NULL;
            foci_layer_linear(&model->weights.layers[n], (foci_linear_place)place)->added =
                is_there ? &low_ranks->layers[n][place] : NULL;
        }
    model->low_ranks = low_ranks;
}

/* ---- A beginning ---- */

static bool is_chosen(const foci_low_rank_choice *choice, int32_t layer, foci_linear_place place)
{
    if (choice->layers && !choice->layers[layer]) return false;
    if (place != FOCI_LINEAR_QKV) return choice->places[place];
    return choice->places[FOCI_LINEAR_QKV] || choice->places[FOCI_LINEAR_Q] ||
           choice->places[FOCI_LINEAR_K] || choice->places[FOCI_LINEAR_V];
}

static void fill(foci_low_ranks *low_ranks, uint64_t seed)
{
    for (int32_t n = 0; n < low_ranks->L; n++)
        for (int place = 0; place < FOCI_LINEAR_PLACES; place++) {
            const foci_low_rank *low = &low_ranks->layers[n][place];
            const uint64_t stream = (uint64_t)n * FOCI_LINEAR_PLACES + (uint64_t)place;
            const int64_t count = low->a ? (int64_t)low->rank * low->K : 0;
            for (int64_t i = 0; i < count; i++) {
                const float uniform = foci_random_uniform(seed, stream, (uint64_t)i);
                low->a[i] = (2.0F * uniform - 1.0F) / sqrtf((float)low->K);
            }
        }
}

focal_status foci_low_ranks_begin(const focal_model *model, const foci_low_rank_choice *choice,
                                  foci_low_ranks **out)
{
    const int32_t L = model->config.L;
    *out = NULL;
    foci_low_rank_size(*sizes)[FOCI_LINEAR_PLACES] =
        foci_alloc(model->ctx, (size_t)L, sizeof *sizes);
    if (!sizes) return FOCAL_ENOMEM;
    memset(sizes, 0, (size_t)L * sizeof *sizes);
    for (int32_t n = 0; n < L; n++)
        for (int at = 0; at < FOCI_LINEAR_PLACES; at++) {
            const foci_linear_place place = (foci_linear_place)at;
            const foci_linear *w = foci_layer_linear(&model->weights.layers[n], place);
            if (w->w && is_chosen(choice, n, place))
                sizes[n][place] = (foci_low_rank_size){w->N, w->K};
        }
    const foci_low_ranks_shape shape = {
        .L = L,
        .rank = choice->rank,
        .alpha = choice->alpha == 0.0 ? 2.0 * choice->rank : choice->alpha,
        .is_root_scaled = choice->is_root_scaled,
        .sizes = (const foci_low_rank_size(*)[FOCI_LINEAR_PLACES])sizes};
    const focal_status status = foci_low_ranks_new(model->ctx, &shape, out);
    if (status == FOCAL_OK) fill(*out, choice->seed);
    foci_free(model->ctx, sizes);
    return status;
}

/* ---- The order of files ---- */

/* Which row of a head is row `at` of the other order: halves become pairs, or pairs halves. What
 * does not rotate stays. */
static int64_t other_row(const foci_config *c, int64_t at, bool to_pairs)
{
    const int64_t half = c->rope.rotated / 2;
    if (at >= 2 * half) return at;
    return to_pairs ? at % 2 * half + at / 2 : at % half * 2 + at / half;
}

static void turn(const foci_config *c, const foci_low_rank *from, const foci_low_rank *to,
                 bool to_pairs)
{
    for (int64_t n = 0; n < to->N; n++) {
        const int64_t at = n % c->D, source = n - at + other_row(c, at, to_pairs);
        memcpy(to->b + n * to->rank, from->b + source * to->rank, (size_t)to->rank * sizeof *to->b);
    }
}

static focal_status copy_turned(focal_ctx *ctx, const foci_config *config,
                                const foci_low_ranks *from, bool to_pairs, foci_low_ranks **out)
{
    FOCAL_TRY(foci_low_ranks_copy(ctx, from, out));
    if (config->has_positions || config->rope_style != FOCI_ROPE_PAIRS) return FOCAL_OK;
    for (int32_t n = 0; n < from->L; n++)
        for (int place = FOCI_LINEAR_Q; place <= FOCI_LINEAR_K; place++)
            if (from->layers[n][place].a)
                turn(config, &from->layers[n][place], &(*out)->layers[n][place], to_pairs);
    return FOCAL_OK;
}

focal_status foci_low_ranks_from_file(focal_ctx *ctx, const foci_config *config,
                                      const foci_low_ranks *file, foci_low_ranks **out)
{
    return copy_turned(ctx, config, file, true, out);
}

focal_status foci_low_ranks_to_file(focal_ctx *ctx, const foci_config *config,
                                    const foci_low_ranks *model, foci_low_ranks **out)
{
    return copy_turned(ctx, config, model, false, out);
}
