"""``python -m headwork``."""

from headwork.cli import main

main()
