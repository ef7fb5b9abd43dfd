"""transformers and sentence-transformers load what plait saves, and vice versa, with equal embeddings.

S texts, T padded length, D width.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

import plait
from plait.errors import EncoderError
from plait.model.directory.load import load_model
from plait.model.directory.record import Provenance
from plait.model.directory.save import save_model
from tiny import sentences

TEXTS = sentences(200, seed=20, longest=60)  # the longest are truncated: the tiny encoder takes 40 tokens
POOLINGS = ["mean", "cls", "max", "pooler"]


def transformers_embeddings(folder: Path, texts: list[str], pooling: str, limit: int) -> np.ndarray:
    """The states that AutoModel gives for padded texts, pooled by hand."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    padded = tokenizer(texts, truncation=True, max_length=limit, padding=True, return_tensors="pt")
    with torch.inference_mode():
        answer = model(**padded)
    states_STD: Tensor = answer.last_hidden_state
    mask_ST1 = padded["attention_mask"].bool()[:, :, None]
    pooled = {
        "cls": states_STD[:, 0],
        "mean": (states_STD * mask_ST1).sum(dim=1) / mask_ST1.sum(dim=1),
        "max": states_STD.masked_fill(~mask_ST1, -torch.inf).amax(dim=1),
        "pooler": answer.get("pooler_output"),
    }
    return pooled[pooling].numpy()


def sentence_transformer(folder: Path) -> SentenceTransformer:
    return SentenceTransformer(str(folder), device="cpu")


def assert_equal_embeddings(ours: np.ndarray, theirs: np.ndarray) -> None:
    assert ours.shape == theirs.shape
    lengths = np.linalg.norm(ours, axis=1), np.linalg.norm(theirs, axis=1)
    cosines = (ours * theirs).sum(axis=1) / (lengths[0] * lengths[1])
    assert cosines.min() >= 0.99999
    np.testing.assert_allclose(lengths[0], lengths[1], rtol=1e-5)  # float32, added in another order


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_best_model_of_a_run_has_equal_embeddings_in_every_library(tiny_recipe, tmp_path, pooling, normalise):
    recipe = tiny_recipe(pooling=pooling, normalise=normalise, epochs=1)
    best = plait.train(recipe, tmp_path / "run", baselines=False).model
    ours = plait.load(best, device="cpu").embed(TEXTS)
    assert np.allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-5) == normalise
    assert_equal_embeddings(ours, sentence_transformer(best).encode(TEXTS))
    theirs = transformers_embeddings(best, TEXTS, pooling, 40)
    assert_equal_embeddings(ours, unit(theirs) if normalise else theirs)


@pytest.mark.parametrize(
    ("kind", "pooling"),
    [("distilbert", "mean"), ("distilbert", "cls"), ("mpnet", "mean"), ("mpnet", "pooler"), ("modernbert", "mean")],
)
def test_other_architectures_train_and_have_equal_embeddings_in_every_library(
    kind, pooling, request, tiny_recipe, tmp_path
):
    folder = request.getfixturevalue(f"tiny_{kind}")
    recipe = tiny_recipe(encoder=str(folder), pooling=pooling, normalise=True, epochs=8)
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    losses = [sum(line["loss"].values()) for line in lines if "loss" in line]
    assert np.mean(losses[-3:]) < np.mean(losses[:3])
    before, after = load_file(folder / "model.safetensors"), load_file(result.model / "model.safetensors")
    unused = {name for name in before if name.startswith("pooler.")} if pooling != "pooler" else set()
    assert {name for name in before if torch.equal(before[name], after[name])} == unused
    ours = plait.load(result.model, device="cpu").embed(TEXTS)
    assert_equal_embeddings(ours, sentence_transformer(result.model).encode(TEXTS))
    assert_equal_embeddings(ours, unit(transformers_embeddings(result.model, TEXTS, pooling, 40)))


