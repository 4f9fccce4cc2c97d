#!/usr/bin/env bash
# Runs every kernel of the libraries on the simulator, AWS's where it is installed and nkisim
# elsewhere, and lets nothing fall back to torch. Arguments go to pytest:
#   scripts/run_simulator_tests.sh -k trnblas
set -eu
cd "$(dirname "$0")/.."
export TRNSCI_USE_SIMULATOR=1 TRNSCI_REQUIRE_NKI=1
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
exec "${PYTHON:-python}" -m pytest -m nki_simulator tests "$@"
