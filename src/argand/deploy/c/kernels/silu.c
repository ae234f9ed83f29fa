/* x / (1 + exp(-x)). y may be x. */
static void net_silu(const float *x, float *y, int count)
{
    for (int i = 0; i < count; i++)
        y[i] = x[i] / (1.0f + expf(-x[i]));
}
