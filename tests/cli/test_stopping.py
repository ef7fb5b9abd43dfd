"""Signals that end a command at once."""

import os
import signal

import pytest

from plait.cli.stopping import stop_on_signals


def test_signal_that_a_library_turns_into_an_error_still_ends_the_program():
    with pytest.raises(SystemExit) as exit_, stop_on_signals():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except SystemExit:
            raise ValueError("could not determine the shape") from None
    assert exit_.value.code == 143


def test_other_errors_pass():
    with pytest.raises(ValueError, match="of its own"), stop_on_signals():
        raise ValueError("of its own")
