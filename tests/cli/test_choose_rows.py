"""Dev rows that choose the best model, on the command line."""

import json

from plait.recipe.read import recipe_text


def test_every_command_says_which_dev_rows_are_scored(plait, tiny_recipe, tmp_path):
    (tmp_path / "recipe.yaml").write_text(recipe_text(tiny_recipe(epochs=1, choose_rows=8)), encoding="utf-8")
    sentence = "mood: 8 of 24 dev rows choose the best model, the others are scored"
    shown, _ = plait("check", tmp_path / "recipe.yaml", "--no-trial")
    assert sentence in shown and "24 train, 16 dev, 8 choosing" in shown
    _, notes = plait("train", tmp_path / "recipe.yaml", "--out", tmp_path / "run", "--no-baselines", "--no-report")
    assert sentence in notes and "rows that choose: " in notes
    out, notes = plait("evaluate", tmp_path / "run", "--json")
    assert {task["rows"] for task in json.loads(out.splitlines()[-1])["scores"].values()} == {16}
    assert "mood: 8 dev rows chose the model; the other 16 are scored" in notes + out
    out, _ = plait("evaluate", tmp_path / "run", "--split", "train", "--json")
    assert {task["rows"] for task in json.loads(out.splitlines()[-1])["scores"].values()} == {24}
