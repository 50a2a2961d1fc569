"""
`rxchat chat`: turns, commands, tools, failures; in a pipe, and as typed.
"""

from __future__ import annotations

import re
import sqlite3
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from rxchat import local
from rxchat.cli import main
from rxchat.cli.chat_session import ORDERS
from rxchat.client import ChatModel
from rxchat.response import FinishReason, ThinkingPart, ToolCall, Usage
from rxchat.stores import sqlite
from rxchat.testing import FakeAnswer, FakeProvider, Fault
from rxchat.testing.provider import Entry, Script
from tests.cli.chatting import ROME, Chat, echo, rows, with_tools

Open: TypeAlias = Callable[[Script], AbstractContextManager[Chat]]


def weather(city: str) -> str:
    """
    The weather.
    """
    return f"sunny in {city}"


TOOL = ("--tool", f"{__name__}:weather")
INTERRUPT = KeyboardInterrupt


@pytest.fixture(name="chat")
def chatting(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Open:
    """
    A chat with a provider of that script.
    """

    @contextmanager
    def opened(script: Script) -> Iterator[Chat]:
        with FakeProvider(script).in_thread() as provider:
            yield Chat(provider, tmp_path / "chats.db", capsys, monkeypatch)

    return opened


# --- a pipe ---------------------------------------------------------------------------------------------------------------------------------------


def test_each_line_is_a_turn(chat: Open) -> None:
    """
    Answers on standard output and nothing else; what was said before goes with each question; the next start goes on.
    """
    with chat(echo) as it:
        assert it.piped('one\n\ntwo \\\nlines\n"""\nthree\n"""\n') == (0, "one, 1.\ntwo \nlines, 3.\nthree, 5.\n", "")
        assert it.piped("four\n") == (0, "four, 7.\n", "")
        assert it.piped("one\n", "other") == (0, "one, 1.\n", "")
        assert [name for name, *_ in rows(it.store)[0]] == ["default", "other"]


def test_what_is_said_before_everything_is_not_stored(chat: Open) -> None:
    """
    The system's message; options reach the request.
    """
    with chat(echo) as it:
        it.piped("one\n", "--system", "Be brief.", "--max-tokens", "9")
        it.piped("two\n")
        assert [message["role"] for message in it.provider.requests[0].json["messages"]] == ["system", "user"]
        assert it.provider.requests[0].json["max_tokens"] == 9
        assert [message["role"] for message in it.provider.requests[1].json["messages"]] == ["user", "assistant", "user"]


def test_commands_in_a_pipe(chat: Open) -> None:
    """
    Undo, branch, usage, list and history do what they say, and none of it is sent.
    """
    with chat(echo) as it:
        code, out, err = it.piped("one\ntwo\n/undo\n/branch side\nthree\n/usage\n/list\n/history 1\n/undo 9\n/undo\n/quit\nnever\n")
        answers = "one, 1.\ntwo, 3.\nthree, 3.\n"
        day = r"\d{4}-\d\d-\d\d \d\d:\d\d"
        told = (
            "side, 2 turns kept: 22 input, 14 output, 36 total tokens\n"
            "since this start, kept or not: 33 input, 21 output, 54 total tokens\n"
            rf"default\t1\t{day}\t{day}\nside\t2\t{day}\t{day}\n"
            rf"--- 2 · {day}\n> three\nthree, 3\.\n"
        )
        assert (code, re.fullmatch(re.escape(answers) + told, out) is not None) == (0, True), out
        assert err == ("undone: 1 of 2 turns\nnow in 'side', a copy; 'default' stays as it is\nundone: 2 of 2 turns\nthere is nothing to undo\n")
        assert len(it.provider.requests) == 3


@pytest.mark.parametrize(
    "order, code, words",
    [
        ("/frob", 2, "/frob is no command and was not sent: /help lists them"),
        ("/", 2, "/ is no command"),
        ("/undo x", 2, "'x' is no number of turns"),
        ("/undo 0", 2, "'0' is no number of turns"),
        ("/branch", 2, "say the name of the branch: /branch NAME"),
        ("/branch default", 2, "a branch needs a name of its own"),
        ("/branch other", 9, "cannot branch to 'other': that name is in use"),
        ("/retry", 2, "there is nothing to ask again"),
        ("/save", 2, "there is no answer that could not be stored"),
    ],
)
def test_a_wrong_command_is_not_sent(chat: Open, order: str, code: int, words: str) -> None:
    """
    One sentence, and in a pipe the end: what follows was written for something else.
    """
    with chat(echo) as it:
        it.piped("one\n", "other")
        before = rows(it.store)
        ended, out, err = it.piped(f"{order}\nnever\n")
        assert (ended, out, err.count("\n"), words in err) == (code, "", 1, True), err
        assert (len(it.provider.requests), rows(it.store)) == (1, before)


@pytest.mark.parametrize(
    "entry, code, out, words",
    [
        (FakeAnswer("Once upon a", finish=FinishReason.LENGTH), 3, "Once upon a\n", "the answer was cut off at its limit of tokens"),
        (FakeAnswer(ThinkingPart("Hm")), 3, "", "the answer is empty"),
        (FakeAnswer("Hello").with_fault(Fault(cut_after=300)), 4, None, "the answer broke off before its end"),
        (Fault(status=401, message="no such key"), 5, "", "the provider refused the key (HTTP 401): no such key"),
        (FakeAnswer("Hello").with_fault(Fault(error_after=1, message="over\nloaded")), 5, None, "the provider reported a failure: over loaded"),
        (FakeAnswer("Hello").with_fault(Fault(malformed_after=1)), 7, None, "the answer is not what its protocol promises"),
        (FakeAnswer("Let me look.", ROME), 3, "Let me look.\n", "the answer calls what is not here (weather)"),
    ],
    ids=["length", "empty", "cut", "key", "provider", "malformed", "calls"],
)
def test_what_fails_is_not_kept(chat: Open, entry: Any, code: int, out: str | None, words: str) -> None:
    """
    Shown as far as it came, told in one line, with the exit code of `ask`; the history stays to the byte; what follows is not asked.
    """
    with chat(["First.", entry, "Last."]) as it:
        it.piped("one\n")
        before = rows(it.store)
        ended, shown, err = it.piped("two\nnever\n")
        assert (ended, err.count("\n"), words in err, "nothing of this turn is kept\n" in err) == (code, 1, True, True), err
        assert shown == out or out is None
        assert rows(it.store) == before
        assert it.piped("three\n")[:2] == (0, "Last.\n")
        assert len(it.provider.requests) == 3


@pytest.mark.parametrize("text, words", [(b"caf\xe9\n", "the input is not UTF-8"), (b'"""one\n', 'a text that begins with """ has no end')])
def test_what_cannot_be_read(chat: Open, text: bytes, words: str) -> None:
    """
    A wrong call.
    """
    with chat(echo) as it:
        code, out, err = it.piped(text)
        assert (code, out, words in err) == (2, "", True)


# --- the store ------------------------------------------------------------------------------------------------------------------------------------


def test_where_conversations_are_kept(chat: Open, tmp_path: Path) -> None:
    """
    In the user's data folder, for nobody else to read; a relative XDG_DATA_HOME does not count.
    """
    with chat(echo) as it:
        it.monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
        it.monkeypatch.setenv("HOME", str(tmp_path))
        it.monkeypatch.setattr(Chat, "argv", lambda self, *more: ["chat", "--base-url", self.provider.url("openai-chat"), *more])
        file = tmp_path / "data" / "rxchat" / "conversations.sqlite"
        assert it.piped("", "--list") == (0, "", f"there are no conversations in {file}\n")
        assert it.piped("one\n")[0] == 0
        assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode)) == (0o600, 0o700)
        assert it.piped("", "--list")[1].startswith("default\t1\t")
        it.monkeypatch.setenv("XDG_DATA_HOME", "relative")
        assert str(tmp_path / ".local" / "share" / "rxchat") in it.piped("", "--list")[2]


