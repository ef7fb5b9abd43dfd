"""Contenders that embed texts with MiniLM: plait, and its peers in their best configuration.

Every peer batches texts of similar length, with the batch size that was fastest on a sample. An embedder is a function
of texts and a batch size.
"""

import csv
import json
import shutil
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from compare import Contender, Ready, Setting
from machine import has_instructions
from store import store_folder
from texts import mixed, scored_pairs, texts_of

Embedder = Callable[[list[str], int], Any]
BATCHES = (2, 4, 8, 16, 32, 64)
SORTED = "encode(texts, batch_size), which sorts by length"


def plait_contender(load: Callable[[Setting], Any], *, scored: bool = False, **options: Any) -> Contender:
    """plait, which chooses its own batches; `scored` also scores it on STS."""

    def make(setting: Setting) -> Ready:
        model, texts = load(setting), mixed(setting.full)
        extras = {"STS dev Pearson": lambda: pearson(model.embed)} if scored else {}
        return Ready(lambda: model.embed(texts), extras)

    return Contender(make, imports=("plait", "torch", "tokenizers"), **options)


def peer_contender(
    load: Callable[[Setting], Embedder],
    *,
    export: Callable[[Setting], object] | None = None,
    scored: bool = False,
    **options: Any,
) -> Contender:
    """A peer: its model is exported first if needed, and its batch size is chosen by measurement."""

    def prepare(setting: Setting) -> int:
        if export:
            export(setting)
        return best_batch(load(setting), mixed(setting.full))

    def make(setting: Setting) -> Ready:
        embed, texts, batch = load(setting), mixed(setting.full), setting.prepared
        extras: dict[str, Callable[[], object]] = {
            "padding": lambda: share_of_padding(texts, batch, Path(setting.minilm))
        }
        if scored:
            extras["STS dev Pearson"] = lambda: pearson(lambda texts: embed(texts, batch))
        return Ready(lambda: embed(texts, batch), extras, how=f"batches of {batch}, the fastest of {BATCHES}")

    return Contender(make, prepare=prepare, **options)


