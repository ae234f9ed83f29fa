/* The mean along the middle one of the axes (outer, count, inner). */
static void net_mean(const float *restrict x, float *restrict y, int outer, int count, int inner)
{
    for (int i = 0; i < outer; i++, x += (size_t)(count - 1) * inner)
        for (int j = 0; j < inner; j++, x++) {
            float total = 0.0f;
            for (int k = 0; k < count;) { /* sums of up to 64 entries, so that rounding errors don't pile up */
                float sum = 0.0f;
                for (const int end = k + 64; k < count && k < end; k++)
                    sum += x[(size_t)k * inner];
                total += sum;
            }
            *y++ = total / (float)count;
        }
}
