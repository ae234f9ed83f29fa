/* y += w x over count complex entries, which lie y_step and x_step apart. */
static void net_add_scaled_complex(float *restrict y, const float *restrict x, const float *w, int count,
        int y_step, int x_step)
{
    const float wr = w[0], wi = w[1];
    int i = 0;
    if (y_step == 1 && x_step == 1)
        for (; i + 4 <= count; i += 4, x += 8, y += 8)
            for (int k = 0; k < 8; k += 2) {
                y[k] += wr * x[k] - wi * x[k + 1];
                y[k + 1] += wr * x[k + 1] + wi * x[k];
            }
    for (; i < count; i++, x += 2 * x_step, y += 2 * y_step) {
        const float re = x[0], im = x[1];
        y[0] += wr * re - wi * im;
        y[1] += wr * im + wi * re;
    }
}
