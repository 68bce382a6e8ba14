"""All answers to the hand-outs as a page of docs/: python -m benchmarks.handouts > docs/handouts.md."""

import re
import textwrap

from headwork.problems.handouts import answers_document


def page() -> str:
    """Markdown with short lines; a formula is not broken."""
    lines = []
    for line in answers_document().to_markdown().splitlines():
        joined = re.sub(r"\$[^$]+\$", lambda formula: formula[0].replace(" ", "\0"), line)
        indent = "  " if line.startswith("- ") else ""
        wrapper = textwrap.TextWrapper(
            100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
        lines.append(
            line if line.startswith(("|", "#", "headwork")) else wrapper.fill(joined).replace("\0", " ")
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
