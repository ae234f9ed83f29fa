/* What a pooling takes together along an axis: entries from first to before last; `count` includes padding. */
typedef struct {
    int first, last, count;
} net_window;
