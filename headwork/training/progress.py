"""Progress of training, on stderr: one moving line on a terminal, a line now and then elsewhere."""

import shutil
import sys
import time

from headwork.data.fetching import to_stderr

BAR_WIDTH = 20
LINE_INTERVAL = 15.0  # seconds between lines where there is no terminal
REFRESH_INTERVAL = 0.2
# Steps before the clock of the time left starts (they compile), and as many before it is shown.
WARM_UP_STEPS = 5


def quiet(line: str) -> None:
    """Print nothing."""


def format_duration(seconds: float) -> str:
    """A time as people read it, in whole seconds.

    >>> format_duration(7), format_duration(372), format_duration(5025.9)
    ('7 s', '6:12', '1:23:45')
    """
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


class StatusLine:
    """A line on stderr: drawn anew on a terminal, elsewhere printed now and then."""

    def __init__(self, *, visible: bool = True) -> None:
        self.visible, self.terminal = visible, visible and sys.stderr.isatty()
        self.start_time = self.drawn_at = time.monotonic()

    def is_due(self, now: float) -> bool:
        return self.visible and now - self.drawn_at >= (REFRESH_INTERVAL if self.terminal else LINE_INTERVAL)

    def draw(self, text: str, now: float) -> None:
        self.drawn_at = now
        if not self.terminal:
            to_stderr(text)
            return
        self.clear()
        print(text[: shutil.get_terminal_size().columns - 1], end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self.terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


class Progress(StatusLine):
    """Steps done out of all, loss and accuracy; after the first steps also the speed and the time left."""

    def __init__(
        self, total: int, steps_per_epoch: int, *, start: int = 0, unit: str = "images", visible: bool = True
    ) -> None:
        super().__init__(visible=visible)
        self.total, self.steps_per_epoch, self.unit = total, steps_per_epoch, unit
        self.settled_step, self.examples = start + WARM_UP_STEPS, 0

    def step(self, done: int, examples: int, loss: float, accuracy: float) -> None:
        """After a step on so many examples."""
        now = time.monotonic()
        if done <= self.settled_step:
            self.start_time = now
        else:
            self.examples += examples
        if not self.is_due(now):
            return
        epochs = -(-self.total // self.steps_per_epoch)
        text = (
            f"epoch {min(done // self.steps_per_epoch + 1, epochs)}/{epochs}  step {done:,}/{self.total:,}  "
            f"loss {loss:.3f}  accuracy {accuracy:.1%}{self._speed(done, now - self.start_time)}"
        )
        full = BAR_WIDTH * done // self.total
        self.draw(f"{'█' * full}{'░' * (BAR_WIDTH - full)} {text}" if self.terminal else text, now)

    def _speed(self, done: int, seconds: float) -> str:
        """Examples per second and the time left, by the steps since the first few; nothing before."""
        steps = done - self.settled_step
        if steps < WARM_UP_STEPS:
            return ""
        left = format_duration(seconds / steps * (self.total - done))
        return f"  {self.examples / max(seconds, 1e-9):,.0f} {self.unit}/s  {left} left"

    def line(self, text: str) -> None:
        """Print a line that stays."""
        if self.visible:
            self.clear()
            to_stderr(text)
