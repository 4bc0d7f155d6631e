"""``onward``: the entry, and the one place where errors become a line and an exit code.

Exit codes: 0 ok, 1 a job or an action failed, 2 usage, 3 the store cannot be reached, 4 the application cannot be imported,
5 the schema is out of date, 130 Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import click

from onward.cli.output import ReaderGone, say_error
from onward.cli.target import Target, app_option, url_option, with_exact_migrate
from onward.errors import OnwardError
from onward.spelling import did_you_mean

# A command's module is imported when the command is used: help and completion stay quick. A test holds these lines equal to theirs.
COMMANDS = {
    "worker": "Run jobs until told to stop.",
    "enqueue": "Ask for a job, and print its id.",
    "jobs": "Look at jobs, and act on them.",
    "workers": "List the workers that are running: what each of them serves, and when it was seen last.",
    "queues": "Look at queues, pause and resume them.",
    "breakers": "Look at circuit breakers, open and reset them.",
    "limits": "Look at limits of queues and of concurrency keys, set and clear them.",
    "alerts": "Look at what people should know of, and say that somebody does.",
    "failures": "Look at dead letters by what they died of, retry and purge them.",
    "history": "List the attempts of all jobs that were kept, newest first.",
    "periodic": "Look at periodic jobs, make, change, pause and run them.",
    "actions": "Show who did what to how many jobs, newest first.",
    "stats": "Say how each queue is doing, and answer the six standing questions about the work.",
    "reconcile": "Compare what completed jobs promised with the world outside.",
    "check": "Find code that enqueues around the primitives.",
    "migrate": "Bring the store's tables up to date.",
    "doctor": "Look for what is wrong with the store and the application.",
    "config": "Show each setting, and where its value comes from.",
    "demo": "Run sample jobs in a database of their own.",
    "completion": "Print the script that completes commands in a shell.",
}
HIDDEN = ("worker_process", "isolated_process")
"""What the supervisor starts; not for people."""


class Commands(click.Group):
    """The commands by name, each imported on demand; and what an error of any of them looks like."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS and cmd_name not in HIDDEN:
            return None
        command: click.Command = import_module(f"onward.cli.{cmd_name}").command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and name not in HIDDEN and not name.startswith("-"):
            ctx.fail(f"No such command {name!r}{did_you_mean(name, COMMANDS)}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except OnwardError as error:
            error.args = (with_exact_migrate(str(error), ctx.ensure_object(Target)),)
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(  # type: ignore[override]  # click has overloads for its two modes
        self, args: Sequence[str] | None = None, prog_name: str | None = None, *, standalone_mode: bool = True, **extra: Any
    ) -> Any:
        if not standalone_mode:
            return super().main(args, prog_name, standalone_mode=False, **extra)
        sys.exit(self._run(args, prog_name or "onward", extra))

    def _run(self, args: Sequence[str] | None, prog_name: str, extra: dict[str, Any]) -> int:
        try:
            answer = super().main(args, prog_name, standalone_mode=False, **extra)
            return answer if isinstance(answer, int) else 0
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            return error.exit_code
        except click.UsageError as error:
            say_error(f"{error.format_message().rstrip('.')} (see '{error.ctx.command_path if error.ctx else prog_name} --help')")
            return error.exit_code
        except click.ClickException as error:
            say_error(error.format_message())
            return error.exit_code
        except OnwardError as error:
            say_error(str(error) or type(error).__name__)
            return error.exit_code
        except (click.Abort, KeyboardInterrupt):
            return 130
        except ReaderGone:
            _discard_stdout()
            return 0


@click.group("onward", cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@app_option
@url_option
@click.option("--color/--no-color", default=None, help="Colour, or none. Otherwise by the terminal and NO_COLOR.")
@click.version_option(package_name="onward", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context, color: bool | None) -> None:
    """Background jobs that commit together with your data, and are never lost."""
    ctx.color = False if color is None and os.environ.get("NO_COLOR") else color


def main() -> NoReturn:
    """The entry of the command ``onward``."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    cli.main(obj=Target(owns_process=True))
    raise AssertionError("main() always exits")


def _discard_stdout() -> None:
    """The reader is gone (``| head``): let the interpreter's last flush go nowhere, instead of ending in a message."""
    if sys.__stdout__ is None or sys.stdout is not sys.__stdout__:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.__stdout__.fileno())
    os.close(nowhere)


if __name__ == "__main__":
    main()
