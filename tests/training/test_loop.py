"""A whole run on a tiny encoder."""

import json

import plait


def test_a_run_writes_everything_it_promises(tiny_recipe, tmp_path):
    result = plait.train(tiny_recipe(), tmp_path / "run")
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {".lock", "recipe.yaml", "run.json", "metrics.jsonl", "baselines.json", "best", "result.json"}
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["kind"] == "train"] == [1, 2, 3, 4, 5, 6]
    assert [line["step"] for line in lines if line["kind"] == "scores"] == [3, 6]
    assert set(result.scores) == {"mood", "same", "near"}
