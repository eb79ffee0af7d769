/* Gradients of the router scores: second half of route_body.h. First dz of every token, block by
 * block, with what da and de get from each piece of the text; then dh and dp as wide products. */
#ifndef FOCI_OPS_ROUTE_ROUTE_BODY_BACKWARD_H
#define FOCI_OPS_ROUTE_ROUTE_BODY_BACKWARD_H

enum {
    CHANNELS = 32, /* of dp in one item: two cache lines of each row of h */
    CHUNK = 128    /* tokens of a sum of dp that are added up alone, for precision */
};

/* ds of a block of one side: where it lies, or the sum of two in `sum`. */
static const float *gather_ds(const plan *x, const side *s, int64_t first, int64_t count,
                              float *sum)
{
    const int64_t step = (int64_t)x->router->routers * x->router->K;
    const float *ds = (s->ds ? s->ds : s->ds_also) + first * step;
    if (!s->ds || !s->ds_also) return ds;
    for (int64_t n = 0; n < count * step; n++) sum[n] = ds[n] + s->ds_also[first * step + n];
    return sum;
}

/* Differentiates z = unit(h p + a): dz <- (dz - z (z.dz)) / norm. */
static void unit_backward(float *dz, const float *z, float scale, int64_t width)
{
    vec dots = v_zero();
    for (int64_t n = 0; n < width; n += VL) dots = v_fma(v_load(z + n), v_load(dz + n), dots);
    const vec minus_dot = v_set1(-v_reduce_add(dots)), scales = v_set1(scale);
    for (int64_t n = 0; n < width; n += VL)
        v_store(dz + n, v_mul(v_fma(v_load(z + n), minus_dot, v_load(dz + n)), scales));
}

/* The block's dz and its share of da and de of one router and side. */
static void block_backward(const plan *x, int64_t router, int64_t count, const float *ds,
                           const float *z, const float *scales, float *dz, float *da, float *de,
                           float *product_out)
{
    const focal_router *r = x->router;
    const int64_t ds_row = (int64_t)r->routers * r->K, dz_row = x->side_count * x->columns;
    /* s = sharpness z.e + beta: dz = sharpness ds e, de = sharpness ds^T z (the factor later) */
    multiply(&(product){.rows = count,
                        .vectors = x->width / VL,
                        .depth = r->K,
                        .a = ds,
                        .a_row = ds_row,
                        .a_step = 1,
                        .b = x->e_rows + router * r->K * x->width,
                        .b_step = x->width,
                        .block_vectors = x->width / VL,
                        .out = dz,
                        .out_row = dz_row});
    multiply(&(product){.rows = r->K,
                        .vectors = x->width / VL,
                        .depth = count,
                        .a = ds,
                        .a_row = 1,
                        .a_step = ds_row,
                        .b = z,
                        .b_step = x->columns,
                        .block_vectors = x->width / VL,
                        .out = product_out,
                        .out_row = x->width});
    for (int64_t n = 0; n < r->K * x->width; n++) de[n] += product_out[n];
    for (int64_t t = 0; t < count; t++) {
        if (!r->is_raw)
            unit_backward(dz + t * dz_row, z + t * x->columns, scales[t * r->routers], x->width);
        for (int64_t n = 0; n < x->width; n++) da[n] += dz[t * dz_row + n];
    }
}

static void backward_piece(void *arg, int64_t piece, int32_t thread)
{
    const plan *x = arg;
    const focal_router *r = x->router;
    const int64_t begin = piece * FOCI_ROUTE_PIECE;
    const int64_t end = foci_min64(begin + FOCI_ROUTE_PIECE, x->args->T);
    float *z = buffer_of(x, thread), *scales = z + BLOCK * x->columns;
    float *sum = scales + (int64_t)BLOCK * r->routers,
          *out = sum + (int64_t)BLOCK * r->routers * r->K;
    float *part = x->parts + piece * x->part_floats;
    float *de = part + x->side_count * x->columns;
    memset(part, 0, (size_t)x->part_floats * sizeof *part);
    for (int64_t first = begin; first < end; first += BLOCK) {
        const int64_t count = foci_min64(BLOCK, end - first);
        for (int n = 0; n < x->side_count; n++) {
            const float *ds = gather_ds(x, &x->sides[n], first, count, sum);
            float *dz = x->dz + (first * x->side_count + n) * x->columns;
            project(x, &x->sides[n], first, count, z, scales);
            for (int64_t i = 0; i < r->routers; i++)
                block_backward(x, i, count, ds + i * r->K, z + i * x->width, scales + i,
                               dz + i * x->width, part + n * x->columns + i * x->width,
                               de + i * r->K * x->width, out);
        }
    }
}

