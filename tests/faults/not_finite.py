"""NaN and infinity in data, loss, gradient, weights and answers: the run stops before the update, and nothing of it
is saved or answered."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from faults.bench import Bench, same_files, tree
from faults.processes import plait

__all__ = ["CASES", "check"]

ROW, STEP = "not_finite", 3  # the step that meets the number


def _train(bench: Bench, place: Path, *more: str) -> list[object]:
    recipe = bench.recipe_file(
        "not_finite", checkpoint_every=1, evaluate_every=2, schedule="round_robin", batch_size=12
    )
    return ["train", recipe, "--out", place / "run", "--no-report", "--no-baselines", "--threads", "1", *more]


def spoil_loss(value: float) -> None:
    """The loss of one step is not finite, and neither are its gradients."""
    from plait.training import step

    real, calls = step.backward, iter(range(1000))

    def spoiled(*arguments: Any) -> Any:
        losses = real(*arguments)
        return [loss * value for loss in losses] if next(calls) == STEP else losses

    step.backward = spoiled  # type: ignore[assignment]


def spoil_gradient(value: float) -> None:
    """One number of one gradient of one step is not finite."""
    from plait.training import step

    real, calls = step.backward, iter(range(1000))

    def spoiled(model: Any, *arguments: Any) -> Any:
        losses = real(model, *arguments)
        if next(calls) == STEP:
            gradient = next(weight.grad for weight in model.parameters() if weight.grad is not None)
            gradient.view(-1)[0] = value
        return losses

    step.backward = spoiled  # type: ignore[assignment]


def spoil_update(value: float) -> None:
    """The optimizer writes a number that is not finite into one weight."""
    import torch

    from plait.training.trainer import Trainer

    real = Trainer.step

    def spoiled(self: Trainer, number: int, planned: Any) -> dict[str, float]:
        if number != STEP:
            return real(self, number, planned)
        update = self.optimizer.step

        def broken(*arguments: Any) -> Any:
            found = update(*arguments)
            with torch.no_grad():
                next(iter(self.model.parameters())).view(-1)[-1] = value
            return found

        self.optimizer.step = broken  # type: ignore[method-assign]
        return real(self, number, planned)

    Trainer.step = spoiled  # type: ignore[method-assign]


def _stopped(change: Callable[[], None], bench: Bench, place: Path) -> str:
    """The run stops, says so, keeps only finite numbers, and ends as ever once the cause is gone."""

    def make(made: Path) -> None:
        made.mkdir()
        ended = bench.start(made, plait, *_train(bench, made)).end()
        assert ended.code == 0, ended.log

    expected = bench.once(ROW, make)
    ended = bench.start(place, partial(plait, change=change), *_train(bench, place)).end()
    if ended.code != 1 or not ended.is_clean or not {"nan", "inf", "finite"} & set(_words(ended.log)):
        return f"ended with {ended.code}: {ended.log[-400:]}"
    if problem := _not_finite(place / "run"):
        return problem
    ended = bench.start(place, plait, "train", "--resume", place / "run", "--no-report").end()
    return f"resuming ended: {ended.log[-300:]}" if ended.code else same_files(expected, place)


def _words(text: str) -> list[str]:
    return text.replace(",", " ").replace(";", " ").replace("-", " ").lower().split()


def _not_finite(folder: Path) -> str:
    """The first file below a folder with a number that is not finite."""
    from safetensors.torch import load_file

    for name in tree(folder):
        path = folder / name
        if path.suffix == ".safetensors":
            if not all(tensor.isfinite().all() for tensor in load_file(path).values() if tensor.is_floating_point()):
                return f"{name} has numbers that are not finite"
        elif path.suffix in (".json", ".jsonl"):
            for line in [path.read_text()] if path.suffix == ".json" else path.read_text().splitlines():
                if any(word in json.dumps(json.loads(line)) for word in ("NaN", "Infinity")):
                    return f"{name} has numbers that are not finite"
    return ""


def large_lr(bench: Bench, place: Path) -> str:
    """A learning rate that is a million times too large: an error, and no model with such numbers."""
    ended = bench.start(place, plait, *_train(bench, place, "--set", "lr=1e6")).end()
    if ended.code not in (0, 1) or not ended.is_clean or (ended.code == 0 and "nan" in _words(ended.log)):
        return f"ended with {ended.code}: {ended.log[-400:]}"
    return _not_finite(place / "run") if (place / "run").exists() else ""


def spoiled_weights(value: float, tensor: str, bench: Bench, place: Path) -> str:
    """A model with one such weight, its manifest right: loading or answering is refused."""
    from safetensors.torch import load_file, save_file

    from faults.model_directories import sign

    model = bench.copy(bench.model, ROW, 999)
    path = model / ("heads.safetensors" if tensor.startswith("heads") else "model.safetensors")
    tensors = load_file(path)
    name = next(name for name in tensors if tensor in name)
    tensors[name].view(-1)[-1] = value
    save_file(tensors, path)
    sign(model)
    for arguments in (
        ["predict", model, "mood", "a dog"],
        ["embed", model, "--input", bench.rows, "--output", place / "a.npy"],
    ):
        ended = bench.start(place, plait, *arguments).end()
        if {"nan", "inf"} & set(_words(ended.log)) and ended.code == 0:
            return f"{arguments[0]} answers {ended.log[-200:]}"
        if not ended.is_clean:
            return f"{arguments[0]}: {ended.log[-300:]}"
    if (place / "a.npy").exists():
        import numpy as np

        if not np.isfinite(np.load(place / "a.npy")).all():
            return "embed writes numbers that are not finite"
    return ""


NAN, INF = float("nan"), float("inf")
CASES: tuple[partial[str], ...] = (
    partial(_stopped, partial(spoil_loss, NAN)),
    partial(_stopped, partial(spoil_gradient, INF)),
    partial(_stopped, partial(spoil_update, NAN)),
    partial(large_lr),
    partial(spoiled_weights, NAN, "heads.mood"),
    *(partial(_stopped, partial(spoil, value)) for spoil in (spoil_loss, spoil_gradient) for value in (INF, -INF, NAN)),
    partial(_stopped, partial(spoil_update, INF)),
    *(
        partial(spoiled_weights, value, tensor)
        for value in (NAN, INF)
        for tensor in ("heads.mood", "word_embeddings", "LayerNorm.weight", "position_embeddings", "query.bias")
    ),
)


def check(bench: Bench, number: int) -> str:
    case = CASES[number]
    problem = case(bench, bench.place(ROW, number))
    return problem and f"{case.func.__name__} {[getattr(part, 'func', part) for part in case.args]}: {problem}"
