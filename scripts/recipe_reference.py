"""Write docs/recipe.md: the prose of docs/recipe.head.md, then every key and every variant as the code has them.

python scripts/recipe_reference.py
"""

import inspect
import re
import textwrap
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo

from plait.data.batch import VIEWS
from plait.encoder.config import SUPPORTED
from plait.evaluation import metrics
from plait.heads import HEADS
from plait.losses import LOSSES
from plait.model.card import KINDS
from plait.recipe import forms, schema
from plait.recipe.options import options_of
from plait.training.tables import TABLES
from plait.training.task_data import DEFAULT_HEADS, DEFAULT_LOSSES

__all__ = ["reference"]

DOCS = Path(__file__).parent.parent / "docs"
NOTICE = "<!-- Written by `make docs` from docs/recipe.head.md, the schema and the tables. Change those, not this. -->"

Choices = Mapping[str, Callable[..., object]]

# What a recipe may write where the schema first brings it into a common form.
SPELLED: Mapping[Callable[..., object], Sequence[str]] = {
    forms.as_tuple: ["a column", "a list of columns"],
    forms.as_range: ["two numbers `[low, high]`"],
    forms.as_label: ["a column", "a list of columns", "the keys of a [label](#the-keys-of-a-label)"],
    forms.as_sources: ["a file", "a list of files", "the keys of a [source](#the-keys-of-a-source)"],
    forms.as_share: ["a share between 0 and 1"],
    forms.as_where: ["a mapping of columns to values"],
    forms.as_losses: ["a name", "a mapping with options", "a list of these"],
    forms.as_words: ["a list of classes", "a mapping of classes to names"],
    forms.as_word: ["a value"],
    forms.as_fold: ["NUMBER/OF"],
    forms.as_interval: ["`epoch`", "a whole number above 0"],
    forms.as_class_weights: ["`balanced`", "a mapping of classes to numbers above 0"],
}
PLAIN: Mapping[object, Sequence[str]] = {
    bool: ["true", "false"],
    int: ["a whole number"],
    float: ["a number"],
    str: ["a name"],
    type(None): ["null"],
    schema.Choice: ["a name", "a mapping with options"],
    schema.Task: ["the keys of a [task](#the-keys-of-a-task)"],
    tuple[schema.Stage, ...]: ["a list of [stages](#stages)"],
}
BOUNDS: Mapping[type, str] = {Gt: "above {gt:g}", Ge: "of at least {ge:g}", Lt: "below {lt:g}", Le: "at most {le:g}"}
# Keys whose type says less than their name.
OWN_WORDS = {"separator": "characters", "file": "a file or a `hub:` name", "encoder": "a name or a directory"}
SEE = {
    "pooling": "Poolings",
    "shared_layer": "Shared layers",
    "schedule": "Schedules",
    "optimizer": "Optimizers",
    "lr_schedule": "Learning rates",
    "head": "Heads",
    "loss": "Losses",
    "metric": "Metrics",
}
TAKES = {
    "predictions": "predictions",
    "all": "embeddings",
    "positives": "embeddings of positives",
    "same": "embeddings, and which pairs are positives",
    "label": "embeddings and labels",
    "tokens": "states of tokens, and labels",
}
VIEW_WORDS = {
    "first": "the first text alone",
    "again": "the same again, under other dropout",
    "second": "the second alone",
    "third": "the third alone",
    "joined": "both texts in one input",
    "swapped": "both again, the second one first",
}
# Functions of one expression have no docstring.
POOLING_WORDS = {
    "cls": "The state of the first token.",
    "pooler": "The state of the first token, through the encoder's own layer and tanh.",
    "mean": "The mean of all token states.",
    "max": "The largest value of each dimension among the token states.",
}


def reference() -> str:
    """The whole page."""
    head = (DOCS / "recipe.head.md").read_text(encoding="utf-8").strip()
    return "\n\n".join([NOTICE, head, *keys(), *labels(), *variants()]) + "\n"


