"""Exported graphs predict the same as the model, in any runtime."""

import json
import re
import shutil
import sys
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx.reference import ReferenceEvaluator
from tokenizers import Tokenizer
from torch import nn

import plait
from every_task import CLASSES, ONE, SHARED, TASKS, make_model, save
from full_disk import full_disk
from plait.data.batch import VIEWS
from plait.errors import ExecutionError, ModelError, RequestError
from plait.export import check, export
from plait.export.export import export_onnx
from plait.export.texts import sample_columns, sample_texts
from plait.heads import HEADS, Head
from plait.model.decode import LINKS
from plait.model.directory.load import load_model
from plait.model.directory.record import open_directory
from plait.model.directory.save import write_manifest, write_record
from plait.model.encode_texts import predict_columns
from plait.model.ensemble_build import copy_model
from tiny import sentences

LONG = " ".join(sentences(30, seed=4))
TEXTS = ["good", *sentences(9, seed=3, longest=30), LONG, "?"]
FIELDS = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}


@pytest.fixture(autouse=True)
def few_texts(monkeypatch):
    """Check exports with few texts, for speed; tests/cli/test_export.py exports with the real number."""
    monkeypatch.setattr(export, "_SAMPLE", 20)


def columns_of(count: int) -> list[list[str]]:
    """Columns of texts of all lengths, each shifted by one."""
    return [[*TEXTS[shift:], *TEXTS[:shift]] for shift in range(count)]


def run(folder, name, columns, limit, outputs=None, names=None) -> dict[str, np.ndarray]:
    """The outputs of a graph, run from its manifest as a program without plait would."""
    facts = json.loads((folder / "onnx/manifest.json").read_text())["graphs"][name]
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(limit)
    tokenizer.enable_padding(pad_id=5)
    texts = {"first": columns[0], "second": columns[1:2] and columns[1], "third": columns[2:] and columns[2]}
    if len(columns) > 1:
        texts["joined"] = list(zip(columns[0], columns[1], strict=True))
        texts["swapped"] = list(zip(columns[1], columns[0], strict=True))
    feed = {}
    for view, given in facts["inputs"].items():
        read = tokenizer.encode_batch(texts["first" if view == "text" else view])
        feed |= {name: np.array([getattr(one, FIELDS[what]) for one in read]) for what, name in given.items()}
    session = onnxruntime.InferenceSession(folder / "onnx" / name)
    return dict(zip(facts["outputs"], session.run(list(facts["outputs"]), feed), strict=True))


def check_outputs(folder, tolerance=1e-4) -> None:
    """Compare every output of every graph with the model, on texts that the export did not use."""
    model = load_model(folder, device="cpu").model
    graphs = json.loads((folder / "onnx/manifest.json").read_text())["graphs"]
    assert {
        facts["task"] for graph in graphs.values() for facts in graph["outputs"].values() if "task" in facts
    } == set(model.tasks)
    for name, graph in graphs.items():
        for output, facts in graph["outputs"].items():
            columns = columns_of(len(VIEWS[graph["reads"]]) if graph["reads"] in ("apart", "triple") else 2)
            found = run(folder, name, columns, facts["limit"])[output]
            if "task" not in facts:
                expected = plait.load(folder, engine="torch").embed(columns[0])
                if output == "pooled" and model.normalise:
                    found = found / np.linalg.norm(found, axis=1, keepdims=True)
            else:
                spec = model.tasks[facts["task"]]
                predictions = predict_columns(model, spec.name, columns[: len(spec.text)]).predictions
                expected = predictions.values if predictions.probabilities is None else predictions.probabilities
                assert facts.get("classes", []) == list(spec.labels.names)
                assert facts.get("range", [1.0, 5.0]) == [1.0, 5.0]
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, expected, atol=tolerance, err_msg=f"{name} {output}")


def test_these_tests_cover_every_head_and_every_link():
    assert {head for _, _, head, _, _ in TASKS.values()} == set(HEADS)
    assert {link for *_, link in TASKS.values()} == set(LINKS)


def test_every_task_predicts_the_same_as_in_torch(exported):
    check_outputs(exported)
    names = {path.name for path in (exported / "onnx").iterdir()}
    ways = {"single", "apart", "joined", "joined_both", "joined_apart", "triple", "encoder"}
    assert names == {"README.md", "manifest.json", "weights.bin", *(f"{way}.onnx" for way in ways)}


