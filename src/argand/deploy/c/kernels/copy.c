/* Copies blocks of floats to places y_step apart. */
static void net_copy(const float *restrict x, float *restrict y, int blocks, int size, int y_step)
{
    for (int b = 0; b < blocks; b++, x += size, y += y_step)
        for (int i = 0; i < size; i++)
            y[i] = x[i];
}
