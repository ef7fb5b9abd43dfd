"""Threads share one loaded model: they get the same results as alone, and change neither the model nor torch."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

import plait
from every_task import save, spec_of
from plait.inference.predictor import Predictor
from plait.model.directory.load import build_model
from plait.model.encode_texts import Embedded, Predicted, embed_texts, predict_columns
from plait.model.ensemble_build import build_ensemble
from tiny import sentences

THREADS = 8
# Task → its max_length; together they read single texts, pairs encoded apart and joined, and triplets.
LIMITS = {"mood": 8, "tags": 20, "same": 12, "near": 40, "both at once": 24, "order": 16, "far": 10}
LONG = " ".join(sentences(20, seed=1))
COLUMNS = [[*sentences(12, seed=seed, longest=30), LONG, "dog " * 17, "?"] for seed in (2, 3, 4)]
Result = tuple[np.ndarray, np.ndarray | None, int, int]  # values, probabilities, inputs, truncated inputs


def make_directory(encoder: Path, folder: Path, seed: int, limits: dict[str, int]) -> Path:
    torch.manual_seed(seed)
    specs = {name: spec_of(name, limit) for name, limit in limits.items()}
    return save(build_model(encoder, specs, pooling="mean", normalise=True), folder)


@pytest.fixture(scope="module")
def sources(tiny_bert, tiny_roberta, tmp_path_factory) -> dict[str, Path]:
    """A model whose tasks have different limits, and an ensemble whose members have different limits and tokenizers."""
    folder = tmp_path_factory.mktemp("shared")
    first = make_directory(tiny_bert, folder / "model", 1, LIMITS)
    longer = {name: min(40, 2 * limit) for name, limit in LIMITS.items()}
    second = make_directory(tiny_roberta, folder / "other", 2, longer)
    build_ensemble([str(first), str(second)], folder / "ensemble")
    return {"model": first, "ensemble": folder / "ensemble"}


def calls_on(predictor: Predictor) -> list[Callable[[], Result]]:
    """Embed, and predict with every task."""

    def embed() -> Result:
        found: Embedded = predictor.embed_column(COLUMNS[0])
        return found.vectors_nD.numpy(), None, found.inputs, found.truncated

    def predict(task: str) -> Result:
        found: Predicted = predictor.predict_columns(task, COLUMNS[: len(predictor.tasks[task].text)])
        return found.predictions.values, found.predictions.probabilities, found.inputs, found.truncated

    return [embed, *(lambda task=task: predict(task) for task in LIMITS)]


def assert_equal(found: Result, expected: Result) -> None:
    for ours, alone in zip(found[:2], expected[:2], strict=True):
        assert (ours is None) == (alone is None)
        if ours is not None:
            np.testing.assert_allclose(ours, alone, rtol=0, atol=1e-6)  # float32
    assert found[2:] == expected[2:]


def assert_unchanged(predictor: Predictor, torch_threads: int) -> None:
    assert torch.get_num_threads() == torch_threads
    assert not any(module.training for member in predictor._model.members for module in member.modules())


@pytest.fixture(params=[1, 2], ids=["one torch thread", "two torch threads"])
def torch_threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("kind", ["model", "ensemble"])
def test_threads_with_different_limits_get_the_same_results_as_alone(sources, kind, torch_threads):
    expected = [call() for call in calls_on(plait.load(sources[kind], device="cpu"))]
    predictor = plait.load(sources[kind], device="cpu")  # nothing is cached in it yet
    calls = calls_on(predictor)
    start = threading.Barrier(THREADS + 1)

    def work(number: int) -> list[tuple[int, Result]]:
        """Every call twice, in an order of the thread's own."""
        start.wait()
        order = np.random.default_rng(number).permutation([*range(len(calls))] * 2)
        results = []
        for place in order.tolist():
            results.append((place, calls[place]()))
            assert_unchanged(predictor, torch_threads)
        return results

    with ThreadPoolExecutor(THREADS) as pool:
        futures = [pool.submit(work, number) for number in range(THREADS)]
        start.wait()
        while not all(future.done() for future in futures):
            assert_unchanged(predictor, torch_threads)
            threading.Event().wait(0.005)
    for future in futures:
        for place, result in future.result():
            assert_equal(result, expected[place])
    assert_unchanged(predictor, torch_threads)


def test_counts_of_truncated_inputs_follow_the_limit_of_each_task(sources):
    """LONG and 17 dogs exceed the smaller limits; how many of the others do follows from their words."""
    predictor = plait.load(sources["model"], device="cpu")
    words = [[len(text.split()) for text in column] for column in COLUMNS]  # every word is one token
    embedded = predictor.embed_column(COLUMNS[0])
    assert (embedded.inputs, embedded.truncated) == (15, sum(count + 2 > 40 for count in words[0])) == (15, 1)
    for task, limit in LIMITS.items():
        reads, columns = predictor.tasks[task].head_class.reads, words[: len(predictor.tasks[task].text)]
        if reads.startswith("joined"):
            lengths = [a + b + 3 for a, b in zip(*columns, strict=True)] * (2 if reads == "joined_both" else 1)
        else:
            lengths = [count + 2 for column in columns for count in column]
        predicted = predictor.predict_columns(task, COLUMNS[: len(columns)])
        assert (predicted.inputs, predicted.truncated) == (len(lengths), sum(length > limit for length in lengths))


@pytest.mark.parametrize("kind", ["model", "ensemble"])
def test_inference_refuses_a_model_in_training_mode(sources, kind):
    model = plait.load(sources[kind], device="cpu")._model
    last = model.members[-1].train()
    for apply in (lambda: embed_texts(model, COLUMNS[0]), lambda: predict_columns(model, "mood", COLUMNS[:1])):
        with pytest.raises(AssertionError, match=r"call model\.eval\(\) first"):
            apply()
    assert last.training
