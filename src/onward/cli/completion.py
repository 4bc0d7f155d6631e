"""``onward completion``: the script a shell needs to complete commands and options."""

from __future__ import annotations

import click

from onward.cli.output import put


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the script that completes commands in a shell.

    Bash: eval "$(onward completion bash)" in ~/.bashrc. Zsh: the same in ~/.zshrc. Fish: save it as completions/onward.fish.
    """
    from click.shell_completion import get_completion_class

    complete = get_completion_class(shell)
    assert complete is not None
    put(complete(click.get_current_context().find_root().command, {}, "onward", "_ONWARD_COMPLETE").source())
