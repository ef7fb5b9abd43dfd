"""Work that a run does once: dev is tokenized once, the encoder's files are hashed once."""

import shutil
from collections import Counter
from pathlib import Path

import pytest

import plait
from plait import files
from plait.data.tokenize import TextTokenizer
from plait.encoder import find
from plait.model import encode_texts
from plait.model.directory import record
from plait.resolve import run as resolve_run_module
from plait.training.train import Stopped, resume
from small_runs import metrics_lines, stop_after


@pytest.fixture
def tokenized(monkeypatch) -> Counter:
    """How often each text was tokenized, alone or in a pair."""
    counts: Counter = Counter()
    tokenize = TextTokenizer.tokenize

    def counted(self, texts, limit, second=None):
        counts.update(texts)
        return tokenize(self, texts, limit, second)

    monkeypatch.setattr(TextTokenizer, "tokenize", counted)
    return counts


@pytest.fixture
def hashed(monkeypatch) -> Counter:
    """How often each file was hashed."""
    counts: Counter = Counter()
    real = files.sha256_of

    def sha256_of(path: Path) -> str:
        counts[Path(path).resolve()] += 1
        return real(path)

    for module in (files, find, record, resolve_run_module):
        monkeypatch.setattr(module, "sha256_of", sha256_of)
    return counts


TEXT = "a quick storm heard the child almost never"  # occurs in dev of the task `mood` and nowhere else


@pytest.fixture
def recipe(tiny_recipe) -> dict:
    found = tiny_recipe(epochs=4, evaluate_every=2)
    for name, task in found["tasks"].items():
        for split in ("train", "dev"):
            path = Path(task[split])
            assert TEXT not in path.read_text()
            if (name, split) == ("mood", "dev"):
                path.write_text(f"{path.read_text()}{TEXT},high\n")
    return found


def evaluations(run: Path) -> int:
    return len([line for line in metrics_lines(run) if line["kind"] == "scores"])


def test_dev_is_tokenized_once_per_run(recipe, tmp_path, tokenized):
    run = plait.train(recipe, tmp_path / "run", baselines=False).run
    assert evaluations(run) == 8 and tokenized[TEXT] == 1


def test_dev_is_tokenized_once_in_each_stage_that_trains_or_keeps_its_task(recipe, tmp_path, tokenized):
    stages = [{"tasks": ["mood"]}, {"tasks": ["near", "same"]}]
    run = plait.train({**recipe, "stages": stages}, tmp_path / "run", baselines=False).run
    assert evaluations(run) == 16 and tokenized[TEXT] == 2


def test_the_training_sample_is_tokenized_once_per_run(tiny_recipe, tmp_path, monkeypatch):
    calls = []
    real = TextTokenizer.tokenize
    monkeypatch.setattr(TextTokenizer, "tokenize", lambda *given: calls.append(len(given[1])) or real(*given))
    recipe = tiny_recipe(epochs=5)
    recipe["tasks"] = {"mood": recipe["tasks"]["mood"]}
    plait.train(recipe, tmp_path / "run", baselines=False)
    assert calls == [24, 24, 24]  # training, dev, and the sample of train that evaluations score


@pytest.mark.parametrize("baselines", [False, True])
def test_the_encoder_is_hashed_once_per_run(tiny_recipe, tiny_bert, tmp_path, hashed, baselines):
    plait.train(tiny_recipe(), tmp_path / "run", baselines=baselines)
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        assert hashed[(tiny_bert / name).resolve()] == 1, name


def test_the_encoder_is_hashed_once_for_all_stages(tiny_recipe, tiny_bert, tmp_path, hashed):
    plait.train(tiny_recipe(epochs=1, stages=[{}, {}, {}]), tmp_path / "run", baselines=False)
    assert hashed[(tiny_bert / "model.safetensors").resolve()] == 1


def test_the_encoder_is_hashed_once_when_a_run_resumes(tiny_recipe, tiny_bert, tmp_path, hashed):
    with pytest.raises(Stopped):
        plait.train(tiny_recipe(), tmp_path / "run", baselines=False, stop=stop_after(2))
    hashed.clear()
    resume(tmp_path / "run")
    assert hashed[(tiny_bert / "model.safetensors").resolve()] == 1


def test_a_start_model_is_hashed_once(tiny_recipe, tmp_path, hashed):
    first = plait.train(tiny_recipe(epochs=1), tmp_path / "first", baselines=False)
    model = shutil.copytree(first.model, tmp_path / "model")
    hashed.clear()
    plait.train(tiny_recipe(encoder=str(model), stages=[{}, {}], epochs=1), tmp_path / "second", baselines=False)
    for path in (path for path in model.rglob("*") if hashed[path.resolve()]):
        assert hashed[path.resolve()] == 1, path
    assert hashed[(model / "model.safetensors").resolve()] == 1


def test_the_bundled_encoder_is_verified_and_recorded_with_one_hash(minilm, hashed):
    checkpoint = find.find_checkpoint("minilm")
    assert checkpoint.digests()["model.safetensors"] == find._MINILM_SHA256
    checkpoint.digests()
    assert hashed[(minilm / "model.safetensors").resolve()] == 1


def test_checkpoints_of_a_run_are_not_hashed(tiny_recipe, tmp_path, hashed):
    plait.train(tiny_recipe(checkpoint_every=1), tmp_path / "run", baselines=False)
    assert not [path for path in hashed if "checkpoints" in path.parts]


def test_data_files_are_hashed_once_per_run(tiny_recipe, tmp_path, hashed):
    plait.train(tiny_recipe(), tmp_path / "run", baselines=False)
    assert {path.name: count for path, count in hashed.items() if path.suffix == ".csv"} == {
        f"{name}-{split}.csv": 1 for name in ("mood", "same", "near") for split in ("train", "dev")
    }


def test_a_frozen_encoder_encodes_dev_once(recipe, tmp_path, monkeypatch):
    calls = []
    real = encode_texts.embed_inputs

    def embed_inputs(model, ids, firsts, advance):
        calls.append(len(ids))
        return real(model, ids, firsts, advance)

    monkeypatch.setattr(encode_texts, "embed_inputs", embed_inputs)
    frozen = plait.train({**recipe, "train_encoder": False}, tmp_path / "frozen", baselines=False)
    assert evaluations(frozen.run) == 8 and len(calls) == 3 * 3  # of each task: train, dev, a sample of train
    calls.clear()
    plait.train(recipe, tmp_path / "trained", baselines=False)
    assert len(calls) == 8 * 3 * 2
