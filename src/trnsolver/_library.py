"""The backend setting of this library, shared by all its modules."""

from trnsci.core.backend.library import Library

LIBRARY = Library("trnsolver")
kernels_wanted = LIBRARY.kernels_wanted
no_kernel = LIBRARY.no_kernel
