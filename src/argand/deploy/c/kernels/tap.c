/* Applies one weight, at the tap (d, h, w) of its kernel, to all its positions in the planes x and y. */
static void net_tap_FIELD(const float *x, float *y, const float *weight, const net_convolution *c, int d, int h,
        int w)
{
    const net_span depth = net_span_of(&c->depth, d);
    const net_span height = net_span_of(&c->height, h);
    const net_span width = net_span_of(&c->width, w);
    const int count = width.last - width.first, stride = c->width.stride;
    if (count <= 0)
        return;
    for (int i = depth.first, a = depth.entry; i < depth.last; i++, a += c->depth.stride)
        for (int j = height.first, b = height.entry; j < height.last; j++, b += c->height.stride) {
            const int position = PARTS * ((i * c->height.positions + j) * c->width.positions + width.first);
            const int entry = PARTS * ((a * c->height.entries + b) * c->width.entries + width.entry);
            if (c->transposed)
                net_add_scaled_FIELD(y + entry, x + position, weight, count, stride, 1);
            else
                net_add_scaled_FIELD(y + position, x + entry, weight, count, 1, stride);
        }
}
