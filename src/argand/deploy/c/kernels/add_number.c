/* x + number, for count numbers of `parts` floats, the first of which is the real part. y may be x. */
static void net_add_number(const float *x, float *y, int count, int parts, float number)
{
    for (int i = 0; i < count; i++, x += parts, y += parts) {
        y[0] = x[0] + number;
        if (parts == 2)
            y[1] = x[1];
    }
}
