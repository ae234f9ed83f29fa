/* A convolution over depth, height and width. The positions are the output's and the entries the input's; in a
 * transposed convolution it is the other way round. Planes are the sizes of one channel. */
typedef struct {
    net_axis depth, height, width;
    int inputs, outputs, groups, input_plane, output_plane, transposed;
} net_convolution;
