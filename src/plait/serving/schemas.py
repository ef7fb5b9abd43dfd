"""Requests and answers, as /docs describes them."""

from typing import Annotated, Any, Literal

from annotated_types import Ge, Le
from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "AnalyzeRequest",
    "AnalyzeResponse",
    "AnalyzedText",
    "EmbeddingEntry",
    "EmbeddingRequest",
    "EmbeddingResponse",
    "EmbeddingUsage",
    "ErrorDetail",
    "ErrorResponse",
    "ExplainRequest",
    "ExplainResponse",
    "ExplainedExample",
    "ModelEntry",
    "ModelList",
    "ModelResponse",
    "PredictRequest",
    "PredictResponse",
    "PredictionResponse",
    "RankedText",
    "ReloadResponse",
    "RerankRequest",
    "RerankResponse",
    "SearchHit",
    "SearchRequest",
    "SearchResponse",
    "SimilarityRequest",
    "SimilarityResponse",
    "StatusResponse",
    "TaskResponse",
    "Usage",
    "WordResponse",
]

_Texts = str | list[str]
_Pair = Annotated[list[str], Field(min_length=2, max_length=2)]
_Triplet = Annotated[list[str], Field(min_length=3, max_length=3)]
_Share = Annotated[float, Ge(0), Le(1)]


class _Request(BaseModel):
    """Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid")


class EmbeddingRequest(BaseModel):
    """As OpenAI defines it; keys that plait does not know, such as `user`, are ignored."""

    input: str | list[str] | list[int] | list[list[int]] = Field(description="One text, or several.")
    model: str = Field(description="The name of a model, as GET /v1/models lists it.")
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Ge(1)] | None = Field(
        None, description="Only the first numbers, scaled to a unit vector."
    )


class PredictRequest(_Request):
    """Exactly one of `texts`, `pairs` and `triplets`, whichever the task reads."""

    texts: _Texts | None = Field(None, description="One text, or several.")
    pairs: _Pair | list[_Pair] | None = Field(None, description="One pair of texts, or several.")
    triplets: _Triplet | list[_Triplet] | None = Field(None, description="One triplet of texts, or several.")
    top_k: Annotated[int, Ge(1)] | None = Field(None, description="Only the most likely classes, most likely first.")
    threshold: _Share | None = Field(
        None,
        description="The probability from which a yes/no task says yes, and a multilabel task assigns a label.",
    )
    abstain_below: _Share | None = Field(
        None,
        description="The label is null if its probability is lower; by default as the model was calibrated, 0: never.",
    )


class AnalyzeRequest(_Request):
    """Texts for every task that reads one text, and for the embedding."""

    texts: _Texts
    tasks: list[str] | None = Field(None, description="Only these tasks.")
    embedding: bool = Field(True, description="Whether to return the embedding.")
    top_k: Annotated[int, Ge(1)] | None = None


class ExplainRequest(_Request):
    """One text, or the texts of one pair or triplet."""

    example: str | Annotated[list[str], Field(min_length=1, max_length=3)]
    label: str | None = Field(None, description="The class to explain; without it, the predicted one.")


class SimilarityRequest(_Request):
    """The cosine of every text of `first` with every text of `second`, or of `first` if there is no `second`."""

    first: _Texts
    second: _Texts | None = None


class RerankRequest(_Request):
    """Texts to be ordered by how well they fit a query."""

    query: str
    texts: list[str]
    task: str | None = Field(None, description="A task that scores a pair; without it, the cosine of the embeddings.")
    top_k: Annotated[int, Ge(1)] | None = Field(None, description="Only the best texts.")
    return_texts: bool = False


class SearchRequest(_Request):
    """Texts to look for in an index."""

    queries: _Texts = Field(description="One text, or several.")
    top_k: Annotated[int, Ge(1), Le(10_000)] = Field(10, description="Rows for each query.")
    index: str | None = Field(None, description="The name of an index; the first one of several.")


class Usage(BaseModel):
    tokens: int = Field(description="Tokens that the encoder read.")
    truncated: int = Field(description="Examples that were truncated.")


class PredictionResponse(BaseModel):
    """As `plait.Prediction`."""

    label: str | list[str] | None
    score: float | None
    probabilities: dict[str, float | None] | None


class PredictResponse(BaseModel):
    model: str
    task: str
    predictions: list[PredictionResponse]
    usage: Usage


class AnalyzedText(BaseModel):
    tasks: dict[str, PredictionResponse]
    embedding: list[float] | None


class AnalyzeResponse(BaseModel):
    model: str
    results: list[AnalyzedText]
    usage: Usage


class WordResponse(BaseModel):
    word: str
    start: int = Field(description="Its first character in the text.")
    end: int = Field(description="After its last character.")
    weight: float = Field(description="What the score loses without this word.")


class ExplainedExample(BaseModel):
    """As `plait.Explanation`."""

    task: str
    label: str | None
    score: float
    texts: list[str]
    words: list[list[WordResponse]]
    truncated: bool


class ExplainResponse(BaseModel):
    model: str
    explanation: ExplainedExample
    usage: Usage


class SimilarityResponse(BaseModel):
    model: str
    similarities: list[list[float]]
    usage: Usage


class RankedText(BaseModel):
    index: int
    score: float
    text: str | None = None


class RerankResponse(BaseModel):
    model: str
    results: list[RankedText]
    usage: Usage


class SearchHit(BaseModel):
    """As `plait.Hit`."""

    id: str
    score: float = Field(description="The cosine with the query.")
    text: str
    row: dict[str, Any] = Field(description="All columns of the corpus.")


class SearchResponse(BaseModel):
    model: str
    index: str
    results: list[list[SearchHit]] = Field(description="The hits of each query, best first.")
    usage: Usage


class EmbeddingEntry(BaseModel):
    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingUsage(BaseModel):
    prompt_tokens: int
    total_tokens: int


class EmbeddingResponse(BaseModel):
    object: Literal["list"]
    data: list[EmbeddingEntry]
    model: str
    usage: EmbeddingUsage


class ModelEntry(BaseModel):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(BaseModel):
    object: Literal["list"]
    data: list[ModelEntry]


class TaskResponse(BaseModel):
    kind: str
    texts: int = Field(description="How many texts an example has.")
    labels: list[str] | None
    range: list[float] | None
    threshold: float | None
    abstain_below: float | None = Field(description="The default of requests; null: every label is given.")
    max_length: int
    head: str
    metric: str
    scores: Any = Field(description="Scores on dev, by metric.")


class ModelResponse(BaseModel):
    name: str
    identity: str = Field(description="Changes with the weights.")
    engine: str
    dimensions: int
    max_length: int = Field(description="Tokens to which texts are truncated before they are embedded.")
    members: int = Field(description="Models of an ensemble; otherwise 1.")
    tasks: dict[str, TaskResponse]
    indexes: dict[str, int] = Field(description="The rows of each index of this model.")


class ReloadResponse(BaseModel):
    changed: dict[str, bool] = Field(description="Whether each model differs from the one before.")


class StatusResponse(BaseModel):
    status: str


class ErrorDetail(BaseModel):
    code: str
    message: str
    request_id: str


class ErrorResponse(BaseModel):
    error: ErrorDetail
