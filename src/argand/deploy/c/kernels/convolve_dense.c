/* Convolution by all weights, in the order (output channel, input channel of the group, tap). A null scale is 1, a
 * null bias 0. */
static void net_convolve_dense_FIELD_SUFFIX(const float *restrict x, float *restrict y,
        const net_convolution *c, const WEIGHT *values, const float *scale, const float *bias)
{
    const int group_inputs = c->inputs / c->groups, group_outputs = c->outputs / c->groups;
    for (int o = 0; o < c->outputs; o++) {
        const float *plane = x + (size_t)PARTS * (o / group_outputs) * group_inputs * c->input_plane;
        net_start_plane_FIELD(y, bias ? bias + PARTS * o : NULL, c->output_plane);
        for (int i = 0; i < group_inputs; i++) {
            for (int d = 0; d < c->depth.kernel; d++)
                for (int h = 0; h < c->height.kernel; h++)
                    for (int w = 0; w < c->width.kernel; w++) {
                        float weight[PARTS];
                        for (int part = 0; part < PARTS; part++)
                            weight[part] = scale ? scale[o] * (float)*values++ : (float)*values++;
                        net_tap_FIELD(plane, y, weight, c, d, h, w);
                    }
            plane += PARTS * c->input_plane;
        }
        y += PARTS * c->output_plane;
    }
}
