"""Heads that start from the best solution on the encoder as it is, instead of random weights.

The layer that produces a head's outputs is solved exactly: its inputs are computed once for the training rows, without
dropout, and L-BFGS minimizes the task's loss plus a penalty on the weights. Cross-validation on the training rows
chooses the penalty. Layers before it stay as they were drawn.

n rows, F inputs of the layer, C outputs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from plait.data.partition import k_folds
from plait.data.tokenize import TokenTable
from plait.heads import Head
from plait.model.encode_texts import embed_tables
from plait.model.model import Model
from plait.progress import Progress
from plait.resolve.task import ResolvedTask
from plait.thread_pool import run_lanes
from plait.training.objective import Objective, Pass

__all__ = [
    "MOST_ROWS",
    "SolvedHeads",
    "as_double",
    "inputs_of",
    "loss_of",
    "output_layer",
    "solve_layer",
    "start_heads",
]

SolvedHeads = dict[str, tuple[Tensor, Tensor]]  # task → weights (C, F) and biases (C,) of the layer of its outputs

_Loss = Callable[[Tensor, Tensor], Tensor]  # outputs (n, C) and labels → one number

MOST_ROWS = 5_000  # of a task that the solution is based on, evenly spread
PENALTIES = tuple(10.0 ** (power / 2) for power in range(2, -9, -1))  # on squared weights, strongest first
FOLDS = 5
_ITERATIONS = 200


def start_heads(
    model: Model,
    objectives: Mapping[str, Objective],
    tokens: Mapping[str, Mapping[str, TokenTable]],
    tasks: Mapping[str, ResolvedTask],
    seed: str,
    solved: SolvedHeads,
    progress: Progress,
) -> None:
    """Solve the heads of these tasks for their training rows; heads without a layer for it stay as they are.

    What is in `solved` is taken from there, what is not is added.
    """
    layers = {name: layer for name in tasks if objectives[name].predicts and (layer := output_layer(model, name))}
    unsolved = {name: layer for name, layer in layers.items() if name not in solved}
    if unsolved:
        progress.begin("starting heads from the frozen encoder", len(unsolved))
    model.eval()
    for name, layer in unsolved.items():
        train = tasks[name].splits["train"]
        rows = np.linspace(0, len(train) - 1, min(MOST_ROWS, len(train))).astype(int).tolist()
        chosen = train.chosen(rows)
        own = {view: tokens[name][view].chosen(rows) for view in model.tasks[name].views}
        inputs_nF = inputs_of(layer, model, name, embed_tables(model, own))
        strata = tasks[name].spec.labels.about.strata(chosen.labels)
        folds = k_folds(chosen.texts, strata, min(FOLDS, len(rows)), f"{seed}/{name}").parts
        label_n, loss = as_double(chosen.labels), loss_of(objectives[name])
        solved[name] = solve_layer(
            layer.out_features, inputs_nF, label_n, loss, folds, free=tasks[name].spec.head_class.unpenalised
        )
        progress.advance()
    if unsolved:
        progress.end()
    with torch.no_grad():
        for name, layer in layers.items():
            weight_CF, bias_C = solved[name]
            layer.weight.copy_(weight_CF)
            layer.bias.copy_(bias_C)


def as_double(labels_n: np.ndarray) -> Tensor:
    """Labels as a tensor: scores in the precision of the solver, classes as they are."""
    found = torch.from_numpy(labels_n)
    return found.double() if found.is_floating_point() else found


def output_layer(model: Model, task: str) -> nn.Linear | None:
    """The linear layer that produces the outputs of a task's head, if it has one that is trained."""
    head = model.head(task)
    if not isinstance(head, Head) or head.output_layer is None:
        return None
    layer = head.get_submodule(head.output_layer)
    return layer if isinstance(layer, nn.Linear) and layer.weight.requires_grad else None


