/* y = W x + b for each of the positions, by kept weights alone: row o has counts[o] of them, in order of their
 * columns. A null scale is 1, a null bias 0. */
static void net_linear_sparse_real_SUFFIX(const float *restrict x, float *restrict y, int positions, int inputs,
        int outputs, const INDEX *counts, const INDEX *columns, const WEIGHT *values, const float *scale,
        const float *bias)
{
    for (int p = 0; p < positions; p++, x += inputs) {
        const INDEX *column = columns;
        const WEIGHT *value = values;
        for (int o = 0; o < outputs; o++) {
            float sum = 0.0f;
            for (unsigned k = 0; k < counts[o]; k++)
                sum += (float)*value++ * x[*column++];
            *y++ = (scale ? scale[o] : 1.0f) * sum + (bias ? bias[o] : 0.0f);
        }
    }
}
