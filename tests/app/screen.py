"""A terminal's screen in miniature: what a person sees after each piece of output, with lines that wrap and scroll."""

from __future__ import annotations

import re

PIECE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b[()][A-Z0-9]|\x1b[=>]|[\r\n\b\x07]|[^\x1b\r\n\b\x07]+|\x1b")


class Screen:
    """Rows of characters, the history above the top included; `wrapped` counts lines that were too long."""

    def __init__(self, width: int) -> None:
        self.width, self.rows, self.row, self.column = width, [""], 0, 0
        self.wrapped = 0

    def feed(self, text: str) -> None:
        for match in PIECE.finditer(text):
            piece = match[0]
            if match[2]:
                self._control(match[1], match[2])
            elif piece == "\r":
                self.column = 0
            elif piece == "\n":
                self._down()
            elif not piece.startswith(("\x1b", "\b", "\x07")):
                self._write(piece)

    def _control(self, numbers: str, kind: str) -> None:
        count = int(numbers) if numbers.isdigit() else 1
        if kind == "A":
            self.row = max(0, self.row - count)
        elif kind == "B":
            self.row += count
        elif kind == "K":
            kept = {"": self.rows[self.row][: self.column], "2": ""}[numbers.replace("0", "")]
            self.rows[self.row] = kept
        elif kind in "GH":
            self.column = count - 1
        else:
            assert kind in "mhl", f"an escape sequence that is not known: {numbers}{kind}"

    def _down(self) -> None:
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append("")

    def _write(self, text: str) -> None:
        for character in text:
            if self.column == self.width:
                self._down()
                self.column = 0
                self.wrapped += 1
            row = self.rows[self.row].ljust(self.column)
            self.rows[self.row] = row[: self.column] + character + row[self.column + 1 :]
            self.column += 1

    @property
    def lines(self) -> list[str]:
        return [row.rstrip() for row in self.rows]


def frames(parts: list[str], width: int) -> tuple[list[list[str]], Screen]:
    """The lines after every part of the output, and the screen at the end."""
    screen, seen = Screen(width), []
    for part in parts:
        screen.feed(part)
        seen.append(screen.lines)
    return seen, screen
