/* x + 0j. */
static void net_to_complex(const float *restrict x, float *restrict y, int count)
{
    for (int i = 0; i < count; i++) {
        y[2 * i] = x[i];
        y[2 * i + 1] = 0.0f;
    }
}
