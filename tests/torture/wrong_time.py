"""A wall clock that is wrong, for a whole process: a small library that is loaded before all others and asks a file by how much.

libfaketime does the same and more, but what it makes of ``clock_nanosleep`` is an error for every ``time.sleep`` since Python 3.11.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from pathlib import Path

from tests.torture.injectors import MissingInjector

OFFSET = "TORTURE_OFFSET"
"""The environment variable that names the file with the seconds to add, an integer of eight bytes."""
SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t nothing, *offset = &nothing;
static int (*real)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("TORTURE_OFFSET");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    if (file >= 0) {
        void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
        if (page != MAP_FAILED) offset = page;
        close(file);
    }
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = real(clock, now);
    if (!failed && clock == CLOCK_REALTIME) now->tv_sec += *offset;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *seconds) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (seconds) *seconds = exact.tv_sec;
    return exact.tv_sec;
}
"""


class WrongTime:
    """The clock of the processes that are started with its ``environment``. Makes its files in ``folder``. Raises ``MissingInjector``."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "offset"
        self.set(0)
        self.environment = {OFFSET: str(self._file), "LD_PRELOAD": str(_library(folder))}

    def set(self, seconds: int) -> None:
        """Make the clock wrong by so much, at once."""
        if not self._file.exists():
            self._file.write_bytes(bytes(8))
        with open(self._file, "r+b", buffering=0) as file:
            file.write(struct.pack("=q", seconds))


def _library(folder: Path) -> Path:
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        raise MissingInjector("a wrong clock for a whole process needs a C compiler on Linux: apt-get install gcc libc6-dev")
    source, library = folder / "wrong_time.c", folder / "wrong_time.so"
    source.write_text(SOURCE)
    done = subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise MissingInjector(f"the library for a wrong clock cannot be compiled: {done.stderr.strip()[-300:]}")
    return library
