/* z (1 + cos(arg z)) / 2. y may be x. */
static void net_cardioid(const float *x, float *y, int count)
{
    for (int i = 0; i < count; i++, x += 2, y += 2) {
        const float size = hypotf(x[0], x[1]);
        const float gain = 0.5f + (size > 0.0f ? 0.5f * (x[0] / size) : 0.0f);
        y[0] = gain * x[0];
        y[1] = gain * x[1];
    }
}
