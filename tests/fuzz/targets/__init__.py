"""The targets by name, each in a file of its own."""

from __future__ import annotations

from tests.fuzz.target import Target
from tests.fuzz.targets import command_line, durations, errors, filters, messages, paths, payloads, redaction, schedules, settings, urls

TARGETS: dict[str, Target] = {
    one.name: one
    for one in (
        durations.TARGET,
        urls.TARGET,
        payloads.TARGET,
        payloads.TEXTS,
        paths.TARGET,
        redaction.TARGET,
        redaction.VALUES,
        errors.TARGET,
        settings.TARGET,
        settings.FILES,
        command_line.TARGET,
        messages.TARGET,
        messages.ROUND_TRIPS,
        filters.TARGET,
        schedules.TARGET,
        schedules.ROWS,
    )
}