@pytest.mark.parametrize(
    ("kind", "pooling", "normalise", "shared_layer"),
    [
        ("bert", "cls", False, "tanh"),
        ("bert", "max", True, None),
        ("bert", "pooler", False, None),
        ("bert", "weighted", True, None),
        ("roberta", "weighted", False, "tanh"),
        ("roberta", "mean", True, {"name": "tanh", "dropout": 0.1}),
        ("roberta", "max", False, None),
        ("roberta", "pooler", True, None),
        ("distilbert", "mean", True, None),
        ("mpnet", "pooler", False, None),
        ("mpnet", "mean", True, "tanh"),
    ],
)
def test_all_encoders_poolings_and_a_shared_layer_export(kind, pooling, normalise, shared_layer, request, tmp_path):
    tasks = SHARED if shared_layer else ("mood", "same", "turn", "far")
    encoder = request.getfixturevalue(f"tiny_{kind}")
    model = make_model(encoder, tasks, pooling=pooling, normalise=normalise, shared_layer=shared_layer)
    export_onnx(str(save(model, tmp_path / "model", shared_layer)), tmp_path / "out")
    check_outputs(tmp_path / "out")


def test_modernbert_is_refused(tiny_modernbert, tmp_path):
    with pytest.raises(RequestError) as caught:
        export_onnx(str(tiny_modernbert), tmp_path / "out")
    message = "a modernbert encoder cannot be exported to ONNX; use it with plait itself"
    assert caught.value.mistakes == (f"{tiny_modernbert}: {message}",) and not (tmp_path / "out").exists()


def test_padding_tokens_that_occur_in_a_text_have_no_position_in_roberta(tiny_roberta, tmp_path):
    export_onnx(str(tiny_roberta), tmp_path / "out")
    texts = ["a <pad><pad> good film", "<pad>", "film <pad>", "a good film and a bad book"]
    found = run(tmp_path / "out", "single.onnx", [texts], 40)["embedding"]
    np.testing.assert_allclose(found, plait.load(tiny_roberta).embed(texts), atol=1e-5)


def test_a_plain_encoder_becomes_a_model_that_embeds(tiny_bert, tmp_path):
    done = export_onnx(str(tiny_bert), tmp_path / "new/out")
    assert [graph.name for graph in done.graphs] == ["single.onnx", "encoder.onnx"]
    expected = plait.load(tiny_bert).embed(TEXTS)
    for engine in ("torch", "onnx"):
        loaded = plait.load(tmp_path / "new/out", engine=engine)
        assert loaded.engine == engine and not loaded.tasks
        np.testing.assert_allclose(loaded.embed(TEXTS), expected, atol=1e-5)


def test_the_model_in_an_export_has_the_same_bytes(untrained, exported):
    for path in untrained.rglob("*"):
        if path.is_file():
            assert (exported / path.relative_to(untrained)).read_bytes() == path.read_bytes()


def test_batch_sizes_may_change_between_calls_and_padding_changes_nothing(exported):
    session = onnxruntime.InferenceSession(exported / "onnx/single.onnx")
    generator = np.random.default_rng(0)
    ids = generator.integers(5, 100, size=(6, 40))
    lengths = np.array([40, 1, 7, 2, 39, 3])
    mask = (np.arange(40) < lengths[:, None]).astype(np.int64)
    together = session.run(["embedding", "mood"], {"input_ids": ids, "attention_mask": mask})
    for row, length in enumerate(lengths):
        alone = session.run(
            ["embedding", "mood"],
            {"input_ids": ids[row : row + 1, :length], "attention_mask": mask[row : row + 1, :length]},
        )
        for one, all_ in zip(alone, together, strict=True):
            np.testing.assert_allclose(one[0], all_[row], atol=1e-5)


@pytest.mark.parametrize(("graph", "task", "count"), [("apart", "kind", 2), ("triple", "far", 3)])
def test_the_texts_of_a_pair_may_differ_in_length(graph, task, count, exported):
    predictor = plait.load(exported, engine="torch")
    for short in range(count):
        sides = [["good", "a cat"] if side == short else [LONG, "a storm and a river"] for side in range(count)]
        found = run(exported, f"{graph}.onnx", sides, 40)[task]
        expected = [list(one.probabilities.values()) for one in predictor.predict(task, list(zip(*sides, strict=True)))]
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_graphs_are_standard_onnx_and_share_their_weights(untrained, exported, exported_int8):
    weights = sum(tensor.numel() for tensor in load_model(untrained, device="cpu").model.state_dict().values())
    for folder, size in ((exported, 4 * weights), (exported_int8, 2 * weights)):
        files = sorted((folder / "onnx").glob("*.onnx"))
        for path in files:
            onnx.checker.check_model(path, full_check=True)
            model = onnx.load(path, load_external_data=False)
            assert {node.domain for node in model.graph.node} == {""}
            places = {entry.value for tensor in model.graph.initializer for entry in tensor.external_data[:1]}
            assert places == {"weights.bin"}
            assert [info.type.tensor_type.shape.dim[0].dim_param for info in model.graph.input][:1] == ["texts"]
        assert len(files) == 7
        assert (folder / "onnx/weights.bin").stat().st_size < 1.3 * size  # alignment matters in such a small model