def test_weighted_pooling_is_not_mistaken_for_another_by_sentence_transformers(tiny_recipe, tmp_path):
    best = plait.train(tiny_recipe(pooling="weighted", epochs=1), tmp_path / "run", baselines=False).model
    with pytest.raises(ValueError, match="Invalid pooling mode: 'weighted'"):
        sentence_transformer(best)
    tokenizer, encoder = AutoTokenizer.from_pretrained(best), AutoModel.from_pretrained(best).eval()
    scores_D = load_file(best / "heads.safetensors")["pooling.token_scores"]
    assert "token_scores" not in str(load_file(best / "model.safetensors").keys())
    padded = tokenizer(TEXTS, truncation=True, max_length=40, padding=True, return_tensors="pt")
    with torch.inference_mode():
        states_STD = encoder(**padded).last_hidden_state
    scores_ST = (states_STD @ scores_D).masked_fill(padded["attention_mask"] == 0, -torch.inf)
    theirs = (scores_ST.softmax(dim=1)[:, :, None] * states_STD).sum(dim=1).numpy()
    assert_equal_embeddings(plait.load(best, device="cpu").embed(TEXTS), theirs)


def test_run_changes_the_encoder_that_it_saves(tiny_recipe, tiny_bert, tmp_path):
    best = plait.train(tiny_recipe(), tmp_path / "run", baselines=False).model
    before, after = load_file(tiny_bert / "model.safetensors"), load_file(best / "model.safetensors")
    assert not torch.equal(
        before["encoder.layer.0.attention.self.query.weight"], after["encoder.layer.0.attention.self.query.weight"]
    )


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "mpnet", "modernbert"])
def test_model_saved_without_training_keeps_every_bit(kind, request, tmp_path):
    folder = request.getfixturevalue(f"tiny_{kind}")
    save_model(load_model(folder, device="cpu").model, tmp_path / "saved", Provenance())
    before, after = load_file(folder / "model.safetensors"), load_file(tmp_path / "saved" / "model.safetensors")
    assert after.keys() == before.keys()  # even the pooler, which mean pooling does not need
    assert all(torch.equal(after[name], before[name]) for name in after)
    ours = plait.load(folder, device="cpu").embed(TEXTS)
    assert np.array_equal(plait.load(tmp_path / "saved", device="cpu").embed(TEXTS), ours)
    assert_equal_embeddings(ours, sentence_transformer(tmp_path / "saved").encode(TEXTS))


def test_minilm_saved_by_plait_gives_the_same_bits_in_sentence_transformers(minilm, tmp_path):
    save_model(load_model("minilm", device="cpu").model, tmp_path / "saved", Provenance())
    original, saved = sentence_transformer(minilm), sentence_transformer(tmp_path / "saved")
    assert saved.max_seq_length == original.max_seq_length == 256
    texts = [*sentences(198, seed=21), *sentences(2, seed=22, longest=900)]
    assert max(len(text.split()) for text in texts) > 256  # so that some are truncated
    expected = original.encode(texts, batch_size=8)
    assert np.array_equal(saved.encode(texts, batch_size=8), expected)
    assert_equal_embeddings(plait.load(tmp_path / "saved", device="cpu").embed(texts), expected)


def test_plain_hugging_face_directory_gets_mean_pooling_without_normalisation(tiny_bert, tiny_roberta):
    for folder in (tiny_bert, tiny_roberta):
        ours = plait.load(folder, device="cpu").embed(TEXTS)
        assert_equal_embeddings(ours, transformers_embeddings(folder, TEXTS, "mean", 40))
        assert_equal_embeddings(ours, sentence_transformer(folder).encode(TEXTS))  # which has the same defaults


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_sentence_transformers_directory_keeps_its_pooling_limit_and_normalisation(
    tiny_bert, tmp_path, pooling, normalise
):
    modules = [Transformer(str(tiny_bert)), Pooling(16, pooling), *([Normalize()] if normalise else [])]
    theirs = SentenceTransformer(modules=modules, device="cpu")
    theirs.max_seq_length = 9
    theirs.save(str(tmp_path / "theirs"))
    ours = plait.load(tmp_path / "theirs", device="cpu")
    assert_equal_embeddings(ours.embed(TEXTS), theirs.encode(TEXTS))
    save_model(load_model(tmp_path / "theirs", device="cpu").model, tmp_path / "ours", Provenance())
    assert_equal_embeddings(ours.embed(TEXTS), sentence_transformer(tmp_path / "ours").encode(TEXTS))


