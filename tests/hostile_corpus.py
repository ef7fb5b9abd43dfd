"""Hostile model directories, recipes, data files and archives: each tries to run code, to open a file outside, or to
send something."""

import gzip
import hashlib
import json
import os
import pickle
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import torch

EVIL = "import os\nos.system('touch ran')\nraise SystemExit('ran')\n"
OUTSIDE = ("../outside/secret.json", "/etc/passwd", "a/../../outside/secret.json", "..", "a\0b", "")
ENTITY = '<!DOCTYPE x [<!ENTITY secret SYSTEM "file:///etc/passwd"><!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>'


class _Runs:
    """Its pickle runs a command."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.system, ("touch ran",)


def make_corpus(folder: Path, model: Path) -> Path:
    """Write everything below a folder: models, recipes, data, pickles; `model` is an honest plait model."""
    for name in ("models", "recipes", "data", "pickles", "outside"):
        (folder / name).mkdir(parents=True)
    (folder / "outside/secret.json").write_text('{"pooling_mode": "mean", "secret": 1}')
    _write_models(folder / "models", model)
    _write_recipes(folder / "recipes", Path(shutil.copytree(model, folder / "honest")))
    _write_data(folder / "data")
    _write_pickles(folder / "pickles", model)
    return folder


def change_json(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def renew_manifest(model: Path) -> None:
    """Give a changed model the manifest that its author would write."""
    named = json.loads((model / "manifest.json").read_text())["sha256"]
    there = {
        name: hashlib.sha256((model / name).read_bytes()).hexdigest() for name in named if (model / name).is_file()
    }
    (model / "manifest.json").write_text(json.dumps({"sha256": there}))


def _write_models(folder: Path, model: Path) -> None:
    def copy(name: str) -> Path:
        place = Path(shutil.copytree(model, folder / name))
        for word in ("numpy", "torch", "modeling_evil", "plait", "conftest", "sitecustomize"):
            (place / f"{word}.py").write_text(EVIL)
        return place

    def task_with(**changes: Any) -> list[dict[str, Any]]:
        tasks = json.loads((model / "plait.json").read_text())["tasks"]
        return [{**tasks[0], **changes}, *tasks[1:]]

    renew_manifest(copy("code beside it"))
    for number, name in enumerate(OUTSIDE):
        place = copy(f"manifest {number}")
        named = json.loads((place / "manifest.json").read_text())["sha256"]
        (place / "manifest.json").write_text(json.dumps({"sha256": {**named, name: "0" * 64}}))
        place = copy(f"index {number}")
        for file in ("model.safetensors", "plait.json", "manifest.json"):
            (place / file).unlink()
        (place / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
        place = copy(f"modules {number}")
        for file in ("plait.json", "manifest.json"):
            (place / file).unlink()
        modules = [{"type": "sentence_transformers.models.Pooling", "path": name}]
        (place / "modules.json").write_text(json.dumps(modules))
    code = {"auto_map": {"AutoModel": "modeling_evil.Model", "AutoTokenizer": ["modeling_evil.T", None]}}
    place = copy("remote code")
    change_json(place / "config.json", **code, trust_remote_code=True, custom_pipelines=code)
    change_json(place / "tokenizer_config.json", **code, tokenizer_class="modeling_evil.T")
    renew_manifest(place)
    for name, head in {"module": "modeling_evil.Head", "function": "os.system", "call": "__import__('os')"}.items():
        place = copy(f"head {name}")
        packages = {f"{head}.v1": {"name": "modeling_evil", "version": "1"}}
        change_json(place / "plait.json", tasks=task_with(head=head), packages=packages)
        renew_manifest(place)
    place = copy("options")
    change_json(place / "plait.json", tasks=task_with(head_options={"__class__": "os.system", "self": 1}))
    renew_manifest(place)
    for file in ("heads.safetensors", "model.safetensors", "tokenizer.json", "config.json", "plait.json"):
        place = copy(f"pickle as {file}")
        (place / file).write_bytes(pickle.dumps(_Runs()))
        renew_manifest(place)
    place = copy("pickled weights")
    for file in ("plait.json", "manifest.json", "model.safetensors"):
        (place / file).unlink()
    torch.save({"weights": _Runs()}, place / "pytorch_model.bin")


def _write_recipes(folder: Path, model: Path) -> None:
    (folder / "mood.csv").write_text("sentence,mood\na good film,high\na bad meal,low\n")
    plain = f"encoder: {model}\ntasks:\n  mood: {{train: mood.csv, text: sentence, label: mood}}\n"
    texts = {
        "apply": plain + 'seed: !!python/object/apply:os.system ["touch ran"]\n',
        "new": plain + "seed: !!python/object/new:subprocess.Popen [[touch, ran]]\n",
        "name": plain + "seed: !!python/name:os.system\n",
        "module": plain + "seed: !!python/module:modeling_evil\n",
        "tag": plain + "seed: !os.system {a: b}\n",
        "head": plain.replace("label: mood", "label: mood, head: os.system"),
        "loss": plain.replace("label: mood", "label: mood, loss: \"__import__('os')\""),
        "template": plain + "tracker: \"{{ ''.__class__.__mro__ }}\"\n",
        "absolute task": plain.replace("mood:", "/outside:", 1),
        "parent task": plain.replace("mood:", "../outside:", 1),
        "null task": plain.replace("mood:", '"a\\0b":', 1),
        "hub encoder": plain.replace(str(model), "evil-owner/evil-model"),
        "address": plain.replace(str(model), "http://192.0.2.1/model"),
        "hub data": plain.replace("mood.csv", "hub:evil-owner/evil-data"),
        "data address": plain.replace("mood.csv", '"http://192.0.2.1/x.csv"'),
        "null file": plain.replace("mood.csv", '"a\\0b.csv"'),
    }
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)


def _write_data(folder: Path) -> None:
    (folder / "formulas.csv").write_text("sentence,mood\n=HYPERLINK(1),high\n@SUM(1),low\n")
    (folder / "escapes.csv").write_text("sentence,mood\n\x1b]0;evil\x07 a film,high\n\x1b[2J,low\n")
    (folder / "objects.jsonl").write_text('{"sentence": {"__reduce__": ["os.system"]}, "mood": "__import__(\'os\')"}\n')
    (folder / "pickle.csv").write_bytes(pickle.dumps(_Runs()))
    (folder / "pickle.parquet").write_bytes(pickle.dumps(_Runs()))
    (folder / "pickle.csv.gz").write_bytes(gzip.compress(pickle.dumps(_Runs())))
    (folder / "bomb.csv.gz").write_bytes(gzip.compress(b"sentence,mood\n" + b"a,b\n" * 5_000_000))
    extension = {"ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": pickle.dumps(_Runs())}
    field = pyarrow.field("sentence", pyarrow.string(), metadata=extension)
    table = pyarrow.table([["a film"]], schema=pyarrow.schema([field]))
    pyarrow.parquet.write_table(table, folder / "extension.parquet")
    for name, entity in {"entity": "&secret;", "many": "&b;"}.items():
        with zipfile.ZipFile(folder / f"{name}.xlsx", "w") as archive:
            for part, text in _spreadsheet(entity).items():
                archive.writestr(part, text)
    with zipfile.ZipFile(folder / "slip.xlsx", "w") as archive:
        archive.writestr("../../outside/slipped", "x")
        archive.writestr("/etc/slipped", "x")


def _spreadsheet(entity: str) -> dict[str, str]:
    """A spreadsheet whose only text is an entity, with a link to a file outside."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    relation = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    return {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types">'
        f'<Override PartName="/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/>'
        f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{kind}.worksheet+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships">'
        f'<Relationship Id="r1" Type="{relation}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{relation}">'
        '<sheets><sheet name="a" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships">'
        f'<Relationship Id="r1" Type="{relation}/worksheet" Target="worksheets/sheet1.xml"/>'
        f'<Relationship Id="r2" Type="{relation}/externalLink" Target="file:///etc/passwd" TargetMode="External"/>'
        "</Relationships>",
        "xl/worksheets/sheet1.xml": f'<?xml version="1.0"?>{ENTITY}<worksheet xmlns="{main}"><sheetData>'
        f'<row r="1"><c r="A1" t="inlineStr"><is><t>{entity}</t></is></c></row></sheetData></worksheet>',
    }


def _write_pickles(folder: Path, model: Path) -> None:
    weights = torch.zeros(2)
    torch.save({"model": {"a": weights, "b": _Runs()}}, folder / "zip.pt")
    torch.save(_Runs(), folder / "old.pt", _use_new_zipfile_serialization=False)
    (folder / "bare.bin").write_bytes(pickle.dumps({"a": _Runs()}))
    for protocol in range(5):
        (folder / f"protocol-{protocol}.bin").write_bytes(pickle.dumps(_Runs(), protocol))
    for name in ("config.json", "tokenizer.json"):
        shutil.copyfile(model / name, folder / name)
