"""README.md beside the graphs: the inputs and outputs of each, and how to run it."""

from collections.abc import Sequence

import plait
from plait.export.check import Agreement
from plait.export.graph import OPSET
from plait.export.write import GraphFile
from plait.model.engines.onnx import ENCODER, IDS, MASK, SEGMENTS, WEIGHTS
from plait.model.model import Model
from plait.model.tasks import TaskSpec

__all__ = ["graph_page"]

_VIEW_TEXTS = {
    "text": "a text, or two texts in one input",
    "first": "the first text",
    "second": "the second text",
    "third": "the third text",
    "joined": "both texts in one input",
    "swapped": "both texts in one input, the second before the first",
}
_INPUT_TEXTS = {
    IDS: "token ids",
    MASK: "1 for a token, 0 for padding",
    SEGMENTS: "0 for the tokens of the first text, 1 for those of the second",
}
_ENCODING_FIELDS = {IDS: "ids", MASK: "attention_mask", SEGMENTS: "type_ids"}  # attributes of tokenizers.Encoding
_EXAMPLE_TEXTS = {
    "text": '"a text", "another text"',
    "first": '"a text", "another text"',
    "second": '"its second text", "the other\'s second"',
    "third": '"its third text", "the other\'s third"',
    "joined": '("a text", "its second text"), ("another text", "the other\'s second")',
    "swapped": '("its second text", "a text"), ("the other\'s second", "another text")',
}
_OPENING = """# {count} ONNX graphs of one model

Exported by plait {version}. The graphs share their {precision} weights, which are in `{weights}`, and use only the
standard operators of opset {opset}; ONNX Runtime runs them since 1.17. Keep the files in this folder together.

- Every input is an int64 table (texts, tokens) with one row per text, padded on the right with any id. Both sizes may
  change from call to call.
- `../tokenizer.json` turns texts into tokens and adds the special tokens. Truncate inputs to the length given for each
  output; if two texts share an input, the longer one is truncated first.
- `plait.load(directory, engine="onnx")` runs `{encoder}.onnx`.
"""
_INT8_NOTE = """
Weights and activations have 8 bits, so embeddings and predictions differ slightly from the model's own: on the texts of
the check below, the cosine between the two embeddings of a text is at least {least:.4f} and {mean:.4f} on average.
"""


def graph_page(model: Model, graphs: Sequence[GraphFile], agreements: Sequence[Agreement], precision: str) -> str:
    """Markdown for people who run the graphs without plait; its code runs unchanged in the folder."""
    opening = _OPENING.format(
        count=len(graphs),
        version=plait.__version__,
        precision=precision,
        weights=WEIGHTS,
        opset=OPSET,
        encoder=ENCODER,
    )
    embedding = next(one for one in agreements if one.mean_cosine is not None)
    if precision == "int8":
        opening += _INT8_NOTE.format(least=embedding.least_cosine, mean=embedding.mean_cosine)
    rows = [f"| `{one.graph}` | `{one.output}` | {one.largest:.1e} |" for one in agreements]
    check = (
        "## Check\n\nThe largest difference from the model in PyTorch on 200 texts, or on pairs or triplets of them:\n"
        "between unit vectors, between probabilities, or between scores as a share of their range.\n\n"
        "| graph | output | difference |\n|---|---|---|\n" + "\n".join(rows)
    )
    return "\n\n".join([opening.strip(), *(_graph_section(model, graph) for graph in graphs), check]) + "\n"


def _graph_section(model: Model, graph: GraphFile) -> str:
    views = {**_VIEW_TEXTS, "first": "the text"} if graph.reads == "single" else _VIEW_TEXTS
    inputs = [
        f"| `{name}` | {views[view]}: {_INPUT_TEXTS[what]} |"
        for view, names in graph.inputs.items()
        for what, name in names.items()
    ]
    outputs = [
        f"| `{name}` | {_task_text(model.tasks[task]) if task else _embedding_text(model, name)} |"
        for name, task in graph.outputs.items()
    ]
    return "\n".join(
        [
            f"## {graph.name}\n",
            "| input | |\n|---|---|",
            *inputs,
            "\n| output | |\n|---|---|",
            *outputs,
            f"\n```python\n{_example_code(model, graph)}\n```",
        ]
    )


def _embedding_text(model: Model, name: str) -> str:
    unit = ", unit vectors" if model.normalise and name == "embedding" else ""
    what = "as from `plait embed`" if name == "embedding" else "as the heads read it"
    return f"(texts, {model.encoder.config.width}){unit}, {what}; truncate texts to {model.limit()} tokens"


def _task_text(spec: TaskSpec) -> str:
    labels, names = spec.labels, ", ".join(spec.labels.names)
    if labels.about.is_score:
        what = f"(texts,), a score from {labels.low:g} to {labels.high:g}"
    elif labels.about.multilabel:
        applies = f"a label applies from {spec.threshold:g}"
        what = f"(texts, {len(labels.names)}), the probability of each of: {names}; {applies}"
    else:
        what = f"(texts, {len(labels.names)}), probabilities of: {names}"
    if labels.about.is_yes_no:
        what += f"; the prediction is {labels.names[1]} from {spec.threshold:g}"
    if spec.abstain_below is not None:
        what += f"; a prediction below {spec.abstain_below:g} is withheld"
    return f"{what}; truncate inputs to {spec.max_length} tokens"


def _example_code(model: Model, graph: GraphFile) -> str:
    """Python that runs a graph on two examples."""
    limits = [model.limit(task) for task in graph.outputs.values()]
    lines = [
        "import numpy",
        "import onnxruntime",
        "from tokenizers import Tokenizer",
        "",
        'tokenizer = Tokenizer.from_file("../tokenizer.json")',
        f"tokenizer.enable_truncation({min(limits)})",
        "tokenizer.enable_padding()",
    ]
    feed = []
    for view, names in graph.inputs.items():
        lines.append(f"{view} = tokenizer.encode_batch([{_EXAMPLE_TEXTS[view]}])")
        feed += [
            f'    "{name}": numpy.array([one.{_ENCODING_FIELDS[what]} for one in {view}]),'
            for what, name in names.items()
        ]
    lines += [f'session = onnxruntime.InferenceSession("{graph.name}")', "found = session.run(None, {", *feed, "})"]
    lines.append(f"for name, value in zip({list(graph.outputs)}, found):\n    print(name, value)")
    return "\n".join(lines)
