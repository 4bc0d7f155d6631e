"""``python run_supervisor.py APP PROCESSES OPTIONS``: the command-line worker without the command line."""

from __future__ import annotations

import sys

import msgspec

from onward.worker_process import WorkerOptions, supervise

if __name__ == "__main__":
    options = msgspec.json.decode(sys.argv[3], type=WorkerOptions)
    sys.exit(supervise(sys.argv[1], options, processes=int(sys.argv[2])))
