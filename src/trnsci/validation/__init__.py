"""Kernel validation: running the cases, storing the records, rendering the table."""

from trnsci.libraries import LIBRARIES
from trnsci.validation.campaign import Task, tasks, validate
from trnsci.validation.record import (
    HARDWARE,
    Record,
    Unreadable,
    read_records,
    records_folder,
    write_record,
    write_whole,
)
from trnsci.validation.running import GENERATIONS, run_case
from trnsci.validation.table import Row, render, rows

__all__ = [
    "GENERATIONS",
    "HARDWARE",
    "LIBRARIES",
    "Record",
    "Row",
    "Task",
    "Unreadable",
    "read_records",
    "records_folder",
    "render",
    "rows",
    "run_case",
    "tasks",
    "validate",
    "write_record",
    "write_whole",
]
