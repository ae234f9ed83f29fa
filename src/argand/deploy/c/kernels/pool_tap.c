/* Adds the entry at one tap of every window to the sum in y, or takes it if it is larger than what is there. */
static void net_pool_tap_FIELD(const float *restrict x, float *restrict y, const net_pooling *p, net_span depth,
        net_span height, net_span width)
{
    const int stride = PARTS * p->width.stride;
    if (width.first >= width.last)
        return;
    for (int c = 0; c < p->channels; c++) {
        for (int i = depth.first, a = depth.entry; i < depth.last; i++, a += p->depth.stride)
            for (int j = height.first, b = height.entry; j < height.last; j++, b += p->height.stride) {
                const float *from = x + PARTS * ((a * p->height.entries + b) * p->width.entries + width.entry);
                float *to = y + PARTS * ((i * p->height.positions + j) * p->width.positions + width.first);
                if (p->divisor)
                    for (int k = width.first; k < width.last; k++, from += stride)
                        for (int part = 0; part < PARTS; part++)
                            *to++ += from[part];
                else
                    for (int k = width.first; k < width.last; k++, from += stride)
                        for (int part = 0; part < PARTS; part++, to++)
                            *to = from[part] > *to ? from[part] : *to;
            }
        x += PARTS * p->depth.entries * p->height.entries * p->width.entries;
        y += PARTS * p->depth.positions * p->height.positions * p->width.positions;
    }
}
