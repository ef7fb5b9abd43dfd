"""A small encoder with real weights, so that every method can be trained in a second or two."""

import csv
import json
import shutil
from pathlib import Path

REPO = Path(__file__).parent.parent
LAYERS = 2


def make_small_minilm(folder: Path, minilm: Path) -> Path:
    """The first layers of minilm, with only the tokens that occur in the data of the recipes."""
    from safetensors.torch import load_file, save_file
    from tokenizers import Tokenizer

    folder.mkdir(parents=True)
    tokenizer = Tokenizer.from_file(str(minilm / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    used = {tokenizer.token_to_id(token) for token in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")}
    for path in (*(REPO / "src/plait/data/starter").glob("*.csv"), REPO / "tests/methods/nli.csv"):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                used.update(*(tokenizer.encode(cell).ids for cell in row.values()))
    kept = sorted(used)
    (folder / "vocab.txt").write_text("".join(f"{tokenizer.id_to_token(token)}\n" for token in kept), encoding="utf-8")
    shutil.copy(minilm / "tokenizer_config.json", folder)
    config = json.loads((minilm / "config.json").read_text(encoding="utf-8"))
    config |= {"num_hidden_layers": LAYERS, "vocab_size": len(kept)}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    weights = {
        name: tensor.contiguous()
        for name, tensor in load_file(minilm / "model.safetensors").items()
        if not name.startswith("encoder.layer.") or int(name.split(".")[2]) < LAYERS
    }
    words = "embeddings.word_embeddings.weight"
    save_file({**weights, words: weights[words][kept].contiguous()}, folder / "model.safetensors")
    return folder
