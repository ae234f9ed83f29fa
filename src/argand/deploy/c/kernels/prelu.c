/* x where positive, else slope[channel] x. y may be x. */
static void net_prelu(const float *x, float *y, int channels, int plane, const float *slope)
{
    for (int c = 0; c < channels; c++)
        for (int i = 0; i < plane; i++, x++, y++)
            *y = *x > 0.0f ? *x : slope[c] * *x;
}
