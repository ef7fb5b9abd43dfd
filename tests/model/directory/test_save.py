"""What a saved model directory contains."""

import json

from plait.model.directory.record import open_directory, portable


def test_the_directory_has_exactly_these_files(saved):
    names = {path.relative_to(saved).as_posix() for path in saved.rglob("*") if path.is_file()}
    assert names == {
        "1_Pooling/config.json",
        "README.md",
        "config.json",
        "heads.safetensors",
        "manifest.json",
        "model.safetensors",
        "modules.json",
        "plait.json",
        "sentence_bert_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    manifest = json.loads((saved / "manifest.json").read_text())["sha256"]
    assert set(manifest) == names - {"README.md", "manifest.json"}


def test_the_model_card_describes_data_scores_recipe_and_limits(saved):
    card = (saved / "README.md").read_text()
    for part in ("## Use", "## Tasks", "## Scores on dev", "## Data", "## Recipe", "## Limits", "frozen encoder"):
        assert part in card
    assert "mood-train.csv | 24" in card and "encoder: bert" in card
    assert str(saved.parent.parent) not in card, "a path of the machine that trained it"


def test_no_file_reveals_where_the_model_was_trained(saved):
    for path in saved.rglob("*.json"):
        assert str(saved.parent.parent) not in path.read_text(), path.name
    recipe = open_directory(saved).record.provenance.recipe
    assert portable(recipe) == recipe


def test_heads_are_saved_with_their_version(saved):
    tasks = json.loads((saved / "plait.json").read_text())["tasks"]
    assert [task["head"] for task in tasks] == ["linear.v1", "difference_product.v1", "cosine.v1"]


def test_all_files_have_the_same_permissions(saved):
    modes = {path.stat().st_mode & 0o777 for path in saved.rglob("*") if path.is_file()}
    assert len(modes) == 1, "the weights have other permissions than the rest"
