/* x - z. y may be either. */
static void net_subtract(const float *x, const float *z, float *y, int count)
{
    for (int i = 0; i < count; i++)
        y[i] = x[i] - z[i];
}