@pytest.mark.parametrize("listing", [[], ["--list"]], ids=["chat", "list"])
def test_a_store_that_is_none(chat: Open, listing: list[str]) -> None:
    """
    Says so, and the file, with exit code 9; it is not touched.
    """
    with chat(echo) as it:
        it.store.write_bytes(b"no database at all, whatever its name says")
        code, out, err = it.piped("one\n", *listing)
        assert (code, out, err) == (
            9,
            "",
            f"rxchat: {it.store}: cannot {'list the names' if listing else 'load ' + repr('default')}: file is not a database\n",
        )
        assert it.store.read_bytes() == b"no database at all, whatever its name says"
        it.store = it.store.parent / "nowhere" / "x"
        assert it.piped("one\n") == (9, "", f"rxchat: {it.store}: cannot be opened: No such file or directory\n")


def test_a_record_that_cannot_be_read_hides_no_other(chat: Open) -> None:
    """
    The list shows the rest, and why that one is not.
    """
    with chat(echo) as it:
        it.piped("one\n")
        it.piped("one\n", "other")
        with closing(sqlite3.connect(it.store)) as connection, connection:
            connection.execute("UPDATE turn SET record = '{' WHERE name = 'default'")
        code, out, _ = it.piped("", "--list")
        assert (code, "cannot load 'default'" in out.splitlines()[0], out.splitlines()[1][:8]) == (0, True, "other\t1\t")


