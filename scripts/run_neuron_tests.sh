#!/usr/bin/env bash
# On a host with a NeuronCore: runs every kernel on the device, lets nothing fall back to torch, and
# writes the records that `trnsci status` shows under "hardware". Commit them. Arguments go to pytest:
#   scripts/run_neuron_tests.sh -k trnblas
set -eu
cd "$(dirname "$0")/.."
export TRNSCI_REQUIRE_NKI=1
python="${PYTHON:-python}"
"$python" -m trnsci doctor
# Rounding of the chip, on which the error bounds of 'doublefloat' rest: if it is not as assumed, nothing else is run.
"$python" scripts/arithmetic_probe.py
status=0
"$python" -m pytest -m neuron tests "$@" || status=$?
# What failed is a record too: it says what is wrong on which instance.
"$python" -m trnsci validate --on device --again || status=$?
exit "$status"