def inputs_of(layer: nn.Linear, model: Model, task: str, views: Mapping[str, Tensor]) -> Tensor:
    """What the layer receives (n, F) for the embeddings of all views."""
    received: list[Tensor] = []
    hook = layer.register_forward_pre_hook(lambda module, given: received.append(given[0]))
    try:
        with torch.inference_mode():
            model.outputs(task, [views[view].to(model.device) for view in model.tasks[task].views])
    finally:
        hook.remove()
    return received[0].double().cpu()


def loss_of(objective: Objective) -> _Loss:
    """The losses of a task that follow from its outputs and labels, whatever its weight beside other tasks."""

    weights_C = objective.class_weights_C
    exact = replace(
        objective,
        parts=tuple(part for part in objective.parts if part.loss.takes == "predictions"),
        weight=1.0,
        class_weights_C=None if weights_C is None else weights_C.double(),
    )

    def compute(outputs_nC: Tensor, label_n: Tensor) -> Tensor:
        return exact(Pass(outputs_nC), label_n)

    return compute


def solve_layer(
    outputs: int, inputs_nF: Tensor, label_n: Tensor, loss: _Loss, folds: Sequence[Sequence[int]], free: int = 0
) -> tuple[Tensor, Tensor]:
    """Weights (C, F) and biases (C,) that minimize the loss plus the penalty that cross-validation chooses.

    The weights of the first `free` inputs are not penalised.
    """
    mean_F, spread = inputs_nF.mean(dim=0), inputs_nF.std(correction=0).clamp(min=1e-9)
    standard_nF = (inputs_nF - mean_F) / spread
    problem = _Problem(loss, outputs, free)
    penalty = _choose_penalty(problem, standard_nF, label_n, folds)
    solutions = run_lanes(lambda _: _minimize(problem, standard_nF, label_n, penalty), 1, torch.get_num_threads())
    weight_CF, bias_C = solutions[0]
    return weight_CF / spread, bias_C - weight_CF @ mean_F / spread


@dataclass(frozen=True)
class _Problem:
    """What is minimized."""

    loss: _Loss
    outputs: int  # C
    free: int  # first inputs without a penalty


def _choose_penalty(problem: _Problem, inputs_nF: Tensor, label_n: Tensor, folds: Sequence[Sequence[int]]) -> float:
    """The penalty with the lowest mean loss on the rows that a solution did not see; folds are solved side by side."""

    def losses_of(fold: int) -> np.ndarray:
        held_out = folds[fold]
        seen_n = torch.ones(len(inputs_nF), dtype=torch.bool)
        seen_n[list(held_out)] = False
        start, losses = None, []
        for penalty in PENALTIES:
            start = _minimize(problem, inputs_nF[seen_n], label_n[seen_n], penalty, start)
            weight_CF, bias_C = start
            found = problem.loss(inputs_nF[~seen_n] @ weight_CF.T + bias_C, label_n[~seen_n])
            losses.append(found.item() * len(held_out))
        return np.array(losses)

    totals = sum(run_lanes(losses_of, len(folds), torch.get_num_threads()), np.zeros(len(PENALTIES)))
    return float(PENALTIES[int(totals.argmin())])


def _minimize(
    problem: _Problem,
    inputs_nF: Tensor,
    label_n: Tensor,
    penalty: float,
    start: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Weights (C, F) and biases (C,) of the lowest loss plus the penalty times the sum of squared weights."""
    width = inputs_nF.shape[1]
    weight_CF = start[0].clone() if start else inputs_nF.new_zeros(problem.outputs, width)
    bias_C = start[1].clone() if start else inputs_nF.new_zeros(problem.outputs)
    parameters = [weight_CF.requires_grad_(), bias_C.requires_grad_()]
    optimizer = torch.optim.LBFGS(
        parameters, max_iter=_ITERATIONS, tolerance_grad=1e-6, tolerance_change=1e-9, line_search_fn="strong_wolfe"
    )

    def measure() -> Tensor:
        optimizer.zero_grad()
        value = problem.loss(inputs_nF @ weight_CF.T + bias_C, label_n)
        value = value + penalty * weight_CF[:, problem.free :].square().sum()
        value.backward()
        return value

    optimizer.step(measure)
    return weight_CF.detach(), bias_C.detach()
