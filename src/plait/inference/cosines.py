"""Cosines of embeddings.

n vectors, D width.
"""

import numpy as np

__all__ = ["unit_vectors"]


def unit_vectors(vectors_nD: np.ndarray) -> np.ndarray:
    """The same directions with length 1, so that a product of two is their cosine."""
    scaled: np.ndarray = vectors_nD / np.maximum(np.linalg.norm(vectors_nD, axis=1, keepdims=True), 1e-12)
    return scaled
