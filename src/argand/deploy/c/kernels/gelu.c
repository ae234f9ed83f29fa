/* x times the normal distribution function of x. y may be x. */
static void net_gelu(const float *x, float *y, int count)
{
    for (int i = 0; i < count; i++)
        y[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678f));
}