def save_sentence_transformer(place: Path, *modules: torch.nn.Module, **options: object) -> Path:
    SentenceTransformer(modules=list(modules), device="cpu", **options).save(str(place))
    return place


def test_lower_casing_of_sentence_transformers_is_applied(tiny_roberta, tmp_path):
    folder = save_sentence_transformer(tmp_path / "theirs", Transformer(str(tiny_roberta)), Pooling(16, "mean"))
    path = folder / "sentence_bert_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "do_lower_case": True}))
    texts = [text.title() for text in TEXTS]
    assert_equal_embeddings(plait.load(folder, device="cpu").embed(texts), sentence_transformer(folder).encode(texts))


@pytest.mark.parametrize("pooling", ["weightedmean", ("mean", "max")])
def test_unsupported_pooling_is_reported(tiny_bert, tmp_path, pooling):
    folder = save_sentence_transformer(tmp_path / "theirs", Transformer(str(tiny_bert)), Pooling(16, pooling))
    names = pooling if isinstance(pooling, str) else ", ".join(pooling)
    with pytest.raises(EncoderError, match=f"pooling {names} is not supported; supported: cls, mean, max"):
        plait.load(folder, device="cpu")


def test_unsupported_module_is_reported(tiny_bert, tmp_path):
    modules = Transformer(str(tiny_bert)), Pooling(16, "mean"), Dense(16, 8)
    with pytest.raises(EncoderError, match=r"modules\.json: Dense is not supported"):
        plait.load(save_sentence_transformer(tmp_path / "theirs", *modules), device="cpu")


def test_default_prompt_is_refused(tiny_bert, tmp_path):
    modules = Transformer(str(tiny_bert)), Pooling(16, "mean")
    prompts = {"prompts": {"query": "the good "}, "default_prompt_name": "query"}
    with pytest.raises(EncoderError, match="prompt"):
        plait.load(save_sentence_transformer(tmp_path / "theirs", *modules, **prompts), device="cpu")


def test_half_precision_checkpoint_is_saved_as_float32(tiny_bert, tmp_path):
    shutil.copytree(tiny_bert, tmp_path / "half")
    halves = {name: tensor.half() for name, tensor in load_file(tiny_bert / "model.safetensors").items()}
    save_file(halves, tmp_path / "half" / "model.safetensors", metadata={"format": "pt"})
    raw = json.loads((tiny_bert / "config.json").read_text())
    del raw["dtype"]  # older transformers wrote torch_dtype
    (tmp_path / "half" / "config.json").write_text(json.dumps({**raw, "torch_dtype": "float16"}))
    save_model(load_model(tmp_path / "half", device="cpu").model, tmp_path / "saved", Provenance())
    assert AutoModel.from_pretrained(tmp_path / "saved").dtype == torch.float32
    ours = plait.load(tmp_path / "half", device="cpu").embed(TEXTS)
    assert_equal_embeddings(ours, sentence_transformer(tmp_path / "saved").encode(TEXTS))


def test_checkpoint_with_only_a_vocab_is_saved_with_a_tokenizer_that_others_load(tiny_bert, tmp_path):
    folder = tmp_path / "vocab"
    shutil.copytree(tiny_bert, folder, ignore=shutil.ignore_patterns("tokenizer*.json"))
    ids = json.loads((tiny_bert / "tokenizer.json").read_text())["model"]["vocab"]
    (folder / "vocab.txt").write_text("\n".join(sorted(ids, key=ids.__getitem__)) + "\n")
    save_model(load_model(folder, device="cpu").model, tmp_path / "saved", Provenance())
    texts = [text.upper() for text in TEXTS]
    ours = plait.load(tmp_path / "saved", device="cpu").embed(texts)
    assert_equal_embeddings(ours, sentence_transformer(tmp_path / "saved").encode(texts))
    assert_equal_embeddings(ours, sentence_transformer(folder).encode(texts))
