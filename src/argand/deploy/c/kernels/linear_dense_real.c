/* y = W x + b for each of the positions, by all weights; four sums at a time. A null scale is 1, a null bias 0. */
static void net_linear_dense_real_SUFFIX(const float *restrict x, float *restrict y, int positions, int inputs,
        int outputs, const WEIGHT *values, const float *scale, const float *bias)
{
    for (int p = 0; p < positions; p++, x += inputs) {
        const WEIGHT *w = values;
        for (int o = 0; o < outputs; o++, w += inputs) {
            float a = 0.0f, b = 0.0f, c = 0.0f, d = 0.0f;
            int i = 0;
            for (; i + 4 <= inputs; i += 4) {
                a += (float)w[i] * x[i];
                b += (float)w[i + 1] * x[i + 1];
                c += (float)w[i + 2] * x[i + 2];
                d += (float)w[i + 3] * x[i + 3];
            }
            for (; i < inputs; i++)
                a += (float)w[i] * x[i];
            *y++ = (scale ? scale[o] : 1.0f) * ((a + b) + (c + d)) + (bias ? bias[o] : 0.0f);
        }
    }
}
