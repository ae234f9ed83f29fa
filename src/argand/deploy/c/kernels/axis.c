/* One axis of a convolution or a pooling: position p meets entry p * stride + tap * dilation - padding. */
typedef struct {
    int positions, entries, kernel, stride, dilation, padding;
} net_axis;
