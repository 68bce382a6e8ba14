"""The command line as a script, for torchrun and for tests that start processes."""

from headwork.cli.app import main

if __name__ == "__main__":
    main()