def keys() -> list[str]:
    """A table for each part of the schema."""
    return [
        "## The keys of a recipe",
        prose(f"""
            `extends` and `profiles`, told [above](#one-recipe-over-another), are keys as well. An encoder is of one of
            these kinds (`model_type` in its `config.json`): {coded(SUPPORTED)}. These keys concern the whole run:
        """),
        key_table(schema.Recipe, but=schema.Stage),
        "## The keys of a stage",
        prose("""
            They stand at the top of a recipe, or in one of its [stages](#stages).
        """),
        key_table(schema.Stage),
        "## The keys of a task",
        key_table(schema.Task),
        "## The keys of a label",
        "`label: stars` is short for `label: {column: stars}`.",
        key_table(schema.Label),
        "## The keys of a source",
        "`train: reviews.csv` is short for `train: {file: reviews.csv}`.",
        key_table(schema.Source),
    ]


def labels() -> list[str]:
    """What follows from the kind of label, and how texts are read."""
    kinds = [
        (
            f"`{kind}`",
            KINDS[kind],
            *(coded([heads[place]]) if heads[place:] and heads[place] else "–" for place in range(3)),
            coded([DEFAULT_LOSSES[kind]]) if kind in DEFAULT_LOSSES else "–",
            coded(TABLES.metrics[kind]) if kind in TABLES.metrics else "–",
        )
        for kind, heads in DEFAULT_HEADS.items()
    ]
    reads = [
        (f"`{name}`", str(count), "; ".join(VIEW_WORDS[view] for view in VIEWS[name]))
        for name, count in TABLES.reads.items()
    ]
    meanings = [
        (f"`{metric}`", coded([kind]), meaning(measure(kind, metric)))
        for kind, names in TABLES.metrics.items()
        for metric in names
    ]
    return [
        "## Kinds of label",
        prose("""
            What a task gets where it names no head, no loss and no metric. `triplets` is the kind of a task with three
            text columns, which has no label; `unlabelled` that of one or two text columns without a label, for losses
            that compare texts.
        """),
        table(
            (
                "kind",
                "predicts",
                "head for one text",
                "for a pair",
                "for three texts",
                "loss",
                "metrics, the default first",
            ),
            kinds,
        ),
        "## Metrics",
        table(("name", "for labels", "meaning"), merged(meanings)),
        "## Ways of reading",
        prose("""
            What the encoder is given of an example; each head reads in one way. Texts that are read `apart` have
            embeddings of their own, which can be stored and compared later.
        """),
        table(("name", "text columns", "inputs of the encoder"), reads),
    ]