/* The element of all pieces, added in their order. */
static double merged(const plan *x, int64_t at)
{
    const int64_t pieces = foci_pieces(x->args->T, FOCI_ROUTE_PIECE);
    double sum = 0.0;
    for (int64_t n = 0; n < pieces; n++) sum += (double)x->parts[n * x->part_floats + at];
    return sum;
}

static void merge_offsets(const plan *x)
{
    const focal_router *r = x->router;
    for (int s = 0; s < x->side_count; s++)
        for (int64_t n = 0; n < (int64_t)r->routers * r->R && x->sides[s].da; n++)
            x->sides[s].da[n] = (float)merged(x, s * x->columns + n / r->R * x->width + n % r->R);
}

/* Differentiates unit(E_c) = E_c / norm; the norm is 1 and nothing is divided when raw. */
static void merge_centroids(const plan *x, float *de)
{
    const focal_router *r = x->router;
    double sum[FOCI_ROUTE_MAX_WIDTH];
    for (int64_t row = 0; row < (int64_t)r->routers * r->K; row++) {
        const float *e = r->e + row * r->R;
        const double norm = (double)x->norms[row];
        double dot = 0.0;
        for (int64_t n = 0; n < r->R; n++) {
            sum[n] =
                (double)r->sharpness * merged(x, x->side_count * x->columns + row * x->width + n);
            dot += sum[n] * (double)e[n];
        }
        for (int64_t n = 0; n < r->R; n++) {
            double value = sum[n];
            if (!r->is_raw)
                value = norm == 0.0 ? 0.0 : (value - (double)e[n] * dot / (norm * norm)) / norm;
            de[row * r->R + n] = (float)value;
        }
    }
}

/* p of all sides, turned, in panels as wide as a tile: what dh = dz p^T reads. */
static void turn_projection(const plan *x)
{
    const focal_router *r = x->router;
    const int64_t panel = panel_columns(), depth = x->side_count * x->columns;
    memset(x->p_across, 0, (size_t)(foci_round_up(r->C, panel) * depth) * sizeof(float));
    for (int64_t k = 0; k < depth; k++) {
        const side *s = &x->sides[k / x->columns];
        const int64_t column = k % x->columns, router = column / x->width;
        if (column % x->width >= r->R) continue;
        const float *p = s->p + router * r->C * x->p_step + column % x->width;
        for (int64_t c = 0; c < r->C; c++)
            x->p_across[(c / panel * depth + k) * panel + c % panel] = p[c * x->p_step];
    }
}

/* z = h p + a: dh = dz p^T. */
static void hidden_block(void *arg, int64_t index, int32_t thread)
{
    const plan *x = arg;
    const int64_t C = x->router->C, depth = x->side_count * x->columns, stride = x->args->h_stride;
    const int64_t first = index * BLOCK, count = foci_min64(BLOCK, x->args->T - first);
    const bool is_direct = C % VL == 0;
    float *out = is_direct ? x->dh + first * stride : buffer_of(x, thread);
    const int64_t out_row = is_direct ? stride : foci_round_up(C, VL);
    multiply(&(product){.rows = count,
                        .vectors = foci_pieces(C, VL),
                        .depth = depth,
                        .a = x->dz + first * depth,
                        .a_row = depth,
                        .a_step = 1,
                        .b = x->p_across,
                        .b_step = panel_columns(),
                        .block_step = depth * panel_columns(),
                        .block_vectors = PANEL,
                        .out = out,
                        .out_row = out_row});
    for (int64_t t = 0; t < count && !is_direct; t++)
        memcpy(x->dh + (first + t) * stride, out + t * out_row, (size_t)C * sizeof *out);
}

static int64_t panels_of_side(const plan *x)
{
    return foci_pieces(x->columns / VL, PANEL);
}

