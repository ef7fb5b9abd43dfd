"""Requests that schemathesis makes up from the server's own description get the answers that it describes."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from inline_server import InlineServer

CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)
SETTINGS = settings(
    max_examples=15, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


@pytest.fixture(scope="module")
def api(server: InlineServer):
    return schemathesis.openapi.from_dict(server.get("/openapi.json").json())


ROUTES = [
    ("POST", "/v1/embeddings"),
    ("GET", "/v1/models/{model}"),
    ("POST", "/predict/{task}"),
    ("POST", "/explain/{task}"),
    ("POST", "/analyze"),
    ("POST", "/similarity"),
    ("POST", "/rerank"),
    ("POST", "/search"),
    ("GET", "/model"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_invented_requests_get_described_answers(server, api, method, path):
    operation = api[path][method]
    statuses = set()

    @given(case=operation.as_strategy())
    @settings(SETTINGS)
    def check(case) -> None:
        sent = case.as_transport_kwargs(base_url="http://localhost")
        sent = {name: value for name, value in sent.items() if name in ("method", "url", "params", "json", "headers")}
        response = server.run(server.http.request(**sent))
        statuses.add(response.status_code)
        case.validate_response(response, checks=CHECKS)

    check()
    assert statuses <= {200, 404, 422}


def test_undescribed_answer_is_noticed(server):
    description = server.get("/openapi.json").json()
    del description["paths"]["/predict/{task}"]["post"]["responses"]["404"]
    case = schemathesis.openapi.from_dict(description)["/predict/{task}"]["POST"].Case(path_parameters={"task": "none"})
    response = server.post("/predict/none", {"texts": "a"})
    with pytest.raises(FailureGroup, match="Undocumented status code"):
        case.validate_response(response, checks=CHECKS)
