/* (re, im) of y = M (re, im) of x + shift, channel by channel; the map holds M's two rows and the shift. y may be x. */
static void net_affine(const float *x, float *y, int channels, int plane, const float *map)
{
    for (int c = 0; c < channels; c++, map += 6)
        for (int i = 0; i < plane; i++, x += 2, y += 2) {
            const float re = x[0], im = x[1];
            y[0] = map[0] * re + map[1] * im + map[4];
            y[1] = map[2] * re + map[3] * im + map[5];
        }
}
