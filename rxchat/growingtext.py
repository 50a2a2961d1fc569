"""
A text that comes in pieces.
"""

from __future__ import annotations

from io import BytesIO

__all__ = ["GrowingText"]


class GrowingText(BytesIO):
    """
    Held in about as many bytes as it has in UTF-8. A list, or io.StringIO until it is read, keeps an object of some 60 bytes for each piece, and a piece
    has four or five characters: for an open stream with a long answer that is most of its memory.
    """

    def add(self, piece: str) -> None:
        """
        One piece more.
        """
        try:
            self.write(piece.encode())
        except UnicodeEncodeError:
            # A lone surrogate, in events that somebody made: it comes out as it went in.
            self.write(piece.encode("utf-8", "surrogatepass"))

    def __bool__(self) -> bool:
        return self.tell() > 0

    @property
    def text(self) -> str:
        """
        All of it.
        """
        return self.getvalue().decode("utf-8", "surrogatepass")
