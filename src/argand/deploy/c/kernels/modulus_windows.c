/* The complex entry of largest modulus in each window; the first of equal ones. */
static void net_modulus_windows(const float *restrict x, float *restrict y, const net_pooling *p)
{
    const net_axis *depth = &p->depth, *height = &p->height, *width = &p->width;
    for (int c = 0; c < p->channels; c++, x += (size_t)depth->entries * height->entries * width->entries * 2)
        for (int i = 0; i < depth->positions; i++)
            for (int j = 0; j < height->positions; j++)
                for (int k = 0; k < width->positions; k++) {
                    const net_window a = net_window_of(depth, i), b = net_window_of(height, j);
                    const net_window e = net_window_of(width, k);
                    const float *best = NULL;
                    float largest = 0.0f;
                    for (int d = a.first; d < a.last; d += depth->dilation)
                        for (int h = b.first; h < b.last; h += height->dilation)
                            for (int w = e.first; w < e.last; w += width->dilation) {
                                const float *z = x + 2 * ((size_t)(d * height->entries + h) * width->entries + w);
                                if (best == NULL || z[0] * z[0] + z[1] * z[1] > largest) {
                                    largest = z[0] * z[0] + z[1] * z[1];
                                    best = z;
                                }
                            }
                    *y++ = best[0];
                    *y++ = best[1];
                }
}
