/* Copies an array of the given shape (its last axis the innermost) from floats that lie step[a] apart along axis a. */
static void net_gather(const float *restrict x, float *restrict y, const int *shape, const int *step)
{
    for (int i = 0; i < shape[0]; i++)
        for (int j = 0; j < shape[1]; j++)
            for (int k = 0; k < shape[2]; k++)
                for (int l = 0; l < shape[3]; l++) {
                    const float *from = x + i * step[0] + j * step[1] + k * step[2] + l * step[3];
                    for (int m = 0; m < shape[4]; m++)
                        *y++ = from[m * step[4]];
                }
}
