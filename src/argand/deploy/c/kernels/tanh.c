/* tanh(x). y may be x. */
static void net_tanh(const float *x, float *y, int count)
{
    for (int i = 0; i < count; i++)
        y[i] = tanhf(x[i]);
}
