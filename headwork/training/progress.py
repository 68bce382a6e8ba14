"""What a person sees while it trains: one moving line on a terminal, a line now and then elsewhere; on stderr."""

from __future__ import annotations

import shutil
import sys
import time

BAR = 20
BETWEEN = 15.0  # seconds between lines where there is no terminal
REFRESH = 0.2


def tell(line: str) -> None:
    """A line on stderr: results alone go to stdout."""
    print(line, file=sys.stderr, flush=True)


def quiet(line: str) -> None:
    """No line at all."""


def clock(seconds: float) -> str:
    """A time as people read it, in whole seconds that are over.

    >>> clock(7), clock(372), clock(5025.9)
    ('7 s', '6:12', '1:23:45')
    """
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


class Progress:
    """Steps done out of all, at what rate, with what loss and accuracy, and how long it will take still."""

    def __init__(
        self, total: int, per_epoch: int, *, start: int = 0, unit: str = "images", shown: bool = True
    ) -> None:
        self.total, self.per_epoch, self.unit, self.shown = total, per_epoch, unit, shown
        self.terminal = shown and sys.stderr.isatty()
        self.first, self.begun, self.drawn, self.seen = start, time.monotonic(), time.monotonic(), 0

    def step(self, done: int, seen: int, loss: float, accuracy: float) -> None:
        """After a step; ``seen`` examples were in it."""
        self.seen += seen
        now = time.monotonic()
        if not self.shown or now - self.drawn < (REFRESH if self.terminal else BETWEEN):
            return
        self.drawn = now
        spent = now - self.begun
        left = spent / max(1, done - self.first) * (self.total - done)
        epochs = -(-self.total // self.per_epoch)
        told = (
            f"epoch {min(done // self.per_epoch + 1, epochs)}/{epochs}  step {done:,}/{self.total:,}  "
            f"loss {loss:.3f}  accuracy {accuracy:.1%}  {self.seen / spent:,.0f} {self.unit}/s  {clock(left)} left"
        )
        if not self.terminal:
            tell(told)
            return
        full = BAR * done // self.total
        line = f"{'█' * full}{'░' * (BAR - full)} {told}"
        print(
            f"\r\033[K{line[: shutil.get_terminal_size().columns - 1]}", end="", file=sys.stderr, flush=True
        )

    def line(self, text: str) -> None:
        """A line that stays."""
        if self.shown:
            self.clear()
            tell(text)

    def clear(self) -> None:
        if self.terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
