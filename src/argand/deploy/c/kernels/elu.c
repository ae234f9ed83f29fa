/* x where positive, else alpha (exp(x) - 1). y may be x. */
static void net_elu(const float *x, float *y, int count, float alpha)
{
    for (int i = 0; i < count; i++)
        y[i] = x[i] > 0.0f ? x[i] : alpha * expm1f(x[i]);
}
