/* A pooling over depth, height and width. */
typedef struct {
    net_axis depth, height, width;
    int channels, divisor;
} net_pooling;
