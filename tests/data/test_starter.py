"""The data that comes with plait: complete, balanced, varied, and without leaks between its splits."""

import re
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import plait
from plait.data.examples import Examples, sound_examples
from plait.data.labels import labels_from
from plait.data.read import read_rows
from plait.recipe.task import Source

FOLDER = Path(plait.__file__).parent / "data" / "starter"
SPLITS = {"train": 320, "dev": 80, "test": 80}
PAIR = ("sentence1", "sentence2")
SETS = {
    "reviews": (("sentence",), "sentiment", labels_from({"sentiment": [*"01234"]}, "classes")),
    "questions": (PAIR, "is_duplicate", labels_from({"is_duplicate": ["0", "1"]}, "yes_no")),
    "pairs": (PAIR, "similarity", labels_from({"similarity": []}, "score", range=(0, 5))),
}
FOR_EACH_SET = pytest.mark.parametrize("name", SETS)
FOR_EACH_FILE = pytest.mark.parametrize(("name", "split"), [(name, split) for name in SETS for split in SPLITS])


def read(name: str, split: str) -> Examples:
    text, label, labels = SETS[name]
    rows = read_rows([Source(file=str(FOLDER / f"{name}-{split}.csv"))], [*text, label])
    return sound_examples(rows, text, [label], labels)


def texts_of(name: str) -> list[tuple[str, str]]:
    """Every text of a dataset, with the file and line of its row; the two texts of a pair are adjacent."""
    examples = [read(name, split) for split in SPLITS]
    return [
        (origin, text)
        for part in examples
        for origin, *row in zip(part.origins, *part.texts, strict=True)
        for text in row
    ]


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+(?:['’]\w+)*", text.lower())


def test_the_folder_contains_only_these_files():
    assert {path.name for path in FOLDER.iterdir()} == {
        "LICENSE",
        *(f"{name}-{split}.csv" for name in SETS for split in SPLITS),
    }


@FOR_EACH_FILE
def test_every_file_has_the_expected_columns_and_number_of_rows(name, split):
    text, label, _ = SETS[name]
    with (FOLDER / f"{name}-{split}.csv").open(encoding="utf-8") as file:
        assert file.readline() == ",".join([*text, label]) + "\n"
    assert len(read(name, split)) == SPLITS[split]  # reading rejects empty texts and invalid labels


@FOR_EACH_SET
def test_texts_have_3_to_40_words_and_no_surrounding_spaces(name):
    texts = texts_of(name)
    assert len(texts) == 480 * len(SETS[name][0])
    assert [
        (origin, text) for origin, text in texts if not 3 <= len(words_of(text)) <= 40 or text != text.strip()
    ] == []


@FOR_EACH_SET
def test_no_sequence_of_5_words_is_in_more_than_2_percent_of_the_texts(name):
    texts = texts_of(name)
    found = Counter()
    for _, text in texts:
        words = words_of(text)
        found.update({" ".join(words[start : start + 5]) for start in range(len(words) - 4)})
    assert {words: count for words, count in found.items() if count > 0.02 * len(texts)} == {}


def test_no_text_occurs_twice_in_any_dataset():
    places = defaultdict(list)
    for name in SETS:
        for origin, text in texts_of(name):
            places[" ".join(words_of(text))].append(origin)
    assert {text: origins for text, origins in places.items() if len(origins) > 1} == {}


@FOR_EACH_SET
def test_no_two_texts_are_nearly_identical_unless_they_are_a_pair(name):
    texts = texts_of(name)
    sets = [set(words_of(text)) for _, text in texts]
    vocabulary = {word: place for place, word in enumerate(sorted(set.union(*sets)))}
    has_TV = np.zeros((len(texts), len(vocabulary)), dtype=np.float32)
    for row, words in enumerate(sets):
        has_TV[row, [vocabulary[word] for word in words]] = 1
    both_TT = has_TV @ has_TV.T
    sizes_T = has_TV.sum(axis=1)
    jaccard_TT = both_TT / (sizes_T[:, None] + sizes_T[None, :] - both_TT)
    near = [
        (*texts[first], *texts[second])
        for first, second in np.argwhere(np.triu(jaccard_TT, k=1) > 0.6)
        if texts[first][0] != texts[second][0]
    ]
    assert near == []


@pytest.mark.parametrize("split", SPLITS)
def test_the_classes_of_the_reviews_are_balanced(split):
    assert np.bincount(read("reviews", split).labels).tolist() == [SPLITS[split] // 5] * 5


@pytest.mark.parametrize("split", SPLITS)
def test_between_40_and_50_percent_of_the_questions_are_duplicates(split):
    assert 0.4 <= read("questions", split).labels.mean() <= 0.5


def test_the_style_of_the_questions_does_not_give_them_away():
    def style(text: str) -> list[float]:
        return [
            len(text.split()),
            text[0].isupper(),
            text.endswith("?"),
            text.count(","),
            len(re.findall("[.?!] ", text)),
        ]

    parts = {split: read("questions", split) for split in SPLITS}
    features = {
        split: np.array([[*style(one), *style(other)] for one, other in zip(*part.texts, strict=True)], dtype=float)
        for split, part in parts.items()
    }
    learner = make_pipeline(StandardScaler(), LogisticRegression())
    learner.fit(features["train"], parts["train"].labels)
    unseen = [split for split in SPLITS if split != "train"]
    answers_n = learner.predict(np.concatenate([features[split] for split in unseen]))
    labels_n = np.concatenate([parts[split].labels for split in unseen])
    chance = 2 * np.sqrt(0.25 / len(labels_n))  # two standard errors
    assert np.mean(answers_n == labels_n) < max(labels_n.mean(), 1 - labels_n.mean()) + chance


@pytest.mark.parametrize("split", SPLITS)
def test_the_scores_of_the_pairs_cover_the_range(split):
    scores = read("pairs", split).labels
    assert scores.min() <= 0.2 and scores.max() >= 4.8
    counts, _ = np.histogram(scores, bins=5, range=(0, 5))
    assert (counts >= 0.1 * len(scores)).all() and (counts <= 0.3 * len(scores)).all(), counts
    assert len(np.unique(scores)) >= 30


@pytest.mark.parametrize("split", SPLITS)
def test_rows_are_not_sorted_by_label(split):
    for name in SETS:
        labels = read(name, split).labels
        place = np.corrcoef(np.arange(len(labels)), labels)[0, 1]
        assert abs(place) < 4 / np.sqrt(len(labels)), name  # four standard deviations of a random order
