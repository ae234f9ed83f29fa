/* y_o = sum of W_oij x_i z_j, plus b_o, for each of the positions; with `sign` -1 the conjugate of x_i is taken. Row o
 * has counts[o] kept weights, and column is i * seconds + j; if counts is null, all weights are there. A null scale
 * is 1, a null bias 0. */
static void net_bilinear_complex_SUFFIX(const float *restrict x, const float *restrict z, float *restrict y,
        int positions, int firsts, int seconds, int outputs, float sign, const INDEX *counts,
        const INDEX *columns, const WEIGHT *values, const float *scale, const float *bias)
{
    for (int p = 0; p < positions; p++, x += 2 * firsts, z += 2 * seconds) {
        const INDEX *next = columns;
        const WEIGHT *w = values;
        for (int o = 0; o < outputs; o++) {
            const int count = counts ? (int)counts[o] : firsts * seconds;
            const float s = scale ? scale[o] : 1.0f;
            float re = 0.0f, im = 0.0f;
            for (int k = 0; k < count; k++, w += 2) {
                const int column = next ? (int)*next++ : k;
                const float *a = x + 2 * (column / seconds), *b = z + 2 * (column % seconds);
                const float product_re = a[0] * b[0] - sign * a[1] * b[1];
                const float product_im = a[0] * b[1] + sign * a[1] * b[0];
                re += (float)w[0] * product_re - (float)w[1] * product_im;
                im += (float)w[0] * product_im + (float)w[1] * product_re;
            }
            *y++ = s * re + (bias ? bias[2 * o] : 0.0f);
            *y++ = s * im + (bias ? bias[2 * o + 1] : 0.0f);
        }
    }
}
