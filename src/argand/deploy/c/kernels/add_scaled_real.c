/* y += w x over count entries, which lie y_step and x_step apart. */
static void net_add_scaled_real(float *restrict y, const float *restrict x, const float *w, int count,
        int y_step, int x_step)
{
    const float weight = w[0];
    int i = 0;
    if (y_step == 1 && x_step == 1)
        for (; i + 4 <= count; i += 4)
            for (int k = 0; k < 4; k++)
                y[i + k] += weight * x[i + k];
    for (; i < count; i++)
        y[i * y_step] += weight * x[i * x_step];
}
