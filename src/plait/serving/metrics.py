"""The metrics for Prometheus, at /metrics."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

__all__ = ["Metrics"]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_EXAMPLES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_TOKENS = (16, 32, 64, 128, 256, 512, 1024, 2048)


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        disable_created_metrics()  # the time of each counter's first use
        registry = self._registry = CollectorRegistry()
        self.requests = Counter("plait_requests", "Requests answered.", ["route", "status"], registry=registry)
        self.seconds = Histogram(
            "plait_request_seconds", "Time to answer a request.", ["route"], buckets=_SECONDS, registry=registry
        )
        self.tokens = Counter("plait_tokens", "Tokens of accepted requests.", registry=registry)
        self.texts = Counter("plait_examples", "Texts, pairs and triplets of accepted requests.", registry=registry)
        self.truncated = Counter("plait_truncated_examples", "Those that were truncated.", registry=registry)
        self.dropped = Counter(
            "plait_dropped_requests", "Requests given up while they waited.", ["reason"], registry=registry
        )
        self.restarts = Counter("plait_worker_restarts", "Workers that crashed or got stuck.", registry=registry)
        self.reloads = Counter("plait_reloads", "Times that the models were loaded again.", registry=registry)
        self._batch_examples = Histogram(
            "plait_batch_examples", "Examples in a batch.", buckets=_EXAMPLES, registry=registry
        )
        self._batch_tokens = Histogram("plait_batch_tokens", "Tokens in a batch.", buckets=_TOKENS, registry=registry)

    def add_gauge(self, name: str, about: str, value: Callable[[], float]) -> None:
        """A gauge whose value is read when Prometheus asks for it."""
        Gauge(name, about, registry=self._registry).set_function(value)

    def note_batch(self, examples: int, tokens: int) -> None:
        """Count a batch."""
        self._batch_examples.observe(examples)
        self._batch_tokens.observe(tokens)

    def page(self) -> bytes:
        """The text that Prometheus reads."""
        return generate_latest(self._registry)
