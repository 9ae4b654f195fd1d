"""Seconds and memory of one piece of work, as the Rust program measures its own."""

import ctypes
import os
import re
import time

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


def keep_freed() -> None:
    """Lets the allocator keep large freed blocks, as our program has it do: the peer shall not pay for page faults alone."""
    libc = ctypes.CDLL(None)
    if libc.mallopt(M_MMAP_THRESHOLD, 1 << 30) == 0:
        libc.mallopt(M_MMAP_THRESHOLD, 32 << 20)
    libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def seconds(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def status(entry: str) -> int:
    """Bytes of an entry of /proc/self/status, which is given in kB of 1024."""
    with open("/proc/self/status", encoding="ascii") as file:
        return int(re.search(rf"^{entry}:\s+(\d+) kB", file.read(), re.MULTILINE).group(1)) * 1024


def peak_bytes(work) -> int:
    """How far the work takes the resident memory above what it was before."""
    ctypes.CDLL(None).malloc_trim(0)
    # Sets the high-water mark to what is resident now.
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
    before = status("VmRSS")
    work()
    return max(0, status("VmHWM") - before)


def cpu() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        match = re.search(r"^model name\s*:\s*(.*)$", file.read(), re.MULTILINE)
    return match.group(1) if match else os.uname().machine
