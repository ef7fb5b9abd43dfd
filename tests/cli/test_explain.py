"""`plait explain`."""

import json

import pytest
from rich.console import Console

import plait as package
from plait.cli import display


def test_words_and_weights_of_a_text(trained_run, plait):
    out, err = plait("explain", trained_run, "mood", "the film was good")
    found = package.load(trained_run).explain("mood", "the film was good")
    title, text, *table = [line.rstrip() for line in out.splitlines() if line.strip()]
    assert title == f"mood: {found.label}, probability {found.score:.3f}" and text == "the film was good" and err == ""
    rows = [line.split() for line in table[2:]]
    assert [row[:2] for row in rows] == [[word.word, f"{word.weight:+.3f}"] for _, word in found.strongest]


def test_words_of_a_pair_name_their_text(trained_run, plait):
    out, _ = plait("explain", trained_run, "near", "the dog", "a cat")
    assert out.startswith("near: score ") and "\nthe dog\na cat\n" in out
    rows = [line.split()[:2] for line in out.splitlines() if line.split()[1:2] in (["1"], ["2"])]
    assert sorted(rows) == [["a", "2"], ["cat", "2"], ["dog", "1"], ["the", "1"]]


def test_json_has_every_word(trained_run, plait):
    found = json.loads(plait("explain", trained_run, "mood", "the film " * 10, "--label", "low", "--json")[0])
    assert found["label"] == "low" and len(found["words"][0]) == 20 and found["truncated"] is False
    assert set(found["words"][0][0]) == {"word", "start", "end", "weight"}
    out, _ = plait("explain", trained_run, "mood", "the film " * 10)
    assert "… and 5 more words with smaller weights" in out


def test_a_terminal_shows_colours(trained_run, plait, monkeypatch):
    coloured = Console(highlight=False, markup=False, force_terminal=True, color_system="standard", width=80)
    monkeypatch.setattr(display, "console", lambda: coloured)
    found = package.load(trained_run).explain("mood", "the film was good")
    _, strongest = found.strongest[0]
    code = "1;37;42" if strongest.weight > 0 else "1;37;41"
    with coloured.capture() as captured:
        plait("explain", trained_run, "mood", "the film was good")
    assert f"\x1b[{code}m{strongest.word}\x1b[0m" in captured.get()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mod", "a dog"], "plait: the model has no task 'mod'; did you mean 'mood'?\n"),
        (["near", "a dog"], "plait: the task 'near' reads two texts, 1 given; quote each text\n"),
        (["mood", " "], "plait: TEXT is empty\n"),
        (["mood", "a dog", "--label", "hgh"], "plait: --label: the task 'mood' has no 'hgh'; did you mean 'high'?\n"),
    ],
)
def test_mistakes_are_one_line(trained_run, plait, arguments, message):
    assert plait("explain", trained_run, *arguments, code=2)[1] == message
