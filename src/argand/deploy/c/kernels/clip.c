/* min(max(x, low), high). y may be x. */
static void net_clip(const float *x, float *y, int count, float low, float high)
{
    for (int i = 0; i < count; i++)
        y[i] = x[i] < low ? low : x[i] > high ? high : x[i];
}
