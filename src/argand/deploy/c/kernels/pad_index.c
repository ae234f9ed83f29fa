/* The entry that padding shows at a place before, in or after an axis of n entries: reflected, replicated, circular. */
static int net_pad_index(int at, int n, char mode)
{
    if (mode == 'r')
        return at < 0 ? -at : at >= n ? 2 * (n - 1) - at : at;
    if (mode == 'e')
        return at < 0 ? 0 : at >= n ? n - 1 : at;
    return at < 0 ? at + n : at >= n ? at - n : at;
}
