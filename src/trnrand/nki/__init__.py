"""What of trnrand is nearer to the kernels; names here may change."""
