"""
The command line, `rxchat` and `python -m rxchat`.

Each command is a module that is imported only when it is asked for: `parse` on a thousand files must not wait for an HTTP client. The library is click,
because it is imported in 45 ms where cyclopts takes 120 (Python alone: 18), and because a group of it can load its commands late.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from rxchat.errors import RxchatError

__all__ = ["main"]

# Name of the command: its module, and what the overview says, so that `--help` imports none of them.
COMMANDS = {
    "ask": ("rxchat.cli.ask", "Ask a model and watch the answer come."),
    "chat": ("rxchat.cli.chat", "Talk with a model; the conversation is kept."),
    "parse": ("rxchat.cli.parse", "Run recorded bodies through the pipeline."),
    "frames": ("rxchat.cli.frames", "Show what a framer makes of a body."),
    "events": ("rxchat.cli.events_table", "List the event types."),
    "providers": ("rxchat.cli.providers_table", "List the provider presets."),
}
USAGE = 2
UNWRITABLE = 8
INTERRUPTED = 130


class LazyGroup(click.Group):
    """
    A group whose commands are imported when they are called.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(COMMANDS[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, doc) for name, (_, doc) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="rxchat", message="%(prog)s %(version)s")
def app() -> None:
    """
    LLM byte streams as Observables of chat events.
    """


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run one command and return its exit code; every expected failure is one sentence on standard error.

    0 is success, 2 a wrong call, 8 an output that cannot be written, 130 Ctrl-C; `ask` and `parse` document their own.
    """
    if sys.stdout is None:
        print("rxchat: the output cannot be written: it is closed", file=sys.stderr)
        return UNWRITABLE
    try:
        code = _run(argv)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever read has seen enough.
        _abandon()
        return 1
    except OSError as error:
        _abandon()
        print(f"rxchat: the output cannot be written: {error.strerror or error}", file=sys.stderr)
        return UNWRITABLE


def _run(argv: Sequence[str] | None) -> int:
    _utf8(sys.stdout)
    try:
        code = app.main(list(argv) if argv is not None else None, prog_name="rxchat", standalone_mode=False)
        return int(code or 0)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except RxchatError as error:
        from rxchat.cli.outcome import exit_code
        from rxchat.cli.sentences import in_flags

        print(f"rxchat: {in_flags(str(error))}", file=sys.stderr)
        return exit_code(error.verdict) if error.verdict else USAGE
    except (click.Abort, KeyboardInterrupt):
        print("rxchat: cancelled", file=sys.stderr)
        return INTERRUPTED


def _abandon() -> None:
    """
    What is still in the buffer goes nowhere, so that the interpreter does not fail over it on its way out.
    """
    out = sys.__stdout__
    if out is not None and out is sys.stdout:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, out.fileno())
        os.close(nowhere)


def _utf8(stream: object) -> None:
    """
    Output is UTF-8 whatever the locale says; what no UTF-8 can hold (bytes of a file name) is written as an escape, which JSON reads back.
    """
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding="utf-8", errors="backslashreplace")
