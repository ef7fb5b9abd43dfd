# plait serve on a CPU, for a model that is mounted at /model:
#   docker build -t plait .
#   docker run --rm -p 8000:8000 -v ./runs/starter/best:/model:ro -e PLAIT_TOKEN=… plait
# PIP_FLAGS is passed to pip; README.md explains how to get the small CPU build of torch with it.
FROM python:3.11-slim

ARG PIP_FLAGS=""
WORKDIR /build
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src ./src
RUN pip install --no-cache-dir $PIP_FLAGS -c constraints.txt ".[serve,onnx]"

RUN useradd --create-home --uid 10001 plait
USER plait
WORKDIR /home/plait
ENV HF_HUB_OFFLINE=1 PYTHONUNBUFFERED=1
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=2)"]
ENTRYPOINT ["plait", "serve"]
CMD ["model=/model", "--host", "0.0.0.0"]
