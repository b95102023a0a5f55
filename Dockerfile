# syntax=docker/dockerfile:1
# One image for every process: `turnfleet gateway`, `worker`, `recorder`, `console`, and the tools.
# The base is a tag of one release; pass a digest to hold it to the byte: `make image-digest` prints it.
# checkov:skip=CKV_DOCKER_7: the argument's default is the tag of one release
ARG PYTHON_IMAGE=python:3.11.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
WORKDIR /build
RUN python -m venv /opt/turnfleet && python -m venv /opt/build
COPY requirements.txt requirements-build.txt ./
RUN /opt/turnfleet/bin/pip install --no-cache-dir --no-deps --require-hashes -r requirements.txt \
    && /opt/build/bin/pip install --no-cache-dir --no-deps --require-hashes -r requirements-build.txt
COPY pyproject.toml README.md LICENSE ./
COPY shared ./shared
COPY worker ./worker
COPY gateway ./gateway
COPY ops ./ops
RUN /opt/build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /opt/turnfleet/bin/pip install --no-cache-dir --no-deps --no-index /wheels/*.whl

FROM ${PYTHON_IMAGE} AS runtime
# What tables are drawn with; what the release has is right, whichever build of it.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends fonts-dejavu-core fonts-noto-cjk fonts-noto-color-emoji \
    && rm -rf /var/lib/apt/lists/*
# Named volumes inherit this owner; otherwise the unprivileged process could not write its spool.
RUN groupadd --gid 10001 turnfleet \
    && useradd --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin turnfleet \
    && install -d -o 10001 -g 10001 -m 0700 /var/lib/turnfleet
COPY --from=build /opt/turnfleet /opt/turnfleet
ENV PATH=/opt/turnfleet/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    TURNFLEET_DATA_DIR=/var/lib/turnfleet \
    TURNFLEET_HEALTH_LISTEN=:9464
USER 10001:10001
WORKDIR /var/lib/turnfleet
EXPOSE 9464
HEALTHCHECK --interval=15s --timeout=5s --start-period=20s --retries=4 \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:9464/healthz', timeout=4)"]
ENTRYPOINT ["turnfleet"]
CMD ["--help"]
