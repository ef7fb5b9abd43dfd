"""Embedding the same texts with 8-bit weights: what it saves, and what it costs in agreement and in score.

    python benchmarks/embed_int8.py [--json] [--full] [--rounds N] [--threads N …]

plait exports with `plait export MODEL --to onnx --int8`; the peers are sentence-transformers' ONNX and OpenVINO
backends, quantized as its documentation describes.
"""

import shutil
import subprocess
import sys

import numpy as np
from compare import Benchmark, Setting, Table, Target, at_least, at_most, run
from embed import facts, load_plait
from embedders import (
    SORTED,
    export_onnx,
    export_openvino,
    onnx_embedder,
    openvino_embedder,
    peer_contender,
    plait_contender,
)
from machine import has_instructions
from store import store_folder

FP32 = "plait, fp32"
PEARSON = "STS dev Pearson"
ONNX = {
    "imports": ("torch", "sentence_transformers", "optimum.onnxruntime", "onnxruntime"),
    "export": export_onnx,
    "scored": True,
    "peer": "onnx",
}
OPENVINO = {
    "imports": ("torch", "sentence_transformers", "optimum.intel", "openvino"),
    "export": export_openvino,
    "scored": True,
    "peer": "openvino",
}


def export_int8(setting: Setting) -> str:
    """plait's own export, repeated each time because the code may have changed."""
    folder = store_folder("models") / "plait-int8"
    shutil.rmtree(folder, ignore_errors=True)
    words = ["export", "minilm", "--to", "onnx", "--int8", "--out", str(folder)]
    done = subprocess.run([sys.executable, "-m", "plait", *words], stderr=sys.stderr)
    if done.returncode:
        raise SystemExit(done.returncode)
    return str(folder)


def load_int8(setting: Setting):
    import plait

    return plait.load(setting.prepared, engine="onnx")


def check(outputs) -> dict[str, dict[str, object]]:
    """How close each embedding is to that in full precision; how close it must be is a target."""
    units = {name: found / np.linalg.norm(found, axis=1, keepdims=True) for name, found in outputs.items()}
    details: dict[str, dict[str, object]] = {}
    for name, found_nD in units.items():
        cosines_n = (found_nD * units[FP32]).sum(axis=1)
        details[name] = {
            "lowest cosine": round(float(cosines_n.min()), 4),
            "mean cosine": round(float(cosines_n.mean()), 4),
        }
    return details


def targets(table: Table) -> list[Target]:
    peers = [name for name in CONTENDERS if name not in (OURS, FP32)]
    fastest = table.fastest(peers)
    ours, full = table.contenders[OURS].details, table.contenders[FP32].details
    found = [at_least(1, f"× the speed of the fastest peer, {fastest}", table.ratio(fastest or "", OURS))]
    for key in ("lowest cosine", "mean cosine"):
        theirs = table.contenders[fastest].details[key] if fastest else 0.0
        found.append(at_least(theirs, f"{key}, that of {fastest}", ours[key]))
    found.append(at_most(0.003, "loss of Pearson's correlation on STS dev", full[PEARSON] - ours[PEARSON]))
    return found


OURS = "plait, int8"
CONTENDERS = {
    OURS: plait_contender(
        load_int8,
        prepare=export_int8,
        scored=True,
        how='`plait export minilm --to onnx --int8 --out DIR`, `plait.load(DIR, engine="onnx").embed(texts)`',
    ),
    FP32: plait_contender(load_plait, scored=True, how='`plait.load("minilm").embed(texts)`'),
    "sentence-transformers, ONNX int8 avx2": peer_contender(
        onnx_embedder("model_quint8_avx2.onnx"), **ONNX, how=f"avx2, dynamic, per channel; {SORTED}"
    ),
    "sentence-transformers, OpenVINO int8": peer_contender(
        openvino_embedder("openvino_model_qint8_quantized.xml"),
        **OPENVINO,
        how=f"static, calibrated as its documentation describes, on SST texts outside the benchmark; {SORTED}",
    ),
}
if has_instructions("avx512_vnni"):
    CONTENDERS["sentence-transformers, ONNX int8 avx512_vnni"] = peer_contender(
        onnx_embedder("model_qint8_avx512_vnni.onnx"), **ONNX, how=f"avx512_vnni, dynamic, per channel; {SORTED}"
    )
BENCHMARK = Benchmark(
    "Embedding with 8-bit weights",
    CONTENDERS,
    check=check,
    targets=targets,
    facts=facts,
    threads=(2, 1),
    reduced_threads=(2,),
)

if __name__ == "__main__":
    run(BENCHMARK)
