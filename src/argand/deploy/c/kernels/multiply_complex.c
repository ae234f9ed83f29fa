/* x z, of complex numbers. y may be either. */
static void net_multiply_complex(const float *x, const float *z, float *y, int count)
{
    for (int i = 0; i < 2 * count; i += 2) {
        const float re = x[i] * z[i] - x[i + 1] * z[i + 1];
        y[i + 1] = x[i] * z[i + 1] + x[i + 1] * z[i];
        y[i] = re;
    }
}
