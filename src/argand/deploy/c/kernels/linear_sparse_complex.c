/* y = W x + b for each of the positions, by kept weights alone: row o has counts[o] of them, in order of their
 * columns. A null scale is 1, a null bias 0. */
static void net_linear_sparse_complex_SUFFIX(const float *restrict x, float *restrict y, int positions,
        int inputs, int outputs, const INDEX *counts, const INDEX *columns, const WEIGHT *values,
        const float *scale, const float *bias)
{
    for (int p = 0; p < positions; p++, x += 2 * inputs) {
        const INDEX *column = columns;
        const WEIGHT *value = values;
        for (int o = 0; o < outputs; o++) {
            const float s = scale ? scale[o] : 1.0f;
            float re = 0.0f, im = 0.0f;
            for (unsigned k = 0; k < counts[o]; k++, value += 2) {
                const float *z = x + 2 * (size_t)*column++;
                re += (float)value[0] * z[0] - (float)value[1] * z[1];
                im += (float)value[0] * z[1] + (float)value[1] * z[0];
            }
            *y++ = s * re + (bias ? bias[2 * o] : 0.0f);
            *y++ = s * im + (bias ? bias[2 * o + 1] : 0.0f);
        }
    }
}
