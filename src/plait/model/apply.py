"""A model over many texts: each distinct input encoded once, texts of like length together.

n texts, D width, C outputs.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from plait.data.batch import tokenize_views
from plait.data.tokenize import TokenTable, tokenize
from plait.model.model import Model
from plait.model.parallel import side_by_side

__all__ = ["TOKEN_BUDGET", "Advance", "cut_inputs", "embed_texts", "embed_views", "task_outputs"]

TOKEN_BUDGET = 2048  # tokens encoded in one pass
Advance = Callable[[int], None]  # told how many more inputs are done


def embed_texts(model: Model, texts: Sequence[str], *, progress: Advance | None = None) -> Tensor:
    """Pooled embeddings (n, D), unit vectors where the model says so, on the CPU."""
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    table = tokenize(model.text.tokenizer, list(numbers), model.text.limit)
    embedded_nD = embed_table(model, table, progress)
    if model.normalise:
        embedded_nD = torch.nn.functional.normalize(embedded_nD, dim=-1)
    return embedded_nD[[numbers[text] for text in texts]]


def embed_views(
    model: Model, texts: Sequence[Sequence[str]], views: Sequence[str], limit: int, *, progress: Advance | None = None
) -> dict[str, Tensor]:
    """Pooled embeddings (n, D) of each view of one, or of two, columns of text; equal inputs are encoded once."""
    tables = tokenize_views(model.text.tokenizer, texts, views, limit)
    inputs: dict[bytes, int] = {}
    places: dict[str, list[int]] = {}
    rows: list[tuple[TokenTable, int]] = []
    for view, table in tables.items():
        places[view] = []
        for row in range(len(table)):
            key = table.row(row).tobytes() + int(table.firsts[row]).to_bytes(4, "little")
            if key not in inputs:
                inputs[key] = len(rows)
                rows.append((table, row))
            places[view].append(inputs[key])
    distinct_nD = embed_inputs(
        model, [table.row(row) for table, row in rows], [int(table.firsts[row]) for table, row in rows], progress
    )
    return {view: distinct_nD[places[view]] for view in views}


def cut_inputs(model: Model, texts: Sequence[Sequence[str]], views: Sequence[str], limit: int) -> tuple[int, int]:
    """How many inputs of the encoder these texts give, and how many of those are cut at the limit."""
    tables = tokenize_views(model.text.tokenizer, texts, views, limit).values()
    return sum(len(table) for table in tables), sum(table.truncated for table in tables)


def task_outputs(
    model: Model, task: str, texts: Sequence[Sequence[str]], *, progress: Advance | None = None
) -> np.ndarray:
    """Outputs (n, C) of a task's head for one, or two, columns of text."""
    spec = model.tasks[task]
    views = embed_views(model, texts, spec.views, spec.max_length, progress=progress)
    was_training = model.training
    model.eval()
    with torch.inference_mode():
        outputs_nC = model.outputs(task, [views[view].to(model.device) for view in spec.views])
    model.train(was_training)
    return outputs_nC.float().cpu().numpy()


def embed_table(model: Model, table: TokenTable, progress: Advance | None) -> Tensor:
    """Pooled embeddings of a token table."""
    return embed_inputs(model, [table.row(row) for row in range(len(table))], table.firsts.tolist(), progress)


def embed_inputs(model: Model, ids: Sequence[np.ndarray], firsts: Sequence[int], progress: Advance | None) -> Tensor:
    """Pooled embeddings (n, D) of tokenized inputs, on the CPU, batch by batch."""
    embedded_nD = torch.empty(len(ids), model.encoder.config.width)
    was_training = model.training
    model.eval()
    if model.engine is None:
        model.prepare()
        pooled, lanes = model.pooled, torch.get_num_threads() if model.device.type == "cpu" else 1
    else:
        pooled, lanes = model.engine.pooled, model.engine.lanes

    def embed_batch(rows: list[int]) -> None:
        with torch.inference_mode():  # counts for one thread
            embedded_nD[rows] = pooled([ids[row] for row in rows], [firsts[row] for row in rows]).cpu()

    for rows in side_by_side(embed_batch, token_batches([len(text) for text in ids], lanes), lanes):
        if progress:
            progress(len(rows))
    model.train(was_training)
    return embedded_nD


def token_batches(lengths: Sequence[int], lanes: int) -> list[list[int]]:
    """Rows by length, the longest first, in batches of at most TOKEN_BUDGET tokens; enough of them for all lanes."""
    budget = min(TOKEN_BUDGET, -(-sum(lengths) // lanes))
    batches: list[list[int]] = []
    room = 0
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if not batches or lengths[row] > room:
            batches.append([])
            room = budget
        batches[-1].append(row)
        room -= lengths[row]
    return batches
