/* y = scale x + shift, channel by channel; the map holds (scale, shift) of each. y may be x. */
static void net_scale_shift(const float *x, float *y, int channels, int plane, const float *map)
{
    for (int c = 0; c < channels; c++, map += 2)
        for (int i = 0; i < plane; i++, x++, y++)
            *y = map[0] * *x + map[1];
}
