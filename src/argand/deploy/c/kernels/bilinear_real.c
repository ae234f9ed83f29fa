/* y_o = sum of W_oij x_i z_j, plus b_o, for each of the positions. Row o has counts[o] kept weights, and column is
 * i * seconds + j; if counts is null, all weights are there. A null scale is 1, a null bias 0. */
static void net_bilinear_real_SUFFIX(const float *restrict x, const float *restrict z, float *restrict y,
        int positions, int firsts, int seconds, int outputs, const INDEX *counts, const INDEX *columns,
        const WEIGHT *values, const float *scale, const float *bias)
{
    for (int p = 0; p < positions; p++, x += firsts, z += seconds) {
        const INDEX *next = columns;
        const WEIGHT *w = values;
        for (int o = 0; o < outputs; o++) {
            const int count = counts ? (int)counts[o] : firsts * seconds;
            float sum = 0.0f;
            for (int k = 0; k < count; k++) {
                const int column = next ? (int)*next++ : k;
                sum += (float)*w++ * (x[column / seconds] * z[column % seconds]);
            }
            *y++ = (scale ? scale[o] : 1.0f) * sum + (bias ? bias[o] : 0.0f);
        }
    }
}
