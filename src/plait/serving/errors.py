"""Errors as clients see them: a status, a code for programs, a message for people; no path, no traceback."""

import json

__all__ = ["ApiError", "error_body"]


class ApiError(Exception):
    """A request that was not answered."""

    def __init__(self, status: int, code: str, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.retry_after = retry_after  # seconds


def error_body(code: str, message: str, request_id: str) -> bytes:
    """The JSON of an error."""
    return json.dumps({"error": {"code": code, "message": message, "request_id": request_id}}).encode()
