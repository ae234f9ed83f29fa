/* The real parts. y may be x. */
static void net_real_part(const float *x, float *y, int count)
{
    for (int i = 0; i < count; i++)
        y[i] = x[2 * i];
}
