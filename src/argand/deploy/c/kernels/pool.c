/* Pooling of each part, tap by tap: one entry of every window at a time, for all positions at once. The average if all
 * windows have `divisor` entries, or the maximum, for a divisor of 0. */
static void net_pool_FIELD(const float *restrict x, float *restrict y, const net_pooling *p)
{
    const int numbers = p->channels * p->depth.positions * p->height.positions * p->width.positions;
    const float share = p->divisor ? 1.0f / (float)p->divisor : 1.0f;
    for (int i = 0; i < PARTS * numbers; i++)
        y[i] = p->divisor ? 0.0f : -INFINITY;
    for (int d = 0; d < p->depth.kernel; d++)
        for (int h = 0; h < p->height.kernel; h++)
            for (int w = 0; w < p->width.kernel; w++)
                net_pool_tap_FIELD(x, y, p, net_span_of(&p->depth, d), net_span_of(&p->height, h),
                        net_span_of(&p->width, w));
    if (p->divisor)
        for (int i = 0; i < PARTS * numbers; i++)
            y[i] *= share;
}
