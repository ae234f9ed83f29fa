/* log(1 + exp(beta x)) / beta, and x itself where beta x is over the threshold. y may be x. */
static void net_softplus(const float *x, float *y, int count, float beta, float threshold)
{
    for (int i = 0; i < count; i++)
        y[i] = beta * x[i] > threshold ? x[i] : log1pf(expf(beta * x[i])) / beta;
}
