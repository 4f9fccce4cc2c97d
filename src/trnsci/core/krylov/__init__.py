"""Krylov methods on linear operators, their preconditioners and derivatives, for all libraries.

The methods are in ``short_recurrences``, ``gmres``, ``fixed_steps`` and ``power_iteration``.
``solved`` validates the operands of a public function and calls ``solve``, which runs a method on
scaled systems and returns a ``Solution`` with the derivatives of the exact one.
"""
