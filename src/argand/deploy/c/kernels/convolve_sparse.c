/* Convolution by kept weights alone: output channel o has counts[o] of them, in order, and column numbers each
 * by (input channel of the group, tap). A null scale is 1, a null bias 0. */
static void net_convolve_sparse_FIELD_SUFFIX(const float *restrict x, float *restrict y,
        const net_convolution *c, const INDEX *counts, const INDEX *columns, const WEIGHT *values,
        const float *scale, const float *bias)
{
    const int kh = c->height.kernel, kw = c->width.kernel, taps = c->depth.kernel * kh * kw;
    const int group_inputs = c->inputs / c->groups, group_outputs = c->outputs / c->groups;
    for (int o = 0; o < c->outputs; o++) {
        const float *group = x + (size_t)PARTS * (o / group_outputs) * group_inputs * c->input_plane;
        net_start_plane_FIELD(y, bias ? bias + PARTS * o : NULL, c->output_plane);
        for (unsigned k = 0; k < counts[o]; k++) {
            const int column = (int)*columns++, tap = column % taps;
            float weight[PARTS];
            for (int part = 0; part < PARTS; part++)
                weight[part] = scale ? scale[o] * (float)*values++ : (float)*values++;
            net_tap_FIELD(group + (size_t)PARTS * (column / taps) * c->input_plane, y, weight, c,
                    tap / (kh * kw), tap / kw % kh, tap % kw);
        }
        y += PARTS * c->output_plane;
    }
}
