"""
Whom a command asks: the options that `ask` and `chat` share, and the model they come to.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import attrs
import click

from rxchat.cli.bodies import key_values
from rxchat.client import ChatModel, HttpSettings

__all__ = ["Connection", "budgets", "connection_options"]

F = TypeVar("F", bound=Callable[..., Any])

OPTIONS = (
    click.option(
        "--model", "model_name", metavar="PROVIDER/NAME", help="Whom to ask; the key is taken from the provider's usual environment variable."
    ),
    click.option("--base-url", metavar="URL", help="Another server, e.g. http://127.0.0.1:8080/v1."),
    click.option("--model-file", metavar="FILE", type=click.Path(path_type=Path), help="A GGUF file to run inside this process."),
    click.option("--profile", default="default", show_default=True, help="default or strict_text."),
    click.option("--option", "pairs", multiple=True, metavar="KEY=VALUE", help="An option of the dialect; may be repeated."),
    click.option("--max-tokens", type=click.IntRange(min=1), help="Where to cut the answer off."),
    click.option("--temperature", type=float, help="How freely to choose words."),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="How long to wait for a byte, and ask only once.  [default: 300, 600 for the first one, three attempts]",
    ),
)


def connection_options(command: F) -> F:
    """
    A command with these options; it is given them as the fields of a Connection.
    """
    for option in reversed(OPTIONS):
        command = option(command)
    return command


@attrs.frozen
class Connection:
    """
    What the options say. UsageError where they contradict each other.
    """

    model_name: str | None
    base_url: str | None
    model_file: Path | None
    profile: str
    pairs: tuple[str, ...]
    max_tokens: int | None
    temperature: float | None
    timeout: float | None

    def __attrs_post_init__(self) -> None:
        if self.model_file is not None and self.remote:
            raise click.UsageError("--model-file runs here: it goes with neither --model nor --base-url")

    @property
    def remote(self) -> bool:
        """
        Whether a provider is asked, not a model inside this process.
        """
        return self.model_name is not None or self.base_url is not None

    @property
    def request(self) -> dict[str, Any]:
        """
        What goes with every request.
        """
        return {key: value for key in ("max_tokens", "temperature") if (value := getattr(self, key)) is not None}

    def model(self) -> ChatModel:
        """
        The model; the one inside this process is started, and fetched first if it is not here. ConfigurationError says what is missing.
        """
        settings: dict[str, Any] = {"options": key_values(self.pairs), "profile": self.profile, "settings": budgets(self.timeout)}
        if self.remote:
            return ChatModel("default" if self.model_name is None else self.model_name, base_url=self.base_url, **settings)
        return self._embedded(settings)

    def _embedded(self, settings: dict[str, Any]) -> ChatModel:
        from rxchat import local
        from rxchat.cli.fetching import fetch_bar

        file = self.model_file
        if file is None:
            print("no --model given: asking the small embedded model", file=sys.stderr)
            with fetch_bar() as progress:
                file = local.model_file(progress)
        return local.local_model(file, **settings)


def budgets(timeout: float | None) -> HttpSettings:
    """
    The settings for `--timeout`: whoever names a time does not want it several times over, so nothing is asked again.
    """
    usual = HttpSettings()
    if timeout is None:
        return usual
    connect = min(timeout, usual.connect_timeout or timeout)
    return attrs.evolve(usual, connect_timeout=connect, first_event_timeout=timeout, read_timeout=timeout, retry=None)