@pytest.mark.parametrize("graph", ["single", "joined_both"])
def test_the_reference_implementation_of_onnx_agrees(graph, exported, exported_int8):
    generator = np.random.default_rng(0)
    for folder, tolerance in ((exported, 1e-5), (exported_int8, 0.02)):  # 8-bit numbers may be rounded differently
        model = onnx.load(folder / f"onnx/{graph}.onnx")
        feed = {}
        for given in model.graph.input:
            numbers = generator.integers(100 if given.name.endswith("input_ids") else 2, size=(3, 9))
            mask = np.arange(9) < np.array([[9], [4], [1]])
            feed[given.name] = mask.astype(np.int64) if given.name.endswith("mask") else numbers
        expected = onnxruntime.InferenceSession(folder / f"onnx/{graph}.onnx").run(None, feed)
        for ours, theirs in zip(ReferenceEvaluator(model).run(None, feed), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=tolerance)


def test_the_code_in_the_readme_runs_and_predicts_the_same_as_plait(exported, tmp_path):
    page = (exported / "onnx/README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 7
    predictor = plait.load(exported, engine="torch")
    texts = ["a text", "another text"]
    for code in blocks:
        found: dict = {}
        here = code.replace("../", f"{exported}/").replace('Session("', f'Session("{exported}/onnx/')
        exec(here, found)
        names = re.search(r"zip\(\[(.*)\], found\)", code)[1].replace("'", "").split(", ")
        outputs = dict(zip(names, found["found"], strict=True))
        if "mood" in outputs:
            expected = [list(one.probabilities.values()) for one in predictor.predict("mood", texts)]
            np.testing.assert_allclose(outputs["mood"], expected, atol=1e-4)
        if "order" in outputs:
            pairs = [("a text", "its second text"), ("another text", "the other's second")]
            expected = [list(one.probabilities.values()) for one in predictor.predict("order", pairs)]
            np.testing.assert_allclose(outputs["order"], expected, atol=1e-4)
    assert "| `mood` | (texts, 3), probabilities of: bad, fair, good; truncate inputs to 20 tokens |" in page
    same = "(texts, 2), probabilities of: no, yes; the prediction is yes from 0.5; truncate inputs to 40 tokens"
    assert f"| `same` | {same} |" in page
    assert "| `near` | (texts,), a score from 1 to 5; truncate inputs to 40 tokens |" in page
    assert "| `attention_mask.task` | (texts,), a score from 1 to 5;" in page


def test_sample_texts_have_many_lengths():
    texts = sample_texts(200)
    assert len(texts) == 200 and min(map(len, texts)) == 1 and max(map(len, texts)) > 2000
    first, second = sample_columns(200, 2)
    assert first == texts and second[:199] == texts[1:]


def test_a_graph_that_differs_is_refused_and_leaves_nothing(untrained, tmp_path, monkeypatch):
    monkeypatch.setattr(check, "_LARGEST_DIFFERENCE", 1e-12)
    with pytest.raises(
        ExecutionError, match=r"single.onnx: mood differs from the model by \S+, expected at most 1e-12"
    ):
        export_onnx(str(untrained), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_int8_graphs_that_differ_too_much_are_refused(untrained, tmp_path, monkeypatch):
    monkeypatch.setattr(check, "_LOWEST_COSINE", 1.0)
    message = r"single.onnx: the cosine between an int8 embedding and the model's own is [01]\.\d+, .* without --int8"
    with pytest.raises(ExecutionError, match=message):
        export_onnx(str(untrained), tmp_path / "out", int8=True)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_output_is_refused(untrained, tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(RequestError, match="out: already exists; choose another name"):
        export_onnx(str(untrained), tmp_path / "out")


def test_an_ensemble_is_exported_member_by_member(untrained, tiny_bert, tmp_path):
    from plait.model.ensemble_build import build_ensemble

    other = make_model(tiny_bert, TASKS, pooling="cls")
    save(other, tmp_path / "other")
    build_ensemble([str(untrained), str(tmp_path / "other")], tmp_path / "both")
    with pytest.raises(RequestError, match=r"an ensemble; export its members one by one, such as \S+/both/members/1"):
        export_onnx(str(tmp_path / "both"), tmp_path / "out")
    with pytest.raises(RequestError, match="an ensemble has no ONNX graphs; choose the engine torch"):
        plait.load(tmp_path / "both", engine="onnx")
    assert plait.load(tmp_path / "both").engine == "torch"


def test_a_head_with_an_unsupported_operation_is_named(tiny_bert, tmp_path, monkeypatch):
    class Softplus(Head):
        reads = "single"

        def __init__(self, size):
            super().__init__()
            self.linear = nn.Linear(size.width, size.outputs)

        def forward(self, text_BD):
            return torch.nn.functional.softplus(self.linear(text_BD))

    monkeypatch.setattr(HEADS, "_entries", {**HEADS._entries})
    plait.register_head("softplus")(Softplus)
    monkeypatch.setitem(TASKS, "mood", (ONE, CLASSES, "softplus", {}, "softmax"))
    folder = save(make_model(tiny_bert, ["mood"]), tmp_path / "model")
    with pytest.raises(RequestError, match=r"heads.mood: plait export does not support softplus; add it to"):
        export_onnx(str(folder), tmp_path / "out")


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_a_missing_package_is_named_with_its_extra(package, untrained, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        RequestError, match=rf"exporting needs the package.* {package}.*; pip install \"plait\[onnx\]\""
    ):
        export_onnx(str(untrained), tmp_path / "out")


def test_an_export_can_be_exported_again_and_gets_new_graphs(exported, tmp_path):
    shutil.copytree(exported, tmp_path / "first")
    (tmp_path / "first/onnx/stray.txt").write_text("of an earlier export")
    done = export_onnx(str(tmp_path / "first"), tmp_path / "out", int8=True)
    assert done.precision == "int8" and not (tmp_path / "out/onnx/stray.txt").exists()


def test_a_calibrated_task_has_calibrated_probabilities(untrained, tmp_path):
    directory = open_directory(untrained)
    specs = {name: spec for name, spec in directory.record.tasks.items() if not spec.labels.about.is_score}
    warm = {name: replace(spec, temperature=3.0) for name, spec in specs.items()}
    one_label = next(name for name, spec in specs.items() if spec.labels.about.one_class)
    warm[one_label] = replace(warm[one_label], abstain_below=0.4)
    copy_model(directory, tmp_path / "warm")
    write_record(tmp_path / "warm", replace(directory.record, tasks={**directory.record.tasks, **warm}))
    write_manifest(tmp_path / "warm", [tmp_path / "warm" / name for name in directory.manifest])
    found = export_onnx(str(tmp_path / "warm"), tmp_path / "exported")  # refused if a graph disagrees with the model
    assert max(one.largest for one in found.agreements) < 1e-4  # float32
    before, after = plait.load(untrained), plait.load(tmp_path / "exported", engine="onnx")
    texts = columns_of(1)[0]
    name = next(name for name, spec in specs.items() if spec.link == "softmax" and len(spec.text) == 1)
    plain, cooled = (model.predict(name, texts, abstain_below=0).probabilities for model in (before, after))
    assert (cooled.max(axis=1) < plain.max(axis=1)).all()
    graphs = json.loads((tmp_path / "exported/onnx/manifest.json").read_text())["graphs"].values()
    outputs = {one["task"]: one for graph in graphs for one in graph["outputs"].values() if "task" in one}
    assert outputs[one_label]["abstain_below"] == 0.4
    assert "withheld" in (tmp_path / "exported/onnx/README.md").read_text()


def test_a_full_disk_names_the_target(untrained, tmp_path):
    with full_disk(20_000), pytest.raises(OSError, match="File too large") as caught:
        export_onnx(str(untrained), tmp_path / "out")
    assert caught.value.filename == str(tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_an_incomplete_manifest_of_graphs_is_refused(exported, tmp_path):
    copy = shutil.copytree(exported, tmp_path / "copy")
    manifest = json.loads((copy / "onnx/manifest.json").read_text())
    (copy / "onnx/manifest.json").write_text(json.dumps({**manifest, "sha256": {}}))
    with pytest.raises(ModelError, match=r"onnx/manifest\.json: missing or damaged; export the model again"):
        load_model(copy, engine="onnx")
