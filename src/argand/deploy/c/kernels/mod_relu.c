/* max(|z| + bias[channel], 0) z / |z|, and 0 at 0. y may be x. */
static void net_mod_relu(const float *x, float *y, int channels, int plane, const float *bias)
{
    for (int c = 0; c < channels; c++)
        for (int i = 0; i < plane; i++, x += 2, y += 2) {
            const float size = hypotf(x[0], x[1]);
            const float gain = size > 0.0f ? 1.0f + bias[c] / size : 0.0f;
            y[0] = gain > 0.0f ? gain * x[0] : 0.0f;
            y[1] = gain > 0.0f ? gain * x[1] : 0.0f;
        }
}
