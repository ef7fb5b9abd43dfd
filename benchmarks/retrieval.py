"""Does BM25 beside vectors find more? A question of a duplicate pair must find its partner among all dev questions.

    python benchmarks/retrieval.py [--model MODEL]

Quora's dev file; the question itself is left out of its own results. `both` fuses the two lists of 100 by reciprocal
rank (1 / (60 + rank)) or by a weighted sum of scores that are scaled to 0..1. Needs
benchmarks/peers/search.txt.
"""

import argparse

import bm25s
import numpy as np
from quora import labelled_pairs, question_index, questions

DEPTH = 100
RANK_OFFSET = 60


def scores_of(orders: list[np.ndarray], wanted: list[int]) -> tuple[float, float]:
    """recall@10 and MRR@10."""
    ranks = [np.flatnonzero(order[:10] == partner) for order, partner in zip(orders, wanted, strict=True)]
    return float(np.mean([len(rank) > 0 for rank in ranks])), float(
        np.mean([1 / (1 + rank[0]) if len(rank) else 0 for rank in ranks])
    )


def without(order: np.ndarray, scores: np.ndarray, own: int) -> tuple[np.ndarray, np.ndarray]:
    return order[order != own][:DEPTH], scores[order != own][:DEPTH]


def scaled(scores: np.ndarray) -> np.ndarray:
    return (scores - scores.min()) / max(scores.max() - scores.min(), 1e-9)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="minilm")
    model = parser.parse_args().model
    texts = questions()
    number = {text: place for place, text in enumerate(texts)}
    pairs = [(number[first], number[second]) for first, second, same in labelled_pairs() if same]
    asked, wanted = [first for first, _ in pairs], [second for _, second in pairs]
    index = question_index(model, model.replace("/", "-"))
    vectors = np.concatenate([block.vectors_nD for block in index.blocks()])
    hits = index.nearest(vectors[asked], top_k=DEPTH + 1)
    by_vectors = [
        without(np.array([int(hit.id) for hit in found]), np.array([hit.score for hit in found]), own)
        for found, own in zip(hits, asked, strict=True)
    ]
    retriever = bm25s.BM25()
    retriever.index(bm25s.tokenize(texts, stopwords="en", show_progress=False), show_progress=False)
    tokens = bm25s.tokenize([texts[own] for own in asked], stopwords="en", show_progress=False)
    rows, scores = retriever.retrieve(tokens, k=DEPTH + 1, show_progress=False)
    by_words = [without(*found) for found in zip(rows, scores, asked, strict=True)]
    results = {"vectors": [order for order, _ in by_vectors], "BM25": [order for order, _ in by_words]}
    fused: dict[str, list[np.ndarray]] = {"both, by rank": []}
    for (near, near_scores), (lexical, lexical_scores) in zip(by_vectors, by_words, strict=True):
        candidates = np.union1d(near, lexical)
        ranked = dict.fromkeys(candidates.tolist(), 0.0)
        for order in (near, lexical):
            for rank, text in enumerate(order.tolist(), start=1):
                ranked[text] += 1 / (RANK_OFFSET + rank)
        fused["both, by rank"].append(np.array(sorted(ranked, key=lambda text: -ranked[text])))
        vector_score = dict(zip(near.tolist(), scaled(near_scores).tolist(), strict=True))
        word_score = dict(zip(lexical.tolist(), scaled(lexical_scores).tolist(), strict=True))
        for weight in (0.1, 0.2, 0.3):
            total = {
                text: (1 - weight) * vector_score.get(text, 0) + weight * word_score.get(text, 0)
                for text in candidates.tolist()
            }
            name = f"both, BM25 weighs {weight}"
            fused.setdefault(name, []).append(np.array(sorted(total, key=lambda text: -total[text])))
    print(f"{len(texts):,} questions, {len(asked):,} queries, model {model}")
    for name, orders in (results | fused).items():
        recall, rank = scores_of(orders, wanted)
        print(f"{name:24} recall@10 {recall:.3f}  MRR@10 {rank:.3f}")


if __name__ == "__main__":
    main()
