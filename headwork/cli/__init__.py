"""The command line: arguments in, calls out, no mathematics."""

from headwork.cli.app import main
