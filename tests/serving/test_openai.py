"""OpenAI's own client works against the server."""

import openai
import pytest

from inline_server import InlineServer
from tiny import sentences


@pytest.fixture
def client(server: InlineServer) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url="http://localhost/v1", api_key="none", http_client=server.http, max_retries=0)


@pytest.mark.parametrize("form", [{}, {"encoding_format": "float"}])  # the client asks for base64 unless told otherwise
def test_embeddings_equal_those_of_python(server, client, predictor, form):
    texts = sentences(5, seed=1)
    answer = server.run(client.embeddings.create(model="tiny", input=texts, **form))
    assert [one.index for one in answer.data] == list(range(5)) and answer.model == "tiny"
    found = [[float(number) for number in one.embedding] for one in answer.data]
    expected = predictor.embed(texts)
    # As JSON, a float32 has the fewest digits that tell it from its neighbours.
    assert found == (expected.tolist() if not form else [[float(str(x)) for x in row] for row in expected])
    assert answer.usage.prompt_tokens == answer.usage.total_tokens == sum(len(text.split()) + 2 for text in texts)


def test_one_text_needs_no_list(server, client):
    assert len(server.run(client.embeddings.create(model="tiny", input="a dog")).data) == 1


def test_dimensions_cut_and_normalise(server, client, predictor):
    answer = server.run(client.embeddings.create(model="tiny", input="a dog", dimensions=4))
    part = predictor.embed(["a dog"])[0][:4]
    assert answer.data[0].embedding == pytest.approx((part / (part @ part) ** 0.5).tolist(), abs=1e-6)


def test_models_are_listed(server, client):
    async def names() -> list[str]:
        return [model.id async for model in client.models.list()]

    assert server.run(names()) == ["tiny"]
    assert server.run(client.models.retrieve("tiny")).id == "tiny"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"model": "ada", "input": "a"}, openai.NotFoundError, "there is no model 'ada'; allowed: tiny"),
        ({"model": "tiny", "input": [1, 2]}, openai.UnprocessableEntityError, "expected texts, found token ids"),
        ({"model": "tiny", "input": ["a", ""]}, openai.UnprocessableEntityError, "input: text 1 is empty"),
        (
            {"model": "tiny", "input": "a", "dimensions": 17},
            openai.UnprocessableEntityError,
            "17, but the model has 16",
        ),
    ],
)
def test_errors_reach_the_client(server, client, options, error, message):
    with pytest.raises(error, match=message) as caught:
        server.run(client.embeddings.create(**options))
    assert caught.value.code in ("unknown_model", "invalid_request", "invalid_text")