def best_batch(embed: Embedder, texts: Sequence[str]) -> int:
    """The batch size that is fastest on a sample: a block of texts of median length and one of the longest.

    Sizes are tried in increasing order until one is clearly slower than the best; those close to the best are tried
    twice.
    """
    ordered, block = sorted(texts, key=len), BATCHES[-1]
    sample = ordered[len(ordered) // 2 :][:block] + ordered[-block:]
    embed(sample[: BATCHES[0]], BATCHES[0])
    took: dict[int, float] = {}
    for batch in BATCHES:
        took[batch] = seconds(partial(embed, sample, batch))
        if took[batch] > 1.15 * min(took.values()):
            break
    for batch in [batch for batch, spent in took.items() if spent < 1.1 * min(took.values())]:
        took[batch] = min(took[batch], seconds(partial(embed, sample, batch)))
    return min(took, key=lambda batch: took[batch])


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def token_lengths(texts: Sequence[str], folder: Path) -> list[int]:
    """The number of tokens of each text, truncated to the model's limit."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"])
    return [len(encoding.ids) for encoding in tokenizer.encode_batch(list(texts))]


def share_of_padding(texts: Sequence[str], batch: int, folder: Path) -> str:
    """The share of padding if texts are sorted by characters and each batch is padded to its longest text."""
    lengths = token_lengths(sorted(texts, key=lambda text: -len(text)), folder)
    batches = [lengths[start : start + batch] for start in range(0, len(lengths), batch)]
    return f"{1 - sum(lengths) / sum(max(rows) * len(rows) for rows in batches):.1%}"


def pearson(embed: Callable[[list[str]], Any]) -> float:
    """Pearson's correlation between cosines and the scores of STS's dev pairs."""
    import numpy as np

    first, second, scores = scored_pairs()
    one_nD, other_nD = np.asarray(embed(first)), np.asarray(embed(second))
    lengths_n = np.linalg.norm(one_nD, axis=1) * np.linalg.norm(other_nD, axis=1)
    return round(float(np.corrcoef((one_nD * other_nD).sum(axis=1) / lengths_n, scores)[0, 1]), 5)


def sentence_transformers(setting: Setting, folder: Path | str, **options: Any) -> Embedder:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu", **options)
    return lambda texts, batch: model.encode(texts, batch_size=batch, show_progress_bar=False)


def torch_embedder(setting: Setting) -> Embedder:
    return sentence_transformers(setting, setting.minilm)


def onnx_embedder(file: str) -> Callable[[Setting], Embedder]:
    def load(setting: Setting) -> Embedder:
        import onnxruntime

        session = onnxruntime.SessionOptions()
        session.intra_op_num_threads = setting.threads
        options = {"file_name": f"onnx/{file}", "provider": "CPUExecutionProvider", "session_options": session}
        return sentence_transformers(setting, exported("onnx"), backend="onnx", model_kwargs=options)

    return load


def openvino_embedder(file: str, **hints: str) -> Callable[[Setting], Embedder]:
    def load(setting: Setting) -> Embedder:
        options = {"file_name": f"openvino/{file}", "ov_config": {"INFERENCE_NUM_THREADS": setting.threads, **hints}}
        return sentence_transformers(setting, exported("openvino"), backend="openvino", model_kwargs=options)

    return load


def fastembed_embedder(setting: Setting) -> Embedder:
    """fastembed does not sort, so it gets texts sorted by length, longest first, like sentence-transformers."""
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    nowhere = ModelSource(hf="none")
    TextEmbedding.add_custom_model("minilm", PoolingType.MEAN, True, nowhere, dim=384, model_file="model.onnx")
    model = TextEmbedding("minilm", specific_model_path=str(exported("fastembed")), threads=setting.threads)

    def embed(texts: list[str], batch: int) -> Any:
        import numpy as np

        order = sorted(range(len(texts)), key=lambda number: -len(texts[number]))
        found = np.stack(list(model.embed([texts[number] for number in order], batch_size=batch)))
        embedded_nD = np.empty_like(found)
        embedded_nD[order] = found
        return embedded_nD

    return embed


def exported(peer: str) -> Path:
    """The folder of a peer's exports: inside its environment, so that it disappears when that is created again."""
    return store_folder(f"venvs/{peer}/exported")


def export_onnx(setting: Setting) -> None:
    """Let sentence-transformers export the weights and quantize them, once."""
    if (exported("onnx") / "onnx/model_quint8_avx2.onnx").is_file():
        return
    from sentence_transformers import SentenceTransformer, export_dynamic_quantized_onnx_model

    model, folder = SentenceTransformer(setting.minilm, backend="onnx", device="cpu"), str(exported("onnx"))
    model.save_pretrained(folder)
    if has_instructions("avx512_vnni"):
        export_dynamic_quantized_onnx_model(model, "avx512_vnni", folder)
    export_dynamic_quantized_onnx_model(model, "avx2", folder)


def export_openvino(setting: Setting) -> None:
    """Let sentence-transformers export the weights, once; int8 is calibrated on texts outside the benchmark."""
    if (exported("openvino") / "openvino/openvino_model_qint8_quantized.xml").is_file():
        return
    from sentence_transformers import SentenceTransformer, export_static_quantized_openvino_model

    model, folder = SentenceTransformer(setting.minilm, backend="openvino", device="cpu"), str(exported("openvino"))
    model.save_pretrained(folder)
    calibration = store_folder("venvs/openvino/calibration")
    measured = set(mixed(full=True))
    with (calibration / "train.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text"])
        writer.writerows([text] for text in texts_of("SST") if text not in measured)
    data = {"dataset_name": str(calibration), "dataset_config_name": "default"}
    export_static_quantized_openvino_model(model, None, folder, **data, dataset_split="train", column_name="text")


def export_fastembed(setting: Setting) -> None:
    """The graph that sentence-transformers exported, with a tokenizer that truncates to the same limit."""
    folder, graph = exported("fastembed"), exported("onnx") / "onnx/model.onnx"
    if not graph.is_file():
        raise SystemExit("sentence-transformers did not export the graph that fastembed needs")
    for name in ("config.json", "tokenizer.json", "special_tokens_map.json", "tokenizer_config.json"):
        shutil.copy(Path(setting.minilm) / name, folder)
    shutil.copy(graph, folder)
    limit = json.loads((Path(setting.minilm) / "sentence_bert_config.json").read_text())["max_seq_length"]
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings |= {"model_max_length": limit, "max_length": limit}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
