/* Fills one output plane with its bias, or with 0. */
static void net_start_plane_FIELD(float *y, const float *bias, int count)
{
    float start[PARTS] = {0.0f};
    for (int part = 0; bias && part < PARTS; part++)
        start[part] = bias[part];
    for (int i = 0; i < count; i++)
        for (int part = 0; part < PARTS; part++)
            *y++ = start[part];
}
