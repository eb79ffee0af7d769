/* One number that the logits of distant pairs are multiplied by: attention's gate of one group, in
 * which every query has the number and every key 1 (docs/MATH.md, 3.6). */
#include <math.h>

#include "model/backward_pass.h"

void foci_pass_begin_scale(const foci_pass *p)
{
    if (!p->scale_q) return;
    const float scale = expf(*p->t->groups->log_scale);
    for (int64_t i = 0; i < p->T; i++) {
        p->scale_q[i] = scale;
        p->scale_k[i] = 1.0F;
    }
}

void foci_pass_scale_attention(const foci_pass *p, focal_attn_args *args, focal_attn_gate *gate)
{
    const foci_groups *groups = p->t->groups;
    args->has_window = true;
    args->window = groups->window;
    args->sinks = groups->sinks;
    *gate = (focal_attn_gate){
        .kind = FOCAL_GATE_SCALE, .K = 1, .routers = 1, .gq = p->scale_q, .gk = p->scale_k};
    args->gate = gate;
}

/* (3.6.2): every query has the same number, whose gradients are summed. */
void foci_pass_scale_back(const foci_pass *p)
{
    double sum = 0.0;
    for (int64_t i = 0; i < p->T; i++) sum += (double)p->dgq[i];
    *p->t->log_scale += (float)(sum * (double)p->scale_q[0]);
}
