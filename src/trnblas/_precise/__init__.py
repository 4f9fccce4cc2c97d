"""Mathematics of products beyond float32: scales, planes, slices and their error bounds."""
