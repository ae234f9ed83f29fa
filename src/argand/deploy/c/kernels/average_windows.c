/* The average of each part over windows: of all entries, padding included, if the divisor is 0; without padding if
 * it is -1; else divided by it. */
static void net_average_windows_FIELD(const float *restrict x, float *restrict y, const net_pooling *p)
{
    const net_axis *depth = &p->depth, *height = &p->height, *width = &p->width;
    for (int c = 0; c < p->channels; c++, x += (size_t)depth->entries * height->entries * width->entries * PARTS)
        for (int i = 0; i < depth->positions; i++)
            for (int j = 0; j < height->positions; j++)
                for (int k = 0; k < width->positions; k++) {
                    const net_window a = net_window_of(depth, i), b = net_window_of(height, j);
                    const net_window e = net_window_of(width, k);
                    const int area = (a.last - a.first) * (b.last - b.first) * (e.last - e.first);
                    const int divisor = p->divisor > 0 ? p->divisor : p->divisor ? area : a.count * b.count * e.count;
                    for (int part = 0; part < PARTS; part++) {
                        float sum = 0.0f;
                        for (int d = a.first; d < a.last; d++)
                            for (int h = b.first; h < b.last; h++) {
                                const float *row = x + (size_t)(d * height->entries + h) * width->entries * PARTS;
                                float row_sum = 0.0f;
                                for (int w = e.first; w < e.last; w++)
                                    row_sum += row[w * PARTS + part];
                                sum += row_sum;
                            }
                        *y++ = sum / (float)divisor;
                    }
                }
}
