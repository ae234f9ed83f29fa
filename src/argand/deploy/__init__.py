"""From a pruned network to what runs elsewhere: a smaller network, a small file, sparse kernels, C, ONNX, numpy."""
