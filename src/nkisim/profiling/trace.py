"""A profile as a Chrome trace, which Perfetto and ``chrome://tracing`` open."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from nkisim.files import write_whole
from nkisim.profiling.charts import memory_changes
from nkisim.profiling.result import ProfileData, Span
from nkisim.profiling.text import place

__all__ = ["trace_events", "write_trace"]


def write_trace(
    profiles: ProfileData | Iterable[ProfileData], path: str | os.PathLike[str]
) -> None:
    """Write profiles as a Chrome trace in JSON, compressed if the path ends in ``.gz``.

    Processes are cores, threads are engines and DMA queues, counters the bytes in use of SBUF and
    PSUM. The file is complete or unchanged.

    Raises:
        OSError: The file cannot be written.
    """
    shown = [profiles] if isinstance(profiles, ProfileData) else list(profiles)

    def write(stream: BinaryIO) -> None:
        if not os.fspath(path).endswith(".gz"):
            stream.writelines(_chunks(shown))
            return
        with gzip.GzipFile("", "wb", 6, fileobj=stream, mtime=0) as packed:
            packed.writelines(_chunks(shown))

    write_whole(path, write)


def _chunks(profiles: list[ProfileData]) -> Iterator[bytes]:
    """Yield the text of a trace, one event per line."""
    facts = [
        {
            "kernel": p.kernel,
            "arguments": p.arguments,
            "target": p.target,
            "nki": p.nki,
            "latency_us": p.latency_us,
        }
        for p in profiles
    ]
    head = {"displayTimeUnit": "ns", "otherData": {"producer": "nkisim", "profiles": facts}}
    yield (json.dumps(head)[:-1] + ', "traceEvents": [').encode()
    separator = "\n"
    first = 1
    for profile in profiles:
        for event in trace_events(profile, first):
            yield (separator + json.dumps(event)).encode()
            separator = ",\n"
        first += len(profile.per_core)
    yield b"\n]}\n"


def trace_events(profile: ProfileData, first_process: int = 1) -> Iterator[dict[str, Any]]:
    """Yield the events of a profile: names, instructions and counters; times in us."""
    threads = _threads(profile)
    for core in range(len(profile.per_core)):
        name = f"{profile.kernel} on {profile.target}, core {core}"
        yield _named("process_name", first_process + core, 0, {"name": name})
    for (core, row), number in threads.items():
        yield _named("thread_name", first_process + core, number, {"name": row})
        yield _named("thread_sort_index", first_process + core, number, {"sort_index": number})
    sources = {(line.file, line.line): line.text for line in profile.lines}
    for span in profile.timeline:
        args: dict[str, Any] = {"line": place(span.file, span.line)}
        args["source"] = sources.get((span.file, span.line), "")
        args["ready_us"] = span.ready_us
        if span.queue:
            args["bytes"] = span.nbytes
        yield {
            "ph": "X",
            "name": span.name,
            "cat": span.engine,
            "pid": first_process + span.core,
            "tid": threads[span.core, _row(span)],
            "ts": span.start_us,
            "dur": span.end_us - span.start_us,
            "args": args,
        }
    for core in range(len(profile.per_core)):
        for region in profile.capacity:
            uses = [use for use in profile.memory if (use.core, use.region) == (core, region)]
            used = 0
            for time, changes in memory_changes(uses):
                used += sum(changes.values())
                yield {
                    "ph": "C",
                    "name": f"{region.upper()} bytes per partition",
                    "pid": first_process + core,
                    "tid": 0,
                    "ts": time,
                    "args": {"bytes": used},
                }


def _named(kind: str, process: int, thread: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": args}


def _row(span: Span) -> str:
    return f"dma {span.queue}" if span.queue else span.engine


def _threads(profile: ProfileData) -> dict[tuple[int, str], int]:
    """Return the threads by core and row: engines in order, then queues by their first use."""
    found: dict[tuple[int, str], int] = {}
    for core in range(len(profile.per_core)):
        rows = list(dict.fromkeys(_row(span) for span in profile.timeline if span.core == core))
        order = {key: number for number, key in enumerate(profile.engine_busy_us)}
        rows.sort(key=lambda row: order.get(row, len(order)))
        found |= {(core, row): number for number, row in enumerate(rows, 1)}
    return found
