/* x where positive, else slope x. y may be x. */
static void net_leaky_relu(const float *x, float *y, int count, float slope)
{
    for (int i = 0; i < count; i++)
        y[i] = x[i] > 0.0f ? x[i] : slope * x[i];
}
