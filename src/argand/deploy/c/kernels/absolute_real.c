/* |x|. y may be x. */
static void net_absolute_real(const float *x, float *y, int count)
{
    for (int i = 0; i < count; i++)
        y[i] = fabsf(x[i]);
}
