"""`python -m plait` is the command `plait`."""

from plait.cli.main import start

start()
