"""What people write today: a FastAPI handler that calls sentence-transformers.

python plain_server.py FOLDER PORT
"""

import sys

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from sentence_transformers import SentenceTransformer

app = FastAPI()
model = SentenceTransformer(sys.argv[1], device="cpu")


class Request(BaseModel):
    input: list[str]
    model: str = ""


@app.post("/v1/embeddings")
def embeddings(request: Request) -> dict:
    """In a thread of FastAPI's pool, so requests run beside each other."""
    found = model.encode(request.input, normalize_embeddings=True).tolist()
    return {"data": [{"index": index, "embedding": one} for index, one in enumerate(found)]}


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")
