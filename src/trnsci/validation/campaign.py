"""Selection and validation of kernels: resumable, in several processes."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from trnsci.core.evidence import kernels_of
from trnsci.libraries import LIBRARIES
from trnsci.validation.record import Record, fingerprint, read_records, write_record
from trnsci.validation.running import GENERATIONS, run_case

QUICK = ("gen3",)
"""The generation on which a quick run computes values: trn2."""


@dataclass(frozen=True)
class Task:
    """A kernel to be validated.

    Attributes:
        library, kernel: Names of the library and the kernel.
        known: Its record, if it is up to date.
    """

    library: str
    kernel: str
    known: Record | None


def tasks(
    folder: Path,
    *,
    libraries: Iterable[str] = LIBRARIES,
    kernels: Iterable[str] = (),
    values_on: Sequence[str] = GENERATIONS,
    anew: bool = False,
) -> list[Task]:
    """Return the kernels to be validated, with their up-to-date records.

    A record is up to date if it passed, no source has changed since and it covers the generations.

    Args:
        folder: Folder of the records.
        libraries: Import names.
        kernels: Names of kernels; empty for all.
        values_on: Generations to compute on.
        anew: Whether to ignore all records.
    """
    records = {} if anew else read_records(folder)[0]
    wanted = set(kernels)
    found = []
    for library in libraries:
        for source in kernels_of(library):
            if wanted and source.name not in wanted:
                continue
            record = records.get((library, source.name))
            holds = (
                record is not None
                and record.status == "passed"
                and record.fingerprint == fingerprint(library)
                and set(values_on) <= set(record.values_on)
            )
            found.append(Task(library, source.name, record if holds else None))
    return found


def validate(
    todo: Sequence[Task],
    folder: Path,
    *,
    values_on: Sequence[str] = GENERATIONS,
    path: Literal["simulator", "nki"] = "simulator",
    jobs: int = 1,
    started: Callable[[Task], None] = lambda task: None,
) -> Iterator[Record]:
    """Validate kernels and yield their records; each is written immediately.

    Args:
        todo: The kernels; those with an up-to-date record are not run again.
        folder: Folder for the records.
        values_on: Generations to compute on.
        path: The simulator, or a NeuronCore.
        jobs: Number of processes.
        started: Called with each kernel before its result is awaited.
    """
    for task in todo:
        if task.known is not None:
            yield task.known
    missing = [task for task in todo if task.known is None]
    if jobs <= 1 or len(missing) <= 1:
        for task in missing:
            started(task)
            record = run_case(task.library, task.kernel, values_on=values_on, path=path)
            write_record(record, folder)
            yield record
        return
    # A fresh interpreter for each worker: torch's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, initializer=_end_with_parent) as pool:
        running: dict[Future[Record], Task] = {}
        waiting = iter(missing)
        try:
            while True:
                for task in islice(waiting, jobs - len(running)):
                    started(task)
                    future = pool.submit(
                        run_case, task.library, task.kernel, values_on=tuple(values_on), path=path
                    )
                    running[future] = task
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    record = _result(future, running.pop(future))
                    write_record(record, folder)
                    yield record
        finally:
            pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """Exit when the parent process is gone: a killed parent cannot stop its workers."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _result(future: Future[Record], task: Task) -> Record:
    try:
        return future.result()
    except BrokenProcessPool as error:
        message = f"the process that ran it died: {error}"
        return Record(task.library, task.kernel, task.kernel, "failed", message=message)
