"""
Strict JSON that grows: a state machine over characters which never reads one twice, and the value as far as it has come.

A text of n characters costs O(n) however it is cut. Nothing is built for a delta: what is read goes into a log
(jsonlog.py). A value "as of delta k" is made from it when somebody asks, so that a consumer pays only for what it looks at, gets objects of its own, and an
old preview stays what it was.

It refuses what `strictjson.loads` refuses, with the same words, as soon as nothing that may follow could mend it. What is shown is always the beginning of
the value: strings as far as their characters are whole, numbers and words once they have ended, a key once its value has begun.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from rxchat.errors import InvalidJSONError
from rxchat.jsonlog import Fields, Items, Text, plain
from rxchat.strictjson import MESSAGES

__all__ = ["GrowingJson"]

# As in strictjson: deeper is refused whatever the limit says, and so are longer integers.
_DEEPEST = 200
_DIGITS = 4300


# Takes text and a position in it, gives the position where to go on; what is next is in `_state`.
_State: TypeAlias = Callable[[str, int], int]

_SPACE = re.compile(r"[ \t\r\n]+")
_CHARACTERS = re.compile(r'[^"\\\x00-\x1f\ud800-\udfff]+')
_RUN = re.compile(r"[0-9]+")
_HEX = frozenset("0123456789abcdefABCDEF")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS: Mapping[str, tuple[str, Any]] = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}

# A number is its parts in this order; "d" stands for digits, "1" for one that is not 0.
_NUMBER: Mapping[str, Mapping[str, str]] = {
    "": {"-": "minus", "0": "zero", "1": "whole"},
    "minus": {"0": "zero", "1": "whole"},
    "zero": {".": "point", "e": "e", "E": "e"},
    "whole": {"d": "whole", ".": "point", "e": "e", "E": "e"},
    "point": {"d": "fraction"},
    "fraction": {"d": "fraction", "e": "e", "E": "e"},
    "e": {"+": "sign", "-": "sign", "d": "power"},
    "sign": {"d": "power"},
    "power": {"d": "power"},
}
_WHOLE_NUMBERS = frozenset({"zero", "whole", "fraction", "power"})


class GrowingJson:
    """
    One JSON text, fed piece by piece.

    `delta` counts the pieces; `changed` tells whether the last one changed what is shown. `work` counts characters looked at or joined and things made: a test
    holds it to a multiple of the text's length.
    """

    __slots__ = (
        "_before",
        "_delta_text",
        "_depth",
        "_digits",
        "_high",
        "_key",
        "_mark",
        "_number_part",
        "_parts",
        "_read",
        "_stack",
        "_state",
        "_string",
        "_top",
        "_word",
        "changed",
        "delta",
        "work",
    )

    def __init__(self, depth: int = 128) -> None:
        self.delta = 0
        self.changed = False
        self.work = 0
        self._depth = min(depth, _DEEPEST)
        self._top = Items()
        self._stack: list[Items] = [self._top]
        self._state: _State = self._value
        self._before = 0  # bytes of the pieces before the last one
        self._delta_text = ""
        self._mark: tuple[int, str, int] = (0, "", 0)  # a place to be named later: bytes before its piece, the piece, the position in it
        self._string: Text | None = None  # None while a key is read
        self._parts: list[str] = []  # of a key, an escape or a number
        self._key = ""
        self._digits = ""
        self._high = 0
        self._word: tuple[str, Any] = ("", None)
        self._read = 0  # characters of the word
        self._number_part = ""

    # From outside ----------------------------------------------------------------------------------------------------------------------------

    def feed(self, text: str) -> None:
        """
        Take a piece. InvalidJSONError, its offset in UTF-8 bytes of the whole text, once this can never become strict JSON.
        """
        self._before += _size(self._delta_text)
        self._delta_text = text
        self.delta += 1
        self.changed = False
        at, size = 0, len(text)
        while at < size:
            then = self._state(text, at)
            self.work += then - at + 1
            at = then

    def finish(self) -> None:
        """
        Nothing follows: a number at the end is whole now. InvalidJSONError if the text is not.
        """
        self.feed("")
        if self._state == self._number and self._number_part in _WHOLE_NUMBERS:
            self._end_number("", 0)
        if self._state != self._after or len(self._stack) > 1:
            untouched = self._state == self._value and len(self._stack) == 1
            raise self._refusal("empty" if untouched else "syntax", self._before)

    def shown(self, delta: int) -> bool:
        """
        Whether there was a value to show.
        """
        return self._top.count(delta) > 0

    def at(self, path: tuple[object, ...], delta: int) -> Any:
        """
        The value there as of a delta, made anew; KeyError if it was not there.
        """
        found: Any = self._top.find(0, delta)
        for key in path:
            if not isinstance(found, Items):
                raise KeyError(key)
            found = found.find(key, delta)
        return plain(found, delta)

    # Values ----------------------------------------------------------------------------------------------------------------------------------

    def _value(self, text: str, at: int) -> int:
        """
        A value is due.
        """
        mark = text[at]
        if mark in " \t\r\n":
            return _past(_SPACE, text, at)
        begin = _BEGINS.get(mark)
        if begin is None:
            raise self._unexpected(text, at, "non_finite" if mark in "NI" else "syntax")
        return begin(self, text, at)

    def _open(self, text: str, at: int) -> int:
        if len(self._stack) > self._depth:
            raise self._refusal("depth", self._byte(at))
        made: Items = Items() if text[at] == "[" else Fields()
        self._place(made)
        self._stack.append(made)
        self._state = self._first_item if text[at] == "[" else self._first_key
        return at + 1

    def _close(self, text: str, at: int) -> int:
        if text[at] != ("}" if isinstance(self._stack[-1], Fields) else "]") or len(self._stack) == 1:
            raise self._unexpected(text, at)
        self._stack.pop().end = self.delta
        self._state = self._after
        return at + 1

    def _place(self, item: Any) -> None:
        """
        A value is to be seen.
        """
        owner = self._stack[-1]
        owner.items.append(item)
        if isinstance(owner, Fields):
            owner.places[self._key] = len(owner.items) - 1
        owner.births.append(self.delta)
        self.changed = True
        self.work += 1

    def _after(self, text: str, at: int) -> int:
        """
        A value is over.
        """
        mark = text[at]
        if mark in " \t\r\n":
            return _past(_SPACE, text, at)
        owner = self._stack[-1]
        if owner is self._top:
            raise self._unexpected(text, at, "trailing")
        if mark == ",":
            self._state = self._next_key if isinstance(owner, Fields) else self._value
            return at + 1
        return self._close(text, at)

    def _first_item(self, text: str, at: int) -> int:
        return self._close(text, at) if text[at] == "]" else self._stay(self._value, text, at)

    def _first_key(self, text: str, at: int) -> int:
        return self._close(text, at) if text[at] == "}" else self._stay(self._next_key, text, at)

    def _stay(self, state: _State, text: str, at: int) -> int:
        """
        The same in another state; white space does not leave the one at hand.
        """
        if text[at] in " \t\r\n":
            return _past(_SPACE, text, at)
        self._state = state
        return state(text, at)

    # Keys ------------------------------------------------------------------------------------------------------------------------------------

    def _next_key(self, text: str, at: int) -> int:
        if text[at] in " \t\r\n":
            return _past(_SPACE, text, at)
        if text[at] != '"':
            raise self._unexpected(text, at)
        self._string, self._parts = None, []
        self._state = self._characters
        self._mark = (self._before, text, at)
        return at + 1

    def _colon(self, text: str, at: int) -> int:
        if text[at] in " \t\r\n":
            return _past(_SPACE, text, at)
        if text[at] != ":":
            raise self._unexpected(text, at)
        self._state = self._value
        return at + 1

    def _end_key(self, at: int) -> None:
        owner = self._stack[-1]
        self._key = "".join(self._parts)
        self.work += len(self._key)
        if isinstance(owner, Fields) and self._key in owner.places:
            raise self._refusal("duplicate_key", self._byte(at))
        self._state = self._colon

    # Strings ---------------------------------------------------------------------------------------------------------------------------------

    def _begin_string(self, text: str, at: int) -> int:
        self._string = Text()
        self._place(self._string)
        self._state = self._characters
        return at + 1

    def _characters(self, text: str, at: int) -> int:
        found = _CHARACTERS.match(text, at)
        if found is not None:
            self._write(found[0])
            return found.end()
        mark = text[at]
        if mark == '"':
            self._end_string(at)
        elif mark == "\\":
            self._mark = (self._before, text, at)
            self._state = self._escape
        else:
            raise self._unexpected(text, at, "control")
        return at + 1

    def _write(self, piece: str) -> None:
        if self._string is None:
            self._parts.append(piece)
        else:
            self._string.add(piece, self.delta)
            self.changed = True

    def _end_string(self, at: int) -> None:
        if self._string is None:
            self._end_key(at)
        else:
            self._string.end = self.delta
            self._state = self._after

    def _escape(self, text: str, at: int) -> int:
        mark = text[at]
        if mark == "u":
            self._digits = ""
            self._state = self._hexadecimal
        elif mark in _ESCAPES:
            self._write(_ESCAPES[mark])
            self._state = self._characters
        else:
            raise self._unexpected(text, at, "escape")
        return at + 1

    def _hexadecimal(self, text: str, at: int) -> int:
        if text[at] not in _HEX:
            raise self._unexpected(text, at, "escape")
        self._digits += text[at]
        if len(self._digits) == 4:
            self._code_point(int(self._digits, 16))
        return at + 1

    def _code_point(self, code: int) -> None:
        if self._high:
            if not 0xDC00 <= code < 0xE000:
                raise self._lone()
            code = 0x10000 + ((self._high - 0xD800) << 10) + code - 0xDC00
        elif 0xD800 <= code < 0xDC00:
            self._high = code
            self._state = self._second_half
            return
        elif 0xDC00 <= code < 0xE000:
            raise self._lone()
        self._high = 0
        self._write(chr(code))
        self._state = self._characters

    def _second_half(self, text: str, at: int) -> int:
        if text[at] != "\\":
            raise self._lone()
        self._state = self._second_escape
        return at + 1

    def _second_escape(self, text: str, at: int) -> int:
        if text[at] != "u":
            raise self._lone()
        # The place of a fault is now that of the second escape, whose backslash may stand at the end of the piece before.
        self._mark = (self._before + _size(text[:at]) - 1, "", 0)
        self._digits = ""
        self._state = self._hexadecimal
        return at + 1

    def _lone(self) -> InvalidJSONError:
        return self._refusal("surrogate", self._marked())

    # Numbers and words -----------------------------------------------------------------------------------------------------------------------

    def _begin_number(self, text: str, at: int) -> int:
        self._mark = (self._before, text, at)
        self._parts = []
        self._number_part = ""
        self._state = self._number
        return self._number(text, at)

    def _number(self, text: str, at: int) -> int:
        """
        One more part of a number, or its end, which consumes nothing.
        """
        mark = text[at]
        known = _NUMBER[self._number_part]
        digit = mark in "0123456789"
        then = known.get("d" if digit and "d" in known else "1" if digit and mark != "0" else mark)
        if then is None:
            return self._after_number(text, at)
        self._number_part = then
        run = _RUN.match(text, at) if digit and "d" in _NUMBER[then] else None
        self._parts.append(run[0] if run else mark)
        return run.end() if run else at + 1

    def _after_number(self, text: str, at: int) -> int:
        if self._number_part not in _WHOLE_NUMBERS:
            if text[at] == "I" and self._number_part == "minus":
                raise self._refusal("non_finite", self._marked())
            raise self._unexpected(text, at)
        if self._number_part == "zero" and text[at] in "0123456789":
            raise self._unexpected(text, at)
        self._end_number(text, at)
        return at

    def _end_number(self, text: str, at: int) -> None:
        number = "".join(self._parts)
        self.work += len(number)
        if "." in number or "e" in number or "E" in number:
            value: float = float(number)
            if value - value != 0:
                raise self._refusal("non_finite", self._marked())
        elif len(number.lstrip("-")) > _DIGITS:
            raise self._refusal("number", self._marked() + len(number) - len(number.lstrip("-")) + _DIGITS)
        else:
            value = int(number)
        self._place(value)
        self._state = self._after

    def _begin_word(self, text: str, at: int) -> int:
        self._word = _WORDS[text[at]]
        self._read = 1
        self._state = self._letters
        return at + 1

    def _letters(self, text: str, at: int) -> int:
        word, value = self._word
        if text[at] != word[self._read]:
            raise self._unexpected(text, at)
        self._read += 1
        if self._read == len(word):
            self._place(value)
            self._state = self._after
        return at + 1

    # Faults ----------------------------------------------------------------------------------------------------------------------------------

    def _byte(self, at: int) -> int:
        return self._before + _size(self._delta_text[:at])

    def _marked(self) -> int:
        before, text, at = self._mark
        return before + _size(text[:at])

    def _unexpected(self, text: str, at: int, reason: str = "syntax") -> InvalidJSONError:
        return self._refusal("surrogate" if "\ud800" <= text[at] <= "\udfff" else reason, self._byte(at))

    def _refusal(self, reason: str, offset: int) -> InvalidJSONError:
        return InvalidJSONError(MESSAGES[reason], offset, reason)


def _past(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


_BEGINS: Mapping[str, Callable[[GrowingJson, str, int], int]] = {
    "[": GrowingJson._open,
    "{": GrowingJson._open,
    '"': GrowingJson._begin_string,
    **dict.fromkeys("-0123456789", GrowingJson._begin_number),
    **dict.fromkeys(_WORDS, GrowingJson._begin_word),
}
