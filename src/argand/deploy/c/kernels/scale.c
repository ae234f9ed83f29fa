/* factor x. y may be x. */
static void net_scale(const float *x, float *y, int count, float factor)
{
    for (int i = 0; i < count; i++)
        y[i] = factor * x[i];
}