/* z = h p + a: dp = h^T dz, for CHANNELS channels and one panel of columns. */
static void projection_item(void *arg, int64_t index, int32_t thread)
{
    const plan *x = arg;
    const focal_router *r = x->router;
    const int64_t blocks = foci_pieces(r->C, CHANNELS), panels = panels_of_side(x);
    const int64_t channel = index % blocks * CHANNELS, panel = index / blocks % panels;
    const int64_t n = index / blocks / panels, first = panel * panel_columns();
    const int64_t channels = foci_min64(CHANNELS, r->C - channel);
    const int64_t columns = foci_min64(panel_columns(), x->columns - first);
    const int64_t dz_row = x->side_count * x->columns, stride = x->args->h_stride;
    float sum[CHANNELS * PANEL * VL] = {0}, part[CHANNELS * PANEL * VL];
    (void)thread;
    if (!x->sides[n].dp) return;
    for (int64_t t = 0; t < x->args->T; t += CHUNK) {
        multiply(&(product){.rows = channels,
                            .vectors = columns / VL,
                            .depth = foci_min64(CHUNK, x->args->T - t),
                            .a = x->args->h + t * stride + channel,
                            .a_row = 1,
                            .a_step = stride,
                            .b = x->dz + t * dz_row + n * x->columns + first,
                            .b_step = dz_row,
                            .block_vectors = PANEL,
                            .out = part,
                            .out_row = columns});
        for (int64_t i = 0; i < channels * columns; i++) sum[i] += part[i];
    }
    for (int64_t c = 0; c < channels; c++) {
        for (int64_t i = 0; i < columns; i++) {
            const int64_t router = (first + i) / x->width, column = (first + i) % x->width;
            if (column < r->R)
                x->sides[n].dp[(router * r->C + channel + c) * r->R + column] =
                    sum[c * columns + i];
        }
    }
}

static focal_status prepare_backward(focal_ctx *ctx, plan *x, const focal_route_grads *g)
{
    const focal_router *r = x->router;
    const int64_t depth = x->side_count * x->columns;
    const int64_t piece_floats =
        BLOCK * (x->columns + (int64_t)r->routers * (r->K + 1)) + r->K * x->width;
    const int64_t hidden_floats = g->dh ? BLOCK * foci_round_up(r->C, VL) : 0;
    FOCAL_TRY(prepare(ctx, x, foci_max64(piece_floats, hidden_floats)));
    FOCAL_TRY(prepare_projection(ctx, x));
    x->dh = g->dh;
    x->part_floats = depth + (int64_t)r->routers * r->K * x->width;
    x->dz = floats(ctx, x->args->T * depth);
    x->parts = floats(ctx, foci_pieces(x->args->T, FOCI_ROUTE_PIECE) * x->part_floats);
    if (g->dh) x->p_across = floats(ctx, foci_round_up(r->C, panel_columns()) * depth);
    return x->dz && x->parts && (x->p_across || !g->dh) ? FOCAL_OK : FOCAL_ENOMEM;
}

static void clear_unused(const focal_router *r, float *dp, float *da)
{
    if (dp) memset(dp, 0, (size_t)r->routers * (size_t)r->C * (size_t)r->R * sizeof *dp);
    if (da) memset(da, 0, (size_t)r->routers * (size_t)r->R * sizeof *da);
}

static focal_status run_backward(focal_ctx *ctx, const focal_route_args *args,
                                 const focal_route_grads *g)
{
    const focal_router *r = args->router;
    plan x = begin_plan(args);
    if (!r->pq) {
        x.sides[x.side_count++] =
            (side){r->pk, r->ak, NULL, NULL, NULL, g->dsk, g->dsq, g->dpk, g->dak};
    } else {
        if (g->dsk)
            x.sides[x.side_count++] =
                (side){r->pk, r->ak, NULL, NULL, NULL, g->dsk, NULL, g->dpk, g->dak};
        if (g->dsq)
            x.sides[x.side_count++] =
                (side){r->pq, r->aq, NULL, NULL, NULL, g->dsq, NULL, g->dpq, g->daq};
        if (!g->dsk) clear_unused(r, g->dpk, g->dak);
        if (!g->dsq) clear_unused(r, g->dpq, g->daq);
    }
    const focal_status status = prepare_backward(ctx, &x, g);
    if (status == FOCAL_OK) {
        foci_parallel(ctx, foci_pieces(args->T, FOCI_ROUTE_PIECE), backward_piece, &x);
        merge_offsets(&x);
        if (g->de) merge_centroids(&x, g->de);
        if (g->dh) {
            turn_projection(&x);
            foci_parallel(ctx, foci_pieces(args->T, BLOCK), hidden_block, &x);
        }
        if (g->dpk || g->dpq)
            foci_parallel(ctx, x.side_count * panels_of_side(&x) * foci_pieces(r->C, CHANNELS),
                          projection_item, &x);
    }
    free_plan(ctx, &x);
    return status;
}

#endif /* FOCI_OPS_ROUTE_ROUTE_BODY_BACKWARD_H */
