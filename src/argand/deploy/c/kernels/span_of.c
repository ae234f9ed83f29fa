static net_span net_span_of(const net_axis *axis, int tap)
{
    const int offset = tap * axis->dilation - axis->padding;
    net_span span = {0, axis->positions, 0};
    if (offset < 0)
        span.first = (axis->stride - 1 - offset) / axis->stride;
    if (offset + (axis->positions - 1) * axis->stride >= axis->entries)
        span.last = offset < axis->entries ? (axis->entries - 1 - offset) / axis->stride + 1 : 0;
    span.entry = span.first * axis->stride + offset;
    return span;
}
