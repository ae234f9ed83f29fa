/* The maximum of each part over windows. */
static void net_maximum_windows_FIELD(const float *restrict x, float *restrict y, const net_pooling *p)
{
    const net_axis *depth = &p->depth, *height = &p->height, *width = &p->width;
    for (int c = 0; c < p->channels; c++, x += (size_t)depth->entries * height->entries * width->entries * PARTS)
        for (int i = 0; i < depth->positions; i++)
            for (int j = 0; j < height->positions; j++)
                for (int k = 0; k < width->positions; k++) {
                    const net_window a = net_window_of(depth, i), b = net_window_of(height, j);
                    const net_window e = net_window_of(width, k);
                    for (int part = 0; part < PARTS; part++) {
                        float largest = -INFINITY;
                        for (int d = a.first; d < a.last; d += depth->dilation)
                            for (int h = b.first; h < b.last; h += height->dilation) {
                                const float *row = x + (size_t)(d * height->entries + h) * width->entries * PARTS;
                                for (int w = e.first; w < e.last; w += width->dilation)
                                    if (row[w * PARTS + part] > largest)
                                        largest = row[w * PARTS + part];
                            }
                        *y++ = largest;
                    }
                }
}
