/* The positions first <= p < last at which a tap meets an entry of its axis, and the first entry met. */
typedef struct {
    int first, last, entry;
} net_span;
