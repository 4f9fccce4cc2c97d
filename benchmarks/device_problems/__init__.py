"""Problems of ``bench_device.py``, one module for each group.

A module has tuples of ``Problem``: ``PROBLEMS`` with the sizes that have goals, ``LARGER`` with
sizes about one and a half times as large, ``ODD`` with odd sizes; or ``KERNELS``, one size for each
of the other kernels.
"""
