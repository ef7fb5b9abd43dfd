"""The command line in the process of the tests."""

from command_line import plait

__all__ = ["plait"]