def test_a_locked_store(chat: Open) -> None:
    """
    The answer is shown and not kept; /save stores it as soon as that is possible, without asking again.
    """
    with chat(echo) as it:
        it.piped("one\n")
        it.monkeypatch.setattr(sqlite.SqliteStore.__init__, "__kwdefaults__", {"synchronous": "FULL", "busy_timeout": 0.05})
        other = sqlite3.connect(it.store, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")

        def unlocked() -> Iterator[str]:
            yield "two"
            yield "/save"
            other.rollback()
            yield "/save"
            yield "/retry"

        code, _, printed = it.typed(unlocked())
        other.close()
        assert (code, "cannot commit to 'default': database is locked; nothing of this turn is kept (/save tries" in printed) == (0, True), printed
        assert (printed.count("database is locked"), "stored\n" in printed, "there is nothing to ask again" in printed) == (2, True, True)
        assert (len(rows(it.store)[1]), len(it.provider.requests)) == (2, 2)


def test_a_conversation_changed_elsewhere(chat: Open) -> None:
    """
    The turn is not kept; asked again it stands on what is there now.
    """
    with chat(echo) as it:
        it.piped("one\n")

        def script(request: Any) -> Any:
            if len(it.provider.requests) == 2:
                with closing(sqlite3.connect(it.store)) as connection, connection:
                    connection.execute("UPDATE conversation SET epoch = epoch + 1")
            return echo(request)

        it.provider.script = script
        _, _, printed = it.typed(["two", "/retry"])
        assert "this conversation was changed elsewhere in the meantime; nothing of this turn is kept (/retry asks it again)" in printed
        assert len(rows(it.store)[1]) == 2


# --- tools ----------------------------------------------------------------------------------------------------------------------------------------

CALL = 'run weather({"city":"Rome"})? [y]es, [n]o, [a]lways: '
NOT_ALLOWED = "error: the call of weather is not allowed: the user said no"


@pytest.mark.parametrize(
    "flags, answer",
    [
        ((), "error: the call of weather is not allowed: nobody is there to allow it"),
        (("--yes",), "sunny in Rome"),
        (("--approve", "weather"), "sunny in Rome"),
    ],
)
def test_in_a_pipe_a_tool_runs_only_if_it_was_allowed_before(chat: Open, flags: tuple[str, ...], answer: str) -> None:
    """
    Nobody is there to be asked; what the model said, called and was told is one turn.
    """
    with chat(with_tools(ROME)) as it:
        code, out, err = it.piped("and Rome?\n/history\n", *TOOL, *flags)
        assert (code, out.startswith(f"Let me look.\n{answer}\n--- 1")) == (0, True), out
        assert ("weather was not run: nobody is there to allow it; --yes or --approve weather does" in err) is not bool(flags)
        assert ('→ weather({"city":"Rome"})\n' in out, len(rows(it.store)[1])) == (True, 1)


@pytest.mark.parametrize(
    "said, answer",
    [
        (["y"], "sunny in Rome"),
        (["Yes "], "sunny in Rome"),
        (["n"], NOT_ALLOWED),
        (["perhaps", "", "no"], NOT_ALLOWED),
        ([EOFError], NOT_ALLOWED),
    ],
)
def test_somebody_is_asked_before_a_tool_runs(chat: Open, said: list[Any], answer: str) -> None:
    """
    Until the answer is one; no answer is no.
    """
    with chat(with_tools(ROME)) as it:
        code, prompts, printed = it.typed(["and Rome?", *said], *TOOL)
        assert (code, prompts) == (0, ["default> ", *[CALL] * len(said), "default> "])
        assert f'Let me look.\n→ weather({{"city":"Rome"}})\n← {answer}\n{answer}\n' in printed


def test_always_is_for_that_tool_from_then_on(chat: Open) -> None:
    """
    Calls of one step are asked about one at a time, in their order.
    """
    oslo = ToolCall(name="weather", arguments={"city": "Oslo"})
    with chat(with_tools(ROME, oslo)) as it:
        _, prompts, printed = it.typed(["one", "n", "a", "two"], *TOOL)
        assert prompts == ["default> ", CALL, CALL.replace("Rome", "Oslo"), "default> ", "default> "]
        assert [line for line in printed.splitlines() if line.startswith("← ")] == [
            f"← {NOT_ALLOWED}",
            "← sunny in Oslo",
            "← sunny in Rome",
            "← sunny in Oslo",
        ]


def test_ctrl_c_at_the_question_cancels_the_turn(chat: Open) -> None:
    """
    The tool does not run and nothing is kept; the chat goes on.
    """
    with chat(with_tools(ROME)) as it:
        code, prompts, printed = it.typed(["one", INTERRUPT, "/usage"], *TOOL)
        assert (code, prompts) == (0, ["default> ", CALL, "default> ", "default> "])
        assert ("rxchat: cancelled; nothing of this turn is kept (/retry asks it again)" in printed, "←" in printed) == (True, False)
        assert ("default, 0 turns kept: no provider said" in printed, "not: 11 input" in printed) == (True, True)
        assert (rows(it.store), len(it.provider.requests)) == ([[], []], 1)


def test_steps_come_to_an_end(chat: Open) -> None:
    """
    A model that calls for ever is stopped, and its turn is not kept.
    """
    with chat(FakeAnswer(ROME)) as it:
        code, _, err = it.piped("one\n", *TOOL, "--yes", "--max-steps", "3")
        assert (code, len(it.provider.requests), rows(it.store)[1]) == (3, 3, [])
        assert err == "rxchat: the model wanted to call more tools than its steps allow; nothing of this turn is kept\n"


@pytest.mark.parametrize(
    "argv, words",
    [
        (["--tool", "weather"], "--tool 'weather' is not MODULE:FUNCTION"),
        (["--tool", "no_such_module:f"], "no_such_module cannot be imported: ModuleNotFoundError"),
        (["--tool", f"{__name__}:nothing"], f"there is no nothing in {__name__}"),
        (["--tool", f"{__name__}:TOOL"], "this is no function"),
        ([*TOOL, *TOOL], "two tools are called weather"),
        (["--tool", f"{__name__}:Chat.piped"], "--tool: tool piped"),
        ([*TOOL, "--approve", "other"], "--approve other: there is no such --tool"),
        (["--model-file", "x"], "--model-file runs here"),
        (["--max-steps", "0"], "--max-steps"),
    ],
)
def test_a_wrong_call(chat: Open, argv: list[str], words: str) -> None:
    """
    Before anything is asked or made.
    """
    with chat(echo) as it:
        code, out, err = it.piped("one\n", *argv)
        assert (code, out, words in err, it.store.exists()) == (2, "", True, False), err


def test_tools_of_the_folder_at_hand(chat: Open, tmp_path: Path) -> None:
    """
    Are found without being installed.
    """
    (tmp_path / "tools_of_this_folder.py").write_text("def weather(city: str) -> str:\n    return 'rain in ' + city\n")
    with chat(with_tools(ROME)) as it:
        it.monkeypatch.chdir(tmp_path)
        it.monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
        assert it.piped("one\n", "--tool", "tools_of_this_folder:weather", "--yes")[1] == "Let me look.\nrain in Rome\n"


# --- a terminal -----------------------------------------------------------------------------------------------------------------------------------


def test_a_conversation_is_gone_on_with(chat: Open) -> None:
    """
    It says what there is, under its name, and where it is left.
    """
    with chat(echo) as it:
        code, prompts, printed = it.typed(["one"], "travel")
        assert (code, prompts, printed.splitlines()[0]) == (0, ["travel> "] * 2, "one, 1.")
        assert "travel: a new conversation. /help lists the commands.\n" in printed
        code, prompts, printed = it.typed(["two", "/branch side", "/quit", "never"], "travel")
        assert (code, prompts) == (0, ["travel> ", "travel> ", "side> "])
        assert ("two, 3.\n" in printed, "travel: 1 turn, the last one of 20" in printed) == (True, True)
        assert "name   ┃ turns ┃" in it.typed(["/list"])[2]


def test_help_names_every_command(chat: Open) -> None:
    """
    And how to write what is more than a line.
    """
    with chat(echo) as it:
        printed = it.typed(["/help"])[2]
        assert all(f"{order.usage} " in printed and order.doc in printed for order in ORDERS.values())
        assert "Ctrl-C while an answer comes cancels the turn" in printed


def test_a_problem_comes_with_advice_and_the_chat_goes_on(chat: Open) -> None:
    """
    /retry asks again what was not kept, and it is kept then.
    """
    script: list[Entry] = [FakeAnswer("Once upon a", finish=FinishReason.LENGTH), Fault(status=429, message="slowly"), "Whole."]
    with chat(script) as it:
        code, _, printed = it.typed(["a tale", "/frob", "/retry", "/retry", "/retry"], "--timeout", "5")
        assert (code, len(rows(it.store)[1])) == (0, 1)
        for words in (
            "(finish reason length); nothing of this turn is kept (--max-tokens moves the limit, /retry asks it again)",
            "slowly; nothing of this turn is kept (wait a while, then /retry asks it again)",
            "there is nothing to ask again: the last turn is kept (/undo takes it back)",
        ):
            assert words in printed
        assert [request.json["messages"][-1]["content"] for request in it.provider.requests] == ["a tale"] * 3


def test_thinking_is_shown_if_it_is_wanted(chat: Open) -> None:
    """
    Else a word says that there is some.
    """
    with chat(FakeAnswer(ThinkingPart("Hm, well."), "Yes.")) as it:
        assert "thinking ...\nYes.\n" in it.typed(["one"])[2]
        assert "Hm, well.\nYes.\n" in it.typed(["one"], "--show-thinking")[2]


@pytest.mark.parametrize(
    "keys, code, prompts",
    [
        ([INTERRUPT, INTERRUPT, "never"], 130, ["> "] * 2),
        ([INTERRUPT, "/usage", INTERRUPT, "/usage"], 0, ["> "] * 5),
        (["one \\", INTERRUPT, INTERRUPT, "/usage"], 0, ["> ", "... ", "> ", "> ", "> "]),
        (['"""one', EOFError], 0, ["> ", "... "]),
        ([UnicodeDecodeError("utf-8", b"\xe9", 0, 1, "odd") for _ in range(1)], 0, ["> "] * 2),
    ],
    ids=["twice", "once", "in a text", "end in a text", "not text"],
)
def test_keys_at_the_prompt(chat: Open, keys: list[Any], code: int, prompts: list[str]) -> None:
    """
    Ctrl-C drops what is typed; twice at an empty prompt, with nothing in between, it leaves, as Ctrl-D does at once.
    """
    with chat(echo) as it:
        ended, asked, printed = it.typed(keys)
        assert (ended, [prompt.removeprefix("default") for prompt in asked]) == (code, prompts)
        assert ("Ctrl-C again leaves, as do Ctrl-D and /quit" in printed) is (keys.count(INTERRUPT) > 0)
        assert len(it.provider.requests) == 0


def test_ctrl_c_while_a_command_works(chat: Open) -> None:
    """
    Ends the command and nothing else.
    """
    with chat(echo) as it:

        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        it.monkeypatch.setattr("rxchat.cli.chat_session.print_overview", interrupted)
        code, _, printed = it.typed(["/list", "one"])
        assert (code, "rxchat: cancelled\n" in printed, "one, 1.\n" in printed) == (0, True, True)


def test_without_a_model_the_embedded_one_answers(chat: Open, tmp_path: Path) -> None:
    """
    As in `ask`.
    """
    with chat(FakeAnswer("Hello.", usage=Usage())) as it:
        it.monkeypatch.setattr(Chat, "argv", lambda self, *more: ["chat", "--store", str(self.store), *more])
        url = it.provider.url("openai-chat")
        it.monkeypatch.setattr(local, "model_file", lambda progress: tmp_path)
        it.monkeypatch.setattr(local, "local_model", lambda file, **settings: ChatModel("local/m", base_url=url, **settings))
        code, out, err = it.piped("hello\n/usage\n")
        assert (code, out.splitlines()[0], err) == (0, "Hello.", "no --model given: asking the small embedded model\n")
        assert "kept: no provider said how many tokens" in out


def test_a_reader_that_leaves_is_no_failure_to_speak_of(chat: Open) -> None:
    """
    And the history holds what was whole.
    """
    with chat(echo) as it:

        def gone(text: str) -> int:
            raise BrokenPipeError

        it.monkeypatch.setattr(sys.stdout, "write", gone)
        assert it.piped("one\n")[0] == 1
        assert rows(it.store)[1] == []


def test_a_name_no_store_can_keep(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """
    A wrong call.
    """
    assert main(["chat", "", "--base-url", "http://127.0.0.1:1/v1", "--store", str(tmp_path / "x")]) == 2
    assert capsys.readouterr().err == "rxchat: a name is a text that is not empty, not ''\n"
