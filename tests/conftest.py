"""Fixtures for more than one test file."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
# The tests meet thousands of tiny sizes. plait lets oneDNN keep the code of few: memory for time.
os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] = os.environ["LRU_CACHE_CAPACITY"] = "2048"
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a background job; processes that tests start inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

from tiny import make_checkpoint, write_tasks

if TYPE_CHECKING:
    from plait.model.model import Model

REPO = Path(__file__).parent.parent


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Tests run in parallel, so each uses one core."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random BERT of 2 layers in Hugging Face's layout, with a tokenizer for the words of the tests."""
    return make_checkpoint(tmp_path_factory.mktemp("tiny") / "bert", "bert")


@pytest.fixture(scope="session")
def tiny_roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with RoBERTa's layout."""
    return make_checkpoint(tmp_path_factory.mktemp("tiny") / "roberta", "roberta")


@pytest.fixture(scope="session")
def tiny_distilbert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with DistilBERT's layout."""
    return make_checkpoint(tmp_path_factory.mktemp("tiny") / "distilbert", "distilbert")


@pytest.fixture(scope="session")
def tiny_mpnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with MPNet's layout."""
    return make_checkpoint(tmp_path_factory.mktemp("tiny") / "mpnet", "mpnet")


@pytest.fixture(scope="session")
def tiny_modernbert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random ModernBERT of 3 layers, of which the last two see 4 tokens to either side."""
    return make_checkpoint(tmp_path_factory.mktemp("tiny") / "modernbert", "modernbert")


@pytest.fixture
def tiny_recipe(tiny_bert: Path, tmp_path: Path) -> Callable[..., dict]:
    """A recipe of three small tasks on the tiny encoder, as a mapping; keyword arguments change its keys."""

    def make(**changes: object) -> dict:
        return {**write_tasks(tmp_path / "data", tiny_bert), **changes}

    return make


@pytest.fixture
def make_model(tiny_recipe: Callable[..., dict]) -> Callable[[], "Model"]:
    """Makes equal small models of two tasks with a shared layer, before their first step."""
    from plait.training.trainer import build_start_model
    from small_runs import resolve

    recipe = tiny_recipe(shared_layer="tanh")
    del recipe["tasks"]["near"]
    resolved = resolve(recipe)
    return lambda: build_start_model(resolved)


@pytest.fixture(scope="session")
def trained_run(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a task of every kind of label on the tiny encoder, and its data; tests must not change it."""
    from streaming import train_model

    return train_model(tmp_path_factory.mktemp("trained"), tiny_bert)


@pytest.fixture(scope="session")
def untrained(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained model on the tiny encoder with a task for every head and every link; tests must not change it."""
    from every_task import TASKS, make_model, save

    return save(make_model(tiny_bert, TASKS), tmp_path_factory.mktemp("saved") / "model")


@pytest.fixture(scope="session")
def exported(untrained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with ONNX graphs; tests must not change it."""
    from plait.export import export

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "_SAMPLE", 20)  # texts to check the graphs with
        return export.export_onnx(str(untrained), tmp_path_factory.mktemp("exported") / "model").folder


@pytest.fixture(scope="session")
def exported_int8(untrained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with 8-bit ONNX graphs; tests must not change it."""
    from plait.export import export

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "_SAMPLE", 20)
        return export.export_onnx(str(untrained), tmp_path_factory.mktemp("exported") / "model8", int8=True).folder


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of public research data; tests that use it are skipped if it is absent."""
    for folder in (os.environ.get("PLAIT_DATA"), REPO.parent / "shared" / "data"):
        if folder and (Path(folder) / "cs224n").is_dir():
            return Path(folder)
    pytest.skip("no real data: set PLAIT_DATA")


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The folder of the real MiniLM weights."""
    from plait.encoder.find import find_checkpoint
    from plait.errors import EncoderError

    try:
        return find_checkpoint("minilm").folder
    except EncoderError:
        pytest.skip("the weights of minilm are not installed")


def pytest_terminal_summary(terminalreporter) -> None:
    """List the skipped tests by reason at the end."""
    reasons: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = str(report.longrepr[2]).removeprefix("Skipped: ")
        reasons[reason] = reasons.get(reason, 0) + 1
    terminalreporter.write_line(f"skipped tests: {sum(reasons.values())}")
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"  {count} × {reason}")
