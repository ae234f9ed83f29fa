/* z where both parts are at least 0, else 0. y may be x. */
static void net_zrelu(const float *x, float *y, int count)
{
    for (int i = 0; i < count; i++, x += 2, y += 2) {
        const int kept = x[0] >= 0.0f && x[1] >= 0.0f;
        y[0] = kept ? x[0] : 0.0f;
        y[1] = kept ? x[1] : 0.0f;
    }
}
