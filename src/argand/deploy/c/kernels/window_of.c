static net_window net_window_of(const net_axis *axis, int position)
{
    net_window window;
    if (axis->kernel == 0) { /* adaptive: the axis in equal shares, rounded outwards */
        window.first = position * axis->entries / axis->positions;
        window.last = ((position + 1) * axis->entries + axis->positions - 1) / axis->positions;
        window.count = window.last - window.first;
        return window;
    }
    window.first = position * axis->stride - axis->padding;
    window.last = window.first + (axis->kernel - 1) * axis->dilation + 1;
    window.count = (window.last < axis->entries + axis->padding ? window.last : axis->entries + axis->padding)
                   - window.first;
    if (window.last > axis->entries)
        window.last = axis->entries;
    while (window.first < 0)
        window.first += axis->dilation;
    return window;
}
