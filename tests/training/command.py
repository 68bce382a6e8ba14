"""The command line as a script, for torchrun and for tests that start processes."""

import headwork.cli.runs
import headwork.cli.train  # noqa: F401
from headwork.cli.app import main

if __name__ == "__main__":
    main()
