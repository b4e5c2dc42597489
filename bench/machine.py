"""The machine that a benchmark runs on: what a reader needs to judge a figure, and no name of a place."""

from __future__ import annotations

import os
import platform
import resource
from importlib.metadata import version
from pathlib import Path

LIBRARIES = ("tidegauge", "duckdb", "numpy", "opendp", "pyarrow")


def processor() -> str:
    """The name of the processor's model, as the system states it."""
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.machine()


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine() -> dict[str, str]:
    """Processor, cores, memory, system, Python and the libraries that matter."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": processor(),
        "cores": str(cores()),
        "memory": f"{memory:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "Python": platform.python_version(),
        **{name: version(name) for name in LIBRARIES},
    }


def peak_memory() -> float:
    """Peak GiB of this process alone: what getrusage says can include the process that started it."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text("ascii", "replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
