"""The choice of the path of standard samples, and the two paths: torch and kernels."""
