"""Fixtures that more than one test file uses."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

from tiny import make_checkpoint, write_tasks

REPO = Path(__file__).parent.parent


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Tests run side by side, so each keeps to one core."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random BERT of 2 layers in Hugging Face's layout, with a tokenizer trained on our own words."""
    return make_checkpoint(tmp_path_factory.mktemp("tiny") / "bert", "bert")


@pytest.fixture(scope="session")
def tiny_roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as a RoBERTa."""
    return make_checkpoint(tmp_path_factory.mktemp("tiny") / "roberta", "roberta")


@pytest.fixture
def tiny_recipe(tiny_bert: Path, tmp_path: Path) -> Callable[..., dict]:
    """A recipe of three small tasks on the tiny encoder, as a mapping; keyword arguments change its keys."""

    def make(**changes: object) -> dict:
        return {**write_tasks(tmp_path / "data", tiny_bert), **changes}

    return make


@pytest.fixture(scope="session")
def untrained(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model on the tiny encoder with a task of every head and every link, untrained; not to be changed."""
    from every_task import TASKS, make_model, save

    return save(make_model(tiny_bert, TASKS), tmp_path_factory.mktemp("saved") / "model")


@pytest.fixture(scope="session")
def exported(untrained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with ONNX graphs; not to be changed."""
    from plait.export import export

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "SAMPLE", 20)  # texts to check it with
        return export.export_onnx(str(untrained), tmp_path_factory.mktemp("exported") / "model").folder


@pytest.fixture(scope="session")
def exported_int8(untrained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with ONNX graphs of 8 bits; not to be changed."""
    from plait.export import export

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "SAMPLE", 20)
        return export.export_onnx(str(untrained), tmp_path_factory.mktemp("exported") / "model8", int8=True).folder


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of public research data; the tests that use it skip where it is absent."""
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
        return find_checkpoint("minilm")
    except EncoderError:
        pytest.skip("the weights of minilm are not installed")


def pytest_terminal_summary(terminalreporter) -> None:
    """End with the skipped tests by reason."""
    reasons: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = str(report.longrepr[2]).removeprefix("Skipped: ")
        reasons[reason] = reasons.get(reason, 0) + 1
    terminalreporter.write_line(f"skipped tests: {sum(reasons.values())}")
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"  {count} × {reason}")