def variants() -> list[str]:
    """A section for each table of variants."""
    heads = [
        (
            f"`{name}`",
            f"`{head.reads}`",
            coded(head.kinds),
            meaning(head) + ("" if head.after_shared_layer else " Not behind a `shared_layer`."),
        )
        for name, head in HEADS.items()
    ]
    losses = [
        (f"`{name}`", TAKES[loss.takes], coded(loss.links), meaning(loss.function)) for name, loss in LOSSES.items()
    ]
    shorthands = [(f"`{name}`", meaning(shorthand)) for name, shorthand in TABLES.shorthands.items()]
    return [
        "## Heads",
        prose("""
            u, v: the embeddings of two texts, each encoded alone. J(a, b): the embedding of both in one input. [x; y]:
            one after the other. a, b, c of a triplet: the embeddings of its three texts.
        """),
        table(("name", "reads", "for labels", "what it does"), heads),
        *option_table(TABLES.heads),
        "## Losses",
        prose("""
            A task may have several: `loss: [cross_entropy, {name: binary_cross_entropy, weight: 0.5}]`. They are added
            up, each times its weight, and the first one of predictions says how outputs become predictions. Losses of
            embeddings and tokens teach the encoder; they stand beside one that trains the head, or alone, with a head
            without weights or with none. A task without a head trains the encoder, is not scored and is not in the
            model. Of pairs, those with a score of at least `positive_above`, with the label `positive_label`, or with
            the answer yes are the positives; without a label, all are. Losses of tokens see the states of all tokens of
            the one input that the head reads, each with the label of its row; their proxies are in the run's
            checkpoints and not in the model. B: the rows of a batch. C: the outputs of the head, one for each class. N:
            tokens.
        """),
        table(("name", "takes", "for labels", "what it does"), losses),
        "A shorthand stands for several losses at once:",
        table(("name", "what it is"), shorthands),
        "Beside its `name` a loss may have these keys, and the options below:",
        key_table(schema.LossChoice, but=schema.Choice),
        *option_table({**TABLES.losses, **TABLES.shorthands}),
        "## Schedules",
        prose("""
            `order` names every task that learns. `epoch` says when an epoch ends: with the `longest` or `shortest`
            task, or with the task of that name; the other tasks cycle, reshuffled. `weights` change how often a task is
            drawn, a task's own `weight` multiplies its loss. The higher `t` is, the more alike tasks of unlike size are
            drawn.
        """),
        *plain_section(TABLES.schedules),
        "`combine` is one of these:",
        table(("name", "what it does with the gradients of the weights that tasks share"), rows_of(TABLES.combiners)),
        prose("""
            The package torchjd (`pip install "plait[torchjd]"`) has more: those of its methods that look at nothing but
            the products of the gradients, such as `torchjd.UPGrad`. A name that it lacks is answered with those that it
            has. All but `sum` and `mean` keep one more gradient of the shared weights for each task in memory.
        """),
        "## Learning rates",
        *plain_section(TABLES.lr_schedules),
        "## Optimizers",
        *plain_section(TABLES.optimizers),
        "## Poolings",
        table(("name", "embedding of a text"), [(f"`{name}`", POOLING_WORDS[name]) for name in TABLES.poolings]),
        "## Shared layers",
        *plain_section(TABLES.shared_layers),
        "## What rows can be made into",
        *plain_section(TABLES.makes),
    ]


def plain_section(choices: Choices) -> list[str]:
    """The variants with what they do, and their options."""
    return [table(("name", "what it does"), rows_of(choices)), *option_table(choices)]


def rows_of(choices: Choices) -> list[tuple[str, str]]:
    """The variants with what they say of themselves."""
    return [(f"`{name}`", meaning(variant)) for name, variant in choices.items()]


def option_table(choices: Choices) -> list[str]:
    """The options of the variants that have some."""
    rows = []
    for name, variant in choices.items():
        hints = get_type_hints(variant.__init__ if inspect.isclass(variant) else variant, include_extras=True)
        for key, parameter in options_of(variant).items():
            required = parameter.default is inspect.Parameter.empty
            default = "required" if required else shown(parameter.default)
            rows.append((f"`{name}`", f"`{key}`", alternatives(hints[key]), default))
    return [table(("of", "option", "what it may be", "default"), rows)] if rows else []


def key_table(model: type[BaseModel], but: type[BaseModel] = BaseModel) -> str:
    """Every key of a part of the schema, but for those of another part."""
    hints = get_type_hints(model, include_extras=True)
    rows = []
    for name, field in model.model_fields.items():
        if name in but.model_fields:
            continue
        assert field.description, f"{model.__name__}.{name} has no description; write one below it in the schema"
        see = f" See [{SEE[name]}](#{anchor(SEE[name])})." if name in SEE else ""
        words = alternatives(hints[name]).replace("a name", OWN_WORDS.get(name, "a name"))
        default = "required" if field.is_required() else shown(field.get_default(call_default_factory=True))
        rows.append((f"`{name}`", words, default, one_line(field.description) + see))
    return table(("key", "what it may be", "default", "meaning"), rows)


def alternatives(hint: Any) -> str:
    """What a value may be, in words."""
    found = dict.fromkeys(in_words(hint))
    *others, last = [words for words in found if words != "null"]
    either = f"{', '.join(others)} or {last}" if others else last
    return f"{either}, or null" if "null" in found else either


