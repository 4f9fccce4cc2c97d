"""Data movement: DMA, gathers, assignment."""
