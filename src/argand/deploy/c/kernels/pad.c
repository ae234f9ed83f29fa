/* Pads depth, height and width from `in` to `out` entries, `before` of them in front; a number is `parts` floats. */
static void net_pad(const float *restrict x, float *restrict y, int channels, const int in[3],
        const int before[3], const int out[3], int parts, char mode)
{
    for (int c = 0; c < channels; c++, x += (size_t)in[0] * in[1] * in[2] * parts)
        for (int d = 0; d < out[0]; d++)
            for (int h = 0; h < out[1]; h++) {
                const int depth = net_pad_index(d - before[0], in[0], mode);
                const int height = net_pad_index(h - before[1], in[1], mode);
                const float *row = x + (size_t)(depth * in[1] + height) * in[2] * parts;
                for (int w = 0; w < out[2]; w++)
                    for (int part = 0; part < parts; part++)
                        *y++ = row[net_pad_index(w - before[2], in[2], mode) * parts + part];
            }
}
