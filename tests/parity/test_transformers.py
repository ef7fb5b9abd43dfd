"""The packed encoder and its tokenization against transformers, which pads and masks.

N packed tokens, S texts, T padded length, D width.
"""

import json
import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.models.mpnet.modeling_mpnet import MPNetEncoder

from plait.data.read import read_rows
from plait.data.tokenize import TextTokenizer, TokenTable, load_tokenizer
from plait.encoder.bert import Encoder
from plait.encoder.config import read_config
from plait.encoder.distances import distance_buckets
from plait.encoder.packing import Packed, pack
from plait.encoder.weights import encoder_from, to_checkpoint
from plait.model.directory.load import load_model
from plait.model.encode_texts import embed_texts
from plait.recipe.task import Source
from tiny import sentences

TINY_LIMIT = 40  # of the tokenizer; the weights would allow 42


@pytest.fixture(params=["bert", "roberta", "distilbert", "mpnet", "modernbert"])
def tiny(request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue(f"tiny_{request.param}")


def tokenizer_of(folder: Path) -> TextTokenizer:
    return TextTokenizer(load_tokenizer(folder), read_config(folder).limit)


def pack_table(table: TokenTable, encoder: Encoder) -> Packed:
    ids = [table.row(row) for row in range(len(table))]
    return pack(ids, table.firsts, first_position=encoder.config.first_position, device=torch.device("cpu"))


def by_text(states_ND: Tensor, packed: Packed) -> list[Tensor]:
    """The states of each text, in the given order."""
    groups = zip(states_ND.split(packed.tokens_per_group), packed.groups, strict=True)
    texts = [text_TD for states, group in groups for text_TD in states.view(group.count, group.length, -1)]
    return [texts[place] for place in packed.places_S.tolist()]


def our_states(folder: Path, table: TokenTable) -> list[Tensor]:
    encoder = encoder_from(folder, read_config(folder), pooler=False).eval()
    packed = pack_table(table, encoder)
    with torch.inference_mode():
        return by_text(encoder(packed), packed)


def their_states(folder: Path, limit: int, *columns: list[str]) -> list[Tensor]:
    """transformers' states, padded and masked, without those of the padding; 20 texts at a time."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    states = []
    for start in range(0, len(columns[0]), 20):
        batch = [column[start : start + 20] for column in columns]
        padded = tokenizer(*batch, truncation=True, max_length=limit, padding=True, return_tensors="pt")
        with torch.inference_mode():
            states_STD = model(**padded).last_hidden_state
        lengths = padded["attention_mask"].sum(dim=1)
        states += [states_TD[:length] for states_TD, length in zip(states_STD, lengths, strict=True)]
    return states


def assert_states_close(ours: list[Tensor], theirs: list[Tensor], tolerance: float) -> None:
    for own_TD, other_TD in zip(ours, theirs, strict=True):
        torch.testing.assert_close(own_TD, other_TD, rtol=0, atol=tolerance)


def column(path: Path, name: str) -> list[str]:
    return read_rows([Source(file=str(path))], [name]).columns[name]


# Six layers of float32 sums in another order than with padding: 6e-6 was observed, three times that is allowed.
MINILM_TOLERANCE = 2e-5


def test_states_of_minilm_equal_those_of_transformers_for_200_texts(minilm, real_data):
    short = column(real_data / "cs224n/ids-sst-dev.csv", "sentence")[:188]
    long = column(real_data / "cs224n/ids-cfimdb-dev.csv", "sentence")[:12]
    texts = short[12:] + [text for both in zip(short[:12], long, strict=True) for text in both]
    table = tokenizer_of(minilm).tokenize(texts, read_config(minilm).limit)
    assert (
        len(texts) == 200 and table.is_truncated.sum() > 0 and table.lengths.min() < 10
    )  # of mixed length, some truncated
    assert_states_close(our_states(minilm, table), their_states(minilm, 256, texts), MINILM_TOLERANCE)


def test_states_of_minilm_equal_those_of_transformers_for_joined_pairs(minilm, real_data):
    first, second = (column(real_data / "cs224n/sts-dev.csv", f"sentence{side}")[:200] for side in (1, 2))
    table = tokenizer_of(minilm).tokenize(first, read_config(minilm).limit, second)
    assert_states_close(our_states(minilm, table), their_states(minilm, 256, first, second), MINILM_TOLERANCE)


@pytest.mark.parametrize("limit", [8, 12, 13, TINY_LIMIT])
def test_tokens_of_texts_and_pairs_equal_those_of_transformers(tiny, limit):
    first = [*sentences(60, seed=3, longest=50), "", "Ünïcode, punctuation! (and) 123 it's"]
    second = [*sentences(60, seed=4, longest=50), "a film", "(Ünseen)   words\tand 你好 spaces "]
    ours, theirs = tokenizer_of(tiny), AutoTokenizer.from_pretrained(tiny)
    for columns in ([first], [first, second]):
        table = ours.tokenize(first, limit, *columns[1:])
        expected = theirs(*columns, truncation="longest_first", max_length=limit, return_token_type_ids=True)
        assert 0 < table.is_truncated.sum() < len(first)
        assert [table.row(row).tolist() for row in range(len(table))] == expected["input_ids"]
        assert [
            [0] * first_tokens + [1] * (length - first_tokens)
            for first_tokens, length in zip(table.firsts, table.lengths, strict=True)
        ] == expected["token_type_ids"]


def test_limit_is_that_of_transformers(tiny):
    assert read_config(tiny).limit == AutoTokenizer.from_pretrained(tiny).model_max_length == TINY_LIMIT


def test_states_pooler_and_every_gradient_equal_those_of_transformers(tiny):
    first, second = sentences(30, seed=5, longest=10), sentences(30, seed=6, longest=10)
    config = read_config(tiny)
    has_pooler = "pooler" in config.architecture.modules
    encoder = encoder_from(tiny, config, pooler=has_pooler).eval()  # eval: no dropout
    packed = pack_table(tokenizer_of(tiny).tokenize(first, TINY_LIMIT, second), encoder)
    model = AutoModel.from_pretrained(tiny).eval()
    padded = AutoTokenizer.from_pretrained(tiny)(
        first,
        second,
        truncation=True,
        max_length=TINY_LIMIT,
        padding=True,
        return_tensors="pt",
        return_token_type_ids=config.segments > 0,  # left out by default for a tokenizer without its own class
    )
    assert len(set(padded["attention_mask"].sum(dim=1).tolist())) > 10  # many lengths, much padding
    generator = torch.Generator().manual_seed(0)
    weights_STD = torch.randn(*padded["input_ids"].shape, 16, generator=generator)
    weights_SD = torch.randn(30, 16, generator=generator)

    states_ND = encoder(packed)
    pooling = "pooler" if has_pooler else "cls"
    ours, our_pooled_SD = by_text(states_ND, packed), encoder.pool(states_ND, packed, pooling)
    answer = model(**padded)
    lengths = padded["attention_mask"].sum(dim=1)
    theirs = [states_TD[:length] for states_TD, length in zip(answer.last_hidden_state, lengths, strict=True)]
    assert_states_close(ours, theirs, 1e-5)
    their_pooled_SD = answer.pooler_output if has_pooler else answer.last_hidden_state[:, 0]
    torch.testing.assert_close(our_pooled_SD, their_pooled_SD, rtol=0, atol=1e-5)

    for states, pooled_SD in ((ours, our_pooled_SD), (theirs, their_pooled_SD)):
        weighted = [
            (text_TD * weights_TD[: len(text_TD)]).sum()
            for text_TD, weights_TD in zip(states, weights_STD, strict=True)
        ]
        ((sum(weighted) + (pooled_SD * weights_SD).sum()) / 30).backward()
    expected = {name: parameter.grad for name, parameter in model.named_parameters()}
    for parameter in encoder.parameters():
        parameter.data = parameter.grad
    found = to_checkpoint(encoder)  # the gradients under the names of transformers
    assert found.keys() == expected.keys()
    for name, gradient in found.items():
        difference = (gradient - expected[name]).abs().max()
        assert difference <= 1e-5, f"{name}: {difference}"  # gradients of size 1 to 5 in float32


def test_modernbert_with_biases_and_long_windows_equals_that_of_transformers(tiny_modernbert, tmp_path):
    config = AutoConfig.from_pretrained(tiny_modernbert)
    config.attention_bias = config.mlp_bias = config.norm_bias = True
    config.local_attention, config.max_position_embeddings = 64, 300  # 32 tokens to either side
    torch.manual_seed(1)
    model = AutoModel.from_config(config)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter)
    shutil.copytree(tiny_modernbert, tmp_path / "biased")
    model.save_pretrained(tmp_path / "biased")
    texts = [*sentences(20, seed=9), *sentences(4, seed=10, longest=300), " ".join(sentences(60, seed=11))]
    words = json.loads((tiny_modernbert / "tokenizer_config.json").read_text())
    (tmp_path / "biased/tokenizer_config.json").write_text(json.dumps({**words, "model_max_length": 300}))
    limit = read_config(tmp_path / "biased").limit
    table = tokenizer_of(tmp_path / "biased").tokenize(texts, limit)
    assert limit == 300 == table.lengths.max() and table.lengths.min() < 33
    theirs = [state for text in texts for state in their_states(tmp_path / "biased", limit, [text])]
    assert_states_close(our_states(tmp_path / "biased", table), theirs, 1e-5)


def test_buckets_of_distances_are_those_of_transformers():
    distances = torch.arange(-600, 601)
    expected = MPNetEncoder.relative_position_bucket(distances, num_buckets=32)
    assert torch.equal(distance_buckets(distances, 32), expected) and len(expected.unique()) == 31  # 0 has one bucket


def test_special_tokens_in_a_text_are_read_as_in_transformers(tiny):
    texts = ["good [SEP] film", "[MASK] [PAD] cat", "</s> a <s> dog", "bad <mask> song", "a <pad> good film"]
    table = tokenizer_of(tiny).tokenize(texts, TINY_LIMIT)
    assert_states_close(our_states(tiny, table), their_states(tiny, TINY_LIMIT, texts), 1e-5)


def test_embedding_does_not_depend_on_the_other_texts(minilm):
    model = load_model("minilm", device="cpu").model
    texts = list(dict.fromkeys(sentences(60, seed=7, longest=40)))[:50]
    others = sentences(60, seed=8, longest=60)
    together_nD = embed_texts(model, [*others, *texts]).vectors_nD[-50:]
    alone_nD = torch.cat([embed_texts(model, [text]).vectors_nD for text in texts])
    # unit vectors of 384 numbers below 0.3; kernels for other batch shapes round differently
    torch.testing.assert_close(together_nD, alone_nD, rtol=0, atol=2e-6)