def in_words(hint: Any) -> Iterable[str]:
    """Each of the things that a value may be."""
    kind, arguments = get_origin(hint), get_args(hint)
    if kind is Annotated:
        yield from annotated(arguments[0], arguments[1:])
    elif kind in (Union, types.UnionType):
        for part in arguments:
            yield from in_words(part)
    elif kind is Literal:
        yield from (f"`{value}`" for value in arguments)
    elif kind is dict and arguments[0] is str:
        yield f"{alternatives(arguments[1])} for each name"
    elif hint == tuple[str, ...]:
        yield "a list of names"
    elif hint in PLAIN:
        yield from PLAIN[hint]
    else:
        raise TypeError(f"{hint}: scripts/recipe_reference.py has no words for this type")


def annotated(hint: Any, extras: Sequence[object]) -> Iterable[str]:
    """The words of a type with bounds, or of one that is brought into form first."""
    validators = [extra.func for extra in extras if isinstance(extra, BeforeValidator)]
    if spelled := [SPELLED[function] for function in validators if function in SPELLED]:
        yield from spelled[0]
        yield from ["null"] * (type(None) in get_args(hint))
        return
    if validators:
        assert hint == tuple[str, ...], f"scripts/recipe_reference.py has no words for {validators}"
        yield "a name"  # in place of a list
    limits = [
        BOUNDS[type(limit)].format(**vars_of(limit))
        for extra in extras
        for limit in (extra.metadata if isinstance(extra, FieldInfo) else [extra])
        if isinstance(limit, tuple(BOUNDS))
    ]
    for words in in_words(hint):
        yield " ".join([words, " and ".join(limits)]).strip()


def vars_of(limit: object) -> dict[str, Any]:
    """The numbers of a bound."""
    return {name: getattr(limit, name) for name in ("gt", "ge", "lt", "le") if hasattr(limit, name)}


def shown(value: object) -> str:
    """A default as a recipe writes it."""
    if value is None:
        return "null"
    if value in ((), {}):
        return "none"
    if isinstance(value, schema.Choice):
        return f"`{value.name}`"
    if isinstance(value, float):
        return f"{value:g}".replace("e-0", "e-")
    return str(value).lower() if isinstance(value, bool) else f"`{value}`" if isinstance(value, str) else str(value)


def measure(kind: str, name: str) -> Callable[..., object]:
    """The function behind a metric, which the table wraps so that it takes a prediction."""
    wrapped = metrics.METRICS[kind][name]
    assert isinstance(wrapped, types.FunctionType)
    function: Callable[..., object] = vars(metrics)[wrapped.__code__.co_names[0]]
    return function


def merged(rows: Iterable[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """One row for metrics of one name that mean the same."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for name, kind, told in rows:
        kinds.setdefault((name, told), []).append(kind)
    return [(name, ", ".join(found), told) for (name, told), found in kinds.items()]


def meaning(variant: Callable[..., object]) -> str:
    """What a variant says of itself: the first paragraph of its docstring, and those that speak of its options."""
    told = inspect.getdoc(variant)
    assert told, f"{variant} has no docstring"
    first, *others = told.split("\n\n")
    options = options_of(variant)
    return one_line(" ".join([first, *(more for more in others if options.keys() & set(re.findall(r"\w+", more)))]))


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [header, *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    head, *body = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([head, "|" + "---|" * len(header), *body])


def coded(names: Iterable[str]) -> str:
    """Names in the type of code."""
    return ", ".join(f"`{name}`" for name in names)


def prose(text: str) -> str:
    """A paragraph, in lines of this file's length."""
    return textwrap.fill(one_line(text), 120, break_long_words=False, break_on_hyphens=False)


def one_line(text: str) -> str:
    """A text without its line ends."""
    return " ".join(text.split())


def anchor(title: str) -> str:
    """Where a link finds a section."""
    return title.lower().replace(" ", "-")


if __name__ == "__main__":
    (DOCS / "recipe.md").write_text(reference(), encoding="utf-8")
