"""Untrained models with a task of every head and every link."""

from pathlib import Path

import torch

from plait.data.labels import Labels
from plait.heads import HEADS
from plait.model.directory.load import build_model
from plait.model.directory.record import Provenance
from plait.model.directory.save import save_model
from plait.model.model import Model
from plait.model.tasks import TaskSpec

CLASSES = Labels("classes", ("a", "b", "c"), ("bad", "fair", "good"))
YES_NO = Labels("yes_no", ("0", "1"), ("no", "yes"))
MULTILABEL = Labels("multilabel", ("x", "y"), ("x", "y"))
SCORE = Labels("score", low=1.0, high=5.0)
TRIPLETS = Labels("triplets", ("third", "second"), ("third", "second"))
ONE, TWO, THREE = ("sentence",), ("one", "two"), ("a", "b", "c")
# Task → its texts, labels, head with options, and link.
TASKS = {
    "mood": (ONE, CLASSES, "linear", {}, "softmax"),
    "best": (ONE, CLASSES, "linear", {}, "one_vs_rest"),
    "tags": (ONE, MULTILABEL, "linear", {}, "each"),
    "attention_mask": (ONE, SCORE, "linear", {}, "scaled_sigmoid"),  # the name of an input
    "unit": (ONE, CLASSES, "unit_linear", {}, "softmax"),
    "alike": (TWO, SCORE, "comparison", {}, "identity"),
    "same": (TWO, YES_NO, "difference_product", {"hidden": 7}, "sigmoid"),
    "kind": (TWO, CLASSES, "concat", {}, "softmax"),
    "gap": (TWO, SCORE, "difference", {}, "identity"),
    "distance": (TWO, YES_NO, "difference", {"absolute": True}, "sigmoid"),
    "near": (TWO, SCORE, "cosine", {}, "identity"),
    "dot": (TWO, YES_NO, "dot", {"rank": 4}, "sigmoid"),
    "ray": (TWO, SCORE, "dot", {"rank": 4, "normalise": True, "activation": "relu"}, "identity"),
    "both at once": (TWO, YES_NO, "joined", {}, "sigmoid"),
    "either order": (TWO, YES_NO, "joined_mean", {}, "sigmoid"),
    "apart and joined": (TWO, SCORE, "joined_comparison", {}, "identity"),
    "order": (TWO, CLASSES, "joined_both", {}, "softmax"),
    "turn": (TWO, SCORE, "joined_difference", {"activation": "tanh"}, "scaled_sigmoid"),
    "plain": (TWO, CLASSES, "joined_difference", {}, "one_vs_rest"),
    "far": (THREE, TRIPLETS, "nearer", {}, "sigmoid"),
}
SHARED = tuple(
    name
    for name, (*_, head, _, _) in TASKS.items()
    if head not in ("comparison", "joined_comparison", "cosine", "dot", "nearer")
)
FEW = ("mood", "same", "turn", "far")


def spec_of(name: str, limit: int) -> TaskSpec:
    text, labels, head, options, link = TASKS[name]
    return TaskSpec(
        name=name,
        text=text,
        label=("label",),
        quoting=None,
        labels=labels,
        head=HEADS.versioned(head),
        head_options=options,
        link=link,
        metric="accuracy",
        threshold=0.5,
        max_length=limit,
    )


def make_model(encoder: Path, tasks=FEW, *, pooling="mean", normalise=True, shared_layer=None) -> Model:
    """Heads with random weights on a checkpoint; the first task truncates its texts earlier than the others."""
    torch.manual_seed(1)
    specs = {name: spec_of(name, 40 if number else 20) for number, name in enumerate(tasks)}
    model = build_model(encoder, specs, pooling=pooling, normalise=normalise, shared_layer=shared_layer)
    if model.encoder.token_scores is not None:  # which would be 0 before training
        torch.nn.init.normal_(model.encoder.token_scores)
    return model.eval()


def save(model: Model, folder: Path, shared_layer=None) -> Path:
    save_model(model, folder, Provenance(recipe={"shared_layer": shared_layer}))
    return folder
