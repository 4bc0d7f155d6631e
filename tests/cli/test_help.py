"""Help: there for every command, and quick."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from onward.cli.main import COMMANDS, cli
from onward.cli.target import Target


def every_command(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from every_command(command, (*path, name))


PATHS = [path for path, _ in every_command(cli)]


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_every_command_explains_itself(path: tuple[str, ...]) -> None:
    """Help must work without a store, an application or a setting."""
    result = CliRunner().invoke(cli, [*path, "--help"])
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: onward {' '.join(path)}")
    assert result.stderr == ""


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    """The first screen is written without importing the commands; it must not tell something else."""
    for name, sentence in COMMANDS.items():
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        assert (command.help or "").partition("\n")[0] == sentence


@pytest.mark.parametrize("path", [path for path in PATHS if path != ("jobs",)], ids=" ".join)
def test_every_option_has_a_word_of_help(path: tuple[str, ...]) -> None:
    """An option without a word is found by reading the source."""
    command = dict(every_command(cli))[path]
    assert [option.name for option in command.params if isinstance(option, click.Option) and not option.help] == []


READERS = ("jobs list", "jobs show", "stats", "reconcile", "doctor", "migrate", "config", "demo", "enqueue", "check")


@pytest.mark.parametrize("path", READERS)
def test_every_command_that_reads_can_answer_in_json(path: str) -> None:
    """Scripts must never parse tables."""
    command = dict(every_command(cli))[tuple(path.split())]
    assert "--json" in {name for option in command.params for name in option.opts}


HEAVY_OF_OURS = ("onward.app", "onward.drivers", "onward.files", "onward.telemetry", "onward.worker")


@pytest.mark.parametrize("args", [["--help"], ["jobs", "--help"], ["worker", "--help"]])
def test_help_loads_nothing_heavy(args: list[str], environment: dict[str, str]) -> None:
    """A person waits for help; an event loop or a database is no part of it."""
    program = (
        "import sys, json\n"
        "from onward.cli.main import cli\n"
        "try:\n    cli.main(sys.argv[1:])\n"
        "except SystemExit as end:\n    print(json.dumps([end.code, sorted(sys.modules)]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, *args], env=environment, capture_output=True, text=True, timeout=60, check=True)
    code, modules = json.loads(done.stdout.splitlines()[-1])
    assert code == 0
    heavy = {"asyncio", "sqlite3", "ctypes", "email.message", "dataclasses", "multiprocessing", "subprocess", "tomllib", "rich"}
    assert heavy & set(modules) == set()
    assert [name for name in modules if name.startswith(HEAVY_OF_OURS)] == []


def test_no_arguments_show_the_help_and_are_a_usage_error() -> None:
    """The convention of click; a script that forgot its command must not look successful."""
    result = CliRunner().invoke(cli, [])
    assert result.exit_code == 2
    assert "Commands:" in result.output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_for_the_shell(shell: str) -> None:
    """The script calls ``onward`` itself, so it stays true as commands change."""
    result = CliRunner().invoke(cli, ["completion", shell])
    assert result.exit_code == 0
    assert "_ONWARD_COMPLETE" in result.stdout


def test_completion_knows_commands_and_options(environment: dict[str, str]) -> None:
    """What the script above asks for."""
    asked = {**environment, "_ONWARD_COMPLETE": "bash_complete", "COMP_WORDS": "onward jobs re", "COMP_CWORD": "2"}
    done = subprocess.run([sys.executable, "-m", "onward"], env=asked, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["plain,retry"]


GROUPS = [path for path, command in every_command(cli) if isinstance(command, click.Group)]


@pytest.mark.parametrize("group", GROUPS, ids=" ".join)
def test_a_group_takes_the_application_and_the_url_as_its_commands_do(group: tuple[str, ...]) -> None:
    """Who has typed ``onward jobs`` goes on with ``-A``. Of several the last one counts, wherever it stands."""
    inner = next(path[-1] for path, command in every_command(cli) if path[:-1] == group and not any(one.required for one in command.params))
    given = ["-A", "first:app", "-u", "memory://1", *group, "--app", "second:app", "--url", "memory://2", inner]
    assert target_of(given) == ("second:app", "memory://2")
    assert target_of([*given, "-A", "third:app"]) == ("third:app", "memory://2")
    assert target_of(["-A", "first:app", *group, inner]) == ("first:app", None)


def target_of(words: list[str]) -> tuple[str | None, str | None]:
    """What a command would work on, which is not run."""
    command: click.Command = cli
    context = cli.make_context("onward", list(words))
    while isinstance(command, click.Group):
        name, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        command, context = found, found.make_context(name, rest, parent=context)
    given = context.find_object(Target)
    assert given is not None
    return given.app, given.url
