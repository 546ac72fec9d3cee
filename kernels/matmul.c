/* SPDX-License-Identifier: MIT */
/* matmul - picks the entry for a weight format and a kind of activations. No arithmetic here. */
#include "kernels/matmul.h"

#include "core/must.h"

void matmul_run(const struct matmul_kernels *k, const struct matmul *m, uint32_t row_begin,
                uint32_t row_end)
{
    const struct act *x = m->x;
    must(x->cols == m->w.cols && row_begin <= row_end && row_end <= m->w.rows);
    must(m->x_begin <= x->rows && m->x_count <= x->rows - m->x_begin);
    if (row_begin == row_end || m->x_count == 0)
        return;
    if (x->kind == ACT_F32 && act_kind_for(m->w.type) != ACT_F32) {
        k->run_f32(m, row_begin, row_end);
        return;
    }
    must(x->kind == act_kind_for(m->w.type) && k->run[m->w.type] != NULL);
    k->run[m->w.type](m, row_begin, row_end);
}
