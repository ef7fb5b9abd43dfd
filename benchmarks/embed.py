"""Embedding real texts of mixed length: plait against sentence-transformers on torch, ONNX and OpenVINO, and fastembed.

    python benchmarks/embed.py [--json] [--full] [--rounds N] [--threads N …]

Timed from texts to an array, tokenization included. The limit is the time of the same matrix products alone.
"""

from pathlib import Path
from unittest import mock

import numpy as np
from compare import Benchmark, Contender, Disagreement, Ready, Setting, Table, Target, at_least, run
from embedders import (
    SORTED,
    export_fastembed,
    export_onnx,
    export_openvino,
    fastembed_embedder,
    onnx_embedder,
    openvino_embedder,
    peer_contender,
    plait_contender,
    token_lengths,
    torch_embedder,
)
from texts import draw, mixed

LEAST = 0.9999  # the lowest allowed cosine between any embedding and that of sentence-transformers on torch
TORCH, LIMIT = "sentence-transformers, torch", "plait's matrix products alone"


def load_plait(setting: Setting):
    import plait

    return plait.load("minilm")


def load_workers(setting: Setting):
    import plait

    return plait.load("minilm", workers=setting.threads)


def products_alone(setting: Setting) -> Ready:
    """The products of each batch, run in parallel on as many threads as plait uses for its batches."""
    import torch
    from limit import Products

    from plait.model import encode_texts
    from plait.thread_pool import side_by_side

    seen: list[Products] = []

    def record(work, batches, lanes):
        for rows in batches:
            with Products() as products:
                work(rows)
            seen.append(products)
            yield rows

    model, texts = load_plait(setting), mixed(setting.full)
    with mock.patch.object(encode_texts, "side_by_side", record):
        model.embed(texts)
    buffer = torch.randn(max(products.largest for products in seen))
    works = [products.work(buffer) for products in seen]
    share = 1 - sum(token_lengths(texts, Path(setting.minilm))) / sum(products.tokens for products in seen)
    return Ready(
        lambda: list(side_by_side(lambda work: work(), works, setting.threads)) and None,
        {"padding": lambda: f"{share:.1%}"},
        how=f"{sum(len(products.calls) for products in seen):,} products in {len(works)} batches",
    )


def check(outputs) -> dict[str, dict[str, object]]:
    """Every embedding matches that of sentence-transformers on torch."""
    units = {name: found / np.linalg.norm(found, axis=1, keepdims=True) for name, found in outputs.items()}
    details: dict[str, dict[str, object]] = {}
    for name, found_nD in units.items():
        cosines_n = (found_nD * units[TORCH]).sum(axis=1)
        if cosines_n.min() < LEAST:
            raise Disagreement(f"{name}: a cosine of {cosines_n.min():.6f} with {TORCH}, less than {LEAST}")
        details[name] = {"lowest cosine": f"{cosines_n.min():.6f}"}
    return details


def facts(table: Table) -> dict[str, object]:
    drawn = {name: len(texts) for name, texts in draw(table.setting.full).items()}
    lengths = token_lengths(mixed(table.setting.full), Path(table.setting.minilm))
    speed = {name: sum(lengths) / one.seconds for name, one in table.contenders.items() if name != LIMIT}
    return {
        "texts": ", ".join(f"{count:,} of {name}" for name, count in drawn.items()),
        "tokens": f"{sum(lengths):,} in total, median {np.median(lengths):.0f}, at most {max(lengths)}",
        "tokens per second": " · ".join(f"{name} {value:,.0f}" for name, value in speed.items()),
    }


def targets(table: Table) -> list[Target]:
    peers = [name for name in CONTENDERS if not name.startswith("plait")]
    fastest = table.fastest(peers)
    return [
        at_least(1.5, f"× the speed of {TORCH}", table.ratio(TORCH, "plait")),
        at_least(1.1, f"× the speed of the fastest peer, {fastest}", table.ratio(fastest or "", "plait")),
        at_least(0.85, "of the limit: the matrix products' share of the time", table.ratio(LIMIT, "plait")),
    ]


CONTENDERS = {
    "plait": plait_contender(load_plait, how='`plait.load("minilm").embed(texts)`'),
    "plait, processes": plait_contender(
        load_workers,
        how='`plait.load("minilm", workers=N).embed(texts)`, one process per thread, whose memory is not counted',
    ),
    TORCH: peer_contender(
        torch_embedder, peer="sentence-transformers", imports=("torch", "sentence_transformers"), how=SORTED
    ),
    "sentence-transformers, ONNX": peer_contender(
        onnx_embedder("model.onnx"),
        export=export_onnx,
        peer="onnx",
        imports=("torch", "sentence_transformers", "optimum.onnxruntime", "onnxruntime"),
        how=f'backend="onnx", its own export, not optimized beforehand; {SORTED}',
    ),
    "sentence-transformers, OpenVINO": peer_contender(
        openvino_embedder("openvino_model.xml", INFERENCE_PRECISION_HINT="f32"),
        export=export_openvino,
        peer="openvino",
        imports=("torch", "sentence_transformers", "optimum.intel", "openvino"),
        how=f'backend="openvino", its own export, INFERENCE_PRECISION_HINT f32; {SORTED}',
    ),
    "fastembed": peer_contender(
        fastembed_embedder,
        export=export_fastembed,
        peer="fastembed",
        imports=("fastembed", "onnxruntime"),
        how="embed(texts, batch_size) on the graph that sentence-transformers exported, given texts sorted by length",
    ),
    LIMIT: Contender(products_alone, imports=("plait", "torch", "tokenizers")),
}
BENCHMARK = Benchmark(
    "Embedding texts of mixed length", CONTENDERS, check=check, targets=targets, facts=facts, threads=(2, 1)
)

if __name__ == "__main__":
    run(BENCHMARK)
