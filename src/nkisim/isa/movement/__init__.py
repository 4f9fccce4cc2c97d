"""Moving data: DMA, gathers, assignment."""
