/* max(x, 0), by fours: taken together they need no branches. y may be x. */
static void net_relu(const float *x, float *y, int count)
{
    int i = 0;
    for (; i + 4 <= count; i += 4) {
        const float four[4] = {x[i], x[i + 1], x[i + 2], x[i + 3]};
        for (int k = 0; k < 4; k++)
            y[i + k] = four[k] < 0.0f ? 0.0f : four[k];
    }
    for (; i < count; i++)
        y[i] = x[i] < 0.0f ? 0.0f : x[i];
}
