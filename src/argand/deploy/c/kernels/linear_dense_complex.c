/* y = W x + b for each of the positions, by all weights. A null scale is 1, a null bias 0. */
static void net_linear_dense_complex_SUFFIX(const float *restrict x, float *restrict y, int positions,
        int inputs, int outputs, const WEIGHT *values, const float *scale, const float *bias)
{
    for (int p = 0; p < positions; p++, x += 2 * inputs) {
        const WEIGHT *w = values;
        for (int o = 0; o < outputs; o++) {
            const float s = scale ? scale[o] : 1.0f;
            float rr = 0.0f, ii = 0.0f, ri = 0.0f, ir = 0.0f;
            for (int i = 0; i < inputs; i++, w += 2) {
                rr += (float)w[0] * x[2 * i];
                ii += (float)w[1] * x[2 * i + 1];
                ri += (float)w[0] * x[2 * i + 1];
                ir += (float)w[1] * x[2 * i];
            }
            *y++ = s * (rr - ii) + (bias ? bias[2 * o] : 0.0f);
            *y++ = s * (ri + ir) + (bias ? bias[2 * o + 1] : 0.0f);
        }
    }
}
