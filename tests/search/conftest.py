"""A small corpus, its index, and the command line."""

from pathlib import Path

import pytest

from command_line import plait
from plait.inference.predictor import Predictor, load
from search_corpus import TEXTS, write_corpus

__all__ = ["plait"]


@pytest.fixture(scope="package")
def predictor(tiny_bert) -> Predictor:
    return load(tiny_bert)


@pytest.fixture
def corpus(tmp_path) -> Path:
    """A csv file with ids, texts and another column."""
    return write_corpus(tmp_path / "corpus.csv", range(len(TEXTS)))
