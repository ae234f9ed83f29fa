/* exp(x) / sum of exp(x), along the middle one of the axes (outer, count, inner). y may be x. */
static void net_softmax(const float *x, float *y, int outer, int count, int inner)
{
    for (int i = 0; i < outer; i++, x += (count - 1) * inner, y += (count - 1) * inner)
        for (int j = 0; j < inner; j++, x++, y++) {
            float largest = x[0], sum = 0.0f;
            for (int k = 1; k < count; k++)
                largest = x[k * inner] > largest ? x[k * inner] : largest;
            for (int k = 0; k < count; k++)
                sum += expf(x[k * inner] - largest);
            for (int k = 0; k < count; k++)
                y[k * inner] = expf(x[k * inner] - largest) / sum;
        }
}
