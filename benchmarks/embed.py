"""Embedding real texts of mixed length: plait beside sentence-transformers on torch, ONNX and OpenVINO, and fastembed.

    python benchmarks/embed.py [--json] [--full] [--rounds N] [--threads N …]

The time is from texts to an array, tokenization included. The limit is the time of the same matrix products alone.
"""

from pathlib import Path
from unittest import mock

import numpy as np
from compare import Benchmark, Disagreement, Ready, Setting, Table, Target, Way, at_least, run
from embedders import (
    SORTED,
    export_fastembed,
    export_onnx,
    export_openvino,
    fastembed_embedder,
    onnx_embedder,
    openvino_embedder,
    peer_way,
    plait_way,
    token_lengths,
    torch_embedder,
)
from texts import draw, mixed

LEAST = 0.9999  # the cosine of every text with what sentence-transformers on torch gives
TORCH, LIMIT = "sentence-transformers, torch", "plait's matrix products alone"


def load_plait(setting: Setting):
    import plait

    return plait.load("minilm")


def products_alone(setting: Setting) -> Ready:
    """Those of each batch, side by side on the threads on which plait does the batches."""
    import torch
    from limit import Products

    from plait.model import apply
    from plait.model.parallel import side_by_side

    seen: list[Products] = []

    def watch(work, batches, lanes):
        for rows in batches:
            with Products() as products:
                work(rows)
            seen.append(products)
            yield rows

    model, texts = load_plait(setting), mixed(setting.full)
    with mock.patch.object(apply, "side_by_side", watch):
        model.embed(texts)
    buffer = torch.randn(max(products.largest for products in seen))
    works = [products.work(buffer) for products in seen]
    share = 1 - sum(token_lengths(texts, Path(setting.minilm))) / sum(products.tokens for products in seen)
    return Ready(
        lambda: list(side_by_side(lambda work: work(), works, setting.threads)) and None,
        {"padding": lambda: f"{share:.1%}"},
        how=f"{sum(len(products.again) for products in seen):,} products in {len(works)} batches",
    )


def check(outputs) -> dict[str, dict[str, object]]:
    """Every embedding is that of sentence-transformers on torch."""
    units = {name: found / np.linalg.norm(found, axis=1, keepdims=True) for name, found in outputs.items()}
    told: dict[str, dict[str, object]] = {}
    for name, found_nD in units.items():
        cosines_n = (found_nD * units[TORCH]).sum(axis=1)
        if cosines_n.min() < LEAST:
            raise Disagreement(f"{name}: a cosine of {cosines_n.min():.6f} with {TORCH}, less than {LEAST}")
        told[name] = {"least cosine": f"{cosines_n.min():.6f}"}
    return told


def facts(table: Table) -> dict[str, object]:
    drawn = {name: len(texts) for name, texts in draw(table.setting.full).items()}
    lengths = token_lengths(mixed(table.setting.full), Path(table.setting.minilm))
    speed = {name: sum(lengths) / way.seconds for name, way in table.ways.items() if name != LIMIT}
    return {
        "texts": ", ".join(f"{count:,} of {name}" for name, count in drawn.items()),
        "tokens": f"{sum(lengths):,} in all, median {np.median(lengths):.0f}, at most {max(lengths)}",
        "tokens a second": ", ".join(f"{name} {value:,.0f}" for name, value in speed.items()),
    }


def targets(table: Table) -> list[Target]:
    peers = [name for name in WAYS if name not in ("plait", LIMIT)]
    fastest = table.fastest(peers)
    return [
        at_least(1.5, f"× the speed of {TORCH}", table.ratio(TORCH, "plait")),
        at_least(1.1, f"× the speed of the fastest peer, {fastest}", table.ratio(fastest or "", "plait")),
        at_least(0.85, "of the limit: the matrix products' share of the time", table.ratio(LIMIT, "plait")),
    ]


WAYS = {
    "plait": plait_way(load_plait, how='`plait.load("minilm").embed(texts)`'),
    TORCH: peer_way(
        torch_embedder, peer="sentence-transformers", imports=("torch", "sentence_transformers"), how=SORTED
    ),
    "sentence-transformers, ONNX": peer_way(
        onnx_embedder("model.onnx"),
        export=export_onnx,
        peer="onnx",
        imports=("torch", "sentence_transformers", "optimum.onnxruntime", "onnxruntime"),
        how=f'backend="onnx", its own export; optimized at O2 or O3 beforehand it takes the same time; {SORTED}',
    ),
    "sentence-transformers, OpenVINO": peer_way(
        openvino_embedder("openvino_model.xml", INFERENCE_PRECISION_HINT="f32"),
        export=export_openvino,
        peer="openvino",
        imports=("torch", "sentence_transformers", "optimum.intel", "openvino"),
        how=f'backend="openvino", its own export, INFERENCE_PRECISION_HINT f32; {SORTED}',
    ),
    "fastembed": peer_way(
        fastembed_embedder,
        export=export_fastembed,
        peer="fastembed",
        imports=("fastembed", "onnxruntime"),
        how="embed(texts, batch_size) on the graph that sentence-transformers exported, handed over sorted by length",
    ),
    LIMIT: Way(products_alone, imports=("plait", "torch", "tokenizers")),
}
BENCHMARK = Benchmark(
    "Embedding texts of mixed length", WAYS, check=check, targets=targets, facts=facts, threads=(2, 1)
)

if __name__ == "__main__":
    run(BENCHMARK)
