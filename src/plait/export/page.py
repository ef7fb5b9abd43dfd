"""The page beside the graphs: what each takes and gives, and how to run it."""

from collections.abc import Sequence

import plait
from plait.export.check import Agreement
from plait.export.graph import OPSET
from plait.export.write import WEIGHTS, GraphFile
from plait.model.model import Model
from plait.model.onnx_engine import ENCODER, IDS, MASK, SEGMENTS
from plait.model.tasks import TaskSpec

__all__ = ["graph_page"]

VIEWS = {
    "text": "a text, or two texts in one input",
    "first": "the first text",
    "second": "the second text",
    "third": "the third text",
    "joined": "both texts in one input",
    "swapped": "both texts in one input, the second before the first",
}
MEANINGS = {IDS: "token ids", MASK: "1 for a token, 0 for padding", SEGMENTS: "0 for what comes first, 1 for the rest"}
FIELDS = {IDS: "ids", MASK: "attention_mask", SEGMENTS: "type_ids"}  # as the tokenizers library has them
EXAMPLES = {
    "text": '"a text", "another text"',
    "first": '"a text", "another text"',
    "second": '"its second text", "the other\'s second"',
    "third": '"its third text", "the other\'s third"',
    "joined": '("a text", "its second text"), ("another text", "the other\'s second")',
    "swapped": '("its second text", "a text"), ("the other\'s second", "another text")',
}
OPENING = """# {count} ONNX graphs of one model

Made by plait {version}. They have {precision} weights, which all of them take from `{weights}`, and use no operations
but those of ONNX's own opset {opset}. Keep the files of this folder together. ONNX Runtime runs them from 1.17 on.

- Every input is a table of int64, (texts, tokens): one row a text, padded on the right with any id. Both sizes may be
  others in every call.
- `../tokenizer.json` turns texts into tokens, special tokens included. Cut them as each output says; of two texts in
  one input, the longer one is cut first.
- `{encoder}.onnx` is what `plait.load(directory, engine="onnx")` runs.
"""
INT8 = """
Weights and what is multiplied with them have 8 bits, so embeddings and answers differ a little from the model's own: on
the texts of the check below, embeddings have a cosine of at least {least:.4f} with it, {mean:.4f} on average.
"""


def graph_page(model: Model, graphs: Sequence[GraphFile], agreements: Sequence[Agreement], precision: str) -> str:
    """Markdown for people who run the graphs without plait; its code runs in the folder as it stands."""
    opening = OPENING.format(
        count=len(graphs),
        version=plait.__version__,
        precision=precision,
        weights=WEIGHTS,
        opset=OPSET,
        encoder=ENCODER,
    )
    embedding = next(one for one in agreements if one.mean_cosine is not None)
    if precision == "int8":
        opening += INT8.format(least=embedding.least_cosine, mean=embedding.mean_cosine)
    rows = [f"| `{one.graph}` | `{one.output}` | {one.largest:.1e} |" for one in agreements]
    check = (
        "## Check\n\nThe largest difference from the model in PyTorch on 200 texts, or on pairs or triplets of them:\n"
        "of unit vectors, of probabilities, and of scores as a share of their range.\n\n"
        "| graph | output | difference |\n|---|---|---|\n" + "\n".join(rows)
    )
    return "\n\n".join([opening.strip(), *(section(model, graph) for graph in graphs), check]) + "\n"


def section(model: Model, graph: GraphFile) -> str:
    """One graph."""
    places = {**VIEWS, "first": "the text"} if graph.reads == "single" else VIEWS
    inputs = [
        f"| `{name}` | {places[view]}: {MEANINGS[what]} |"
        for view, names in graph.inputs.items()
        for what, name in names.items()
    ]
    outputs = [
        f"| `{name}` | {described(model.tasks[task]) if task else embedded(model, name)} |"
        for name, task in graph.outputs.items()
    ]
    return "\n".join(
        [
            f"## {graph.name}\n",
            "| input | |\n|---|---|",
            *inputs,
            "\n| output | |\n|---|---|",
            *outputs,
            f"\n```python\n{example(model, graph)}\n```",
        ]
    )


def embedded(model: Model, name: str) -> str:
    """What an embedding is."""
    unit = ", unit vectors" if model.normalise and name == "embedding" else ""
    what = "as `plait embed` gives it" if name == "embedding" else "as the heads read it"
    return f"(texts, {model.encoder.config.width}){unit}, {what}; cut texts at {model.text.limit} tokens"


def described(spec: TaskSpec) -> str:
    """What the answer of a task is."""
    labels, names = spec.labels, ", ".join(spec.labels.names)
    if labels.kind == "score":
        what = f"(texts,), a score from {labels.low:g} to {labels.high:g}"
    elif labels.kind == "several":
        what = (
            f"(texts, {len(labels.names)}), the probability of each of: {names}; one holds from {spec.threshold:g} on"
        )
    else:
        what = f"(texts, {len(labels.names)}), probabilities of: {names}"
    if labels.kind == "yes_no":
        what += f"; it is {labels.names[1]} from {spec.threshold:g} on"
    return f"{what}; cut inputs at {spec.max_length} tokens"


def example(model: Model, graph: GraphFile) -> str:
    """Code that runs a graph on two examples."""
    limits = [model.tasks[task].max_length if task else model.text.limit for task in graph.outputs.values()]
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
        lines.append(f"{view} = tokenizer.encode_batch([{EXAMPLES[view]}])")
        feed += [f'    "{name}": numpy.array([one.{FIELDS[what]} for one in {view}]),' for what, name in names.items()]
    lines += [f'session = onnxruntime.InferenceSession("{graph.name}")', "found = session.run(None, {", *feed, "})"]
    lines.append(f"for name, value in zip({list(graph.outputs)}, found):\n    print(name, value)")
    return "\n".join(lines)
