"""A tiny encoder and tiny tasks, made on the spot."""

import csv
import json
import random
import string
from pathlib import Path

from tokenizers import ByteLevelBPETokenizer, Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.implementations import BertWordPieceTokenizer

WORDS = (
    "the a this that film book meal train phone song dog cat child storm garden river was is seems felt looked good "
    "bad great awful slow quick bright dull warm cold not never very quite rather almost loved hated liked bought saw "
    "heard walked ran slept and but so because when where who why how what"
).split()
HAPPY = {"good", "great", "bright", "warm", "loved", "liked", "quick"}


def sentences(count: int, seed: int = 0, longest: int = 12) -> list[str]:
    """Random word salad of mixed length, the same for the same seed."""
    generator = random.Random(seed)
    return [" ".join(generator.choices(WORDS, k=generator.randint(1, longest))) for _ in range(count)]


def make_checkpoint(folder: Path, kind: str, seed: int = 0) -> Path:
    """A random encoder in Hugging Face's layout, written by transformers, with a tokenizer of our own words."""
    import torch
    from transformers import BertConfig, BertModel, RobertaConfig, RobertaModel

    folder.mkdir(parents=True)
    if kind == "bert":
        tokenizer = Tokenizer.from_str(BertWordPieceTokenizer(word_pieces(), lowercase=True).to_str())
        pad = tokenizer.token_to_id("[PAD]")
        special = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
        tokenizer.post_processor = processors.BertProcessing(
            ("[SEP]", tokenizer.token_to_id("[SEP]")), ("[CLS]", tokenizer.token_to_id("[CLS]"))
        )
    else:
        names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
        made = ByteLevelBPETokenizer(*byte_pairs(names))
        made.add_special_tokens(names)
        tokenizer = Tokenizer.from_str(made.to_str())
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        pad = tokenizer.token_to_id("<pad>")
        special = {"pad_token": "<pad>", "cls_token": "<s>", "sep_token": "</s>", "unk_token": "<unk>"}
        special |= {"bos_token": "<s>", "eos_token": "</s>", "mask_token": "<mask>"}
        tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    sizes = {
        "vocab_size": tokenizer.get_vocab_size(),
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 42 if kind == "bert" else 42 + pad + 1,
        "pad_token_id": pad,
        "initializer_range": 0.3,  # far from 0, so that mistakes show
    }
    torch.manual_seed(seed)
    model = (
        BertModel(BertConfig(**sizes)) if kind == "bert" else RobertaModel(RobertaConfig(type_vocab_size=1, **sizes))
    )
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"model_max_length": 40, "tokenizer_class": "PreTrainedTokenizerFast", **special}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def word_pieces() -> dict[str, int]:
    """Our words whole, others in letters; a vocabulary that is trained would differ from process to process."""
    letters = string.ascii_lowercase + string.digits + string.punctuation
    pieces = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *letters,
        *(f"##{letter}" for letter in letters),
        *WORDS,
    ]
    return {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}


def byte_pairs(names: list[str]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """All bytes, and each word as one piece."""
    pieces, merges = [*names, *sorted(pre_tokenizers.ByteLevel.alphabet())], []
    for word in WORDS:
        start = "Ġ"
        for letter in word:
            if (start, letter) not in merges:
                merges.append((start, letter))
            start += letter
            pieces.append(start)
    return {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}, merges


def write_tasks(folder: Path, encoder: Path, rows: int = 24) -> dict:
    """Three little tasks whose labels follow from the words, as files and as the keys of a recipe."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, seed in (("train", 1), ("dev", 2)):
        first, second = sentences(rows, seed), sentences(rows, seed + 10)
        write_csv(
            folder / f"mood-{split}.csv",
            ["sentence", "mood"],
            [(a, ("low", "high")[bool(HAPPY & set(a.split()))]) for a in first],
        )
        same = [
            (a, b if row % 2 else a + " indeed", int(row % 2 == 0))
            for row, (a, b) in enumerate(zip(first, second, strict=True))
        ]
        write_csv(folder / f"same-{split}.csv", ["one", "two", "same"], same)
        near = [
            (a, b, round(5 * len(set(a.split()) & set(b.split())) / len(set(a.split() + b.split())), 2))
            for a, b in zip(first, second, strict=True)
        ]
        write_csv(folder / f"near-{split}.csv", ["one", "two", "near"], near)
    pair = ["one", "two"]
    return {
        "encoder": str(encoder),
        "tasks": {
            "mood": {**files(folder, "mood"), "text": "sentence", "label": "mood"},
            "same": {**files(folder, "same"), "text": pair, "label": "same"},
            "near": {**files(folder, "near"), "text": pair, "label": {"column": "near", "range": [0, 5]}},
        },
        "epochs": 2,
        "batch_size": 8,
        "lr": 1e-3,
    }


def files(folder: Path, name: str) -> dict[str, str]:
    return {split: str(folder / f"{name}-{split}.csv") for split in ("train", "dev")}


def write_csv(path: Path, header: list[str], rows: list[tuple]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
