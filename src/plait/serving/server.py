"""A server from startup to shutdown: listen, drain after SIGTERM or SIGINT, reload the models after SIGHUP."""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn
import uvloop

from plait.errors import RequestError
from plait.serving.app import make_app
from plait.serving.connections import limited_protocol
from plait.serving.errors import ApiError
from plait.serving.service import Service
from plait.serving.settings import Settings

__all__ = ["run_server"]

_BACKLOG = 1024  # connections that the system may hold before they are accepted
_log = logging.getLogger("plait.serving")


def run_server(settings: Settings, started: Callable[[str], None]) -> None:
    """Serve until a signal; `started` receives the address once requests are answered."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings, started))


async def _serve(settings: Settings, started: Callable[[str], None]) -> None:
    listener = _listen(settings.host, settings.port)
    service = Service(settings)
    limits = settings.limits
    config = uvicorn.Config(
        make_app(service),
        http=limited_protocol(limits),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_keep_alive=int(limits.keep_alive_seconds),
        timeout_graceful_shutdown=int(limits.drain_seconds),
    )
    server = _Server(config, service)
    try:
        await service.open()
        host, port = listener.getsockname()[:2]
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        await server.serve_on(listener, lambda: started(address))
    finally:
        listener.close()
        await service.close()


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise RequestError(f"--host {host} --port {port}: cannot listen there: {error.strerror}") from None
    return listener


class _Server(uvicorn.Server):
    """uvicorn's server with our signals."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service
        self._reloads: set[asyncio.Task[None]] = set()

    async def serve_on(self, listener: socket.socket, started: Callable[[], None]) -> None:
        """Serve until a signal."""
        serving = asyncio.create_task(self.serve(sockets=[listener]))
        while not self.started and not serving.done():
            await asyncio.sleep(0.01)
        started()
        await serving

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._drain)
        loop.add_signal_handler(signal.SIGHUP, self._start_reload)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                loop.remove_signal_handler(number)

    def _drain(self) -> None:
        """Stop listening and answer what was accepted; a second signal ends the server at once."""
        self.force_exit = self.should_exit
        self.should_exit = self._service.is_draining = True

    def _start_reload(self) -> None:
        task = asyncio.get_running_loop().create_task(self._reload())
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)

    async def _reload(self) -> None:
        try:
            await self._service.reload()
        except ApiError as error:
            _log.error("SIGHUP: %s", error.message)
