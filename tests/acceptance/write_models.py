"""Writes models of the files example for ever, and prints each write once it is accepted. Run as a process that the test kills."""

from __future__ import annotations

import itertools
import os
import sys

from examples.files.app import app
from examples.files.models import Models

models = Models(app)
first = int(sys.argv[1])
for number in itertools.count(first):
    model_id = f"model-{number % 5}"
    models.write({"id": model_id, "number": number})
    os.write(1, f"{model_id} {number}\n".encode())
