/* 1 / (1 + exp(-x)). y may be x. */
static void net_sigmoid(const float *x, float *y, int count)
{
    for (int i = 0; i < count; i++)
        y[i] = 1.0f / (1.0f + expf(-x[i]));
}
