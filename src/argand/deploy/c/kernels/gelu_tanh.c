/* The approximation of gelu by tanh: the inner factor is sqrt(2 / pi). y may be x. */
static void net_gelu_tanh(const float *x, float *y, int count)
{
    for (int i = 0; i < count; i++)
        y[i] = 0.5f * x[i] * (1.0f + tanhf(0.79788456f * (x[i] + 0.044715f * x[i] * x[i] * x[i])));
}
