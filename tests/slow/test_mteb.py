"""The lines of docs/export.md score a model with MTEB, here on its own mock tasks."""

import re
from pathlib import Path

import numpy as np
import pytest

import plait

REPO = Path(__file__).parent.parent.parent
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # of MTEB and the libraries that it imports
]


def test_lines_of_the_docs_score_the_embeddings_of_a_model(trained_run, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MTEB_CACHE", str(tmp_path / "cache"))
    mteb = pytest.importorskip("mteb", reason="mteb is not installed")
    from mteb import mocks

    page = (REPO / "docs/export.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```py\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    mock_tasks = [mocks.MockSTSTask(), mocks.MockClassificationTask(), mocks.MockRetrievalTask()]
    evaluate, results = mteb.evaluate, []

    def keep_result(*given, **options):
        results.append(evaluate(*given, **options))
        return results[-1]

    monkeypatch.setattr(mteb, "get_tasks", lambda tasks: mock_tasks)
    monkeypatch.setattr(mteb, "evaluate", keep_result)
    monkeypatch.chdir(trained_run.parent)
    exec(code.replace("runs/first/best", str(trained_run / "best")), {})
    assert "MockSTSTask" in capsys.readouterr().out
    scores = {result.task_name: result.scores["test"][0] for result in results[0].task_results}
    assert scores.keys() == {"MockSTSTask", "MockClassificationTask", "MockRetrievalTask"}
    rows = mock_tasks[0].dataset["test"]
    model = plait.load(trained_run)
    cosines = np.diag(model.similarity(rows["sentence1"], rows["sentence2"]))
    expected = np.corrcoef(cosines, rows["score"])[0, 1]
    assert scores["MockSTSTask"]["cosine_pearson"] == pytest.approx(expected, abs=1e-5)  # rounding of float32
