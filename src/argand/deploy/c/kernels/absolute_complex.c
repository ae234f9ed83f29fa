/* |z|, real. y may be x. */
static void net_absolute_complex(const float *x, float *y, int count)
{
    for (int i = 0; i < count; i++)
        y[i] = hypotf(x[2 * i], x[2 * i + 1]);
}
