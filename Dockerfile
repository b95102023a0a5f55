# syntax=docker/dockerfile:1
FROM python:3.11-slim-bookworm AS build
WORKDIR /build
RUN python -m venv /opt/turnfleet
COPY requirements.txt ./
RUN /opt/turnfleet/bin/pip install --no-cache-dir --require-hashes -r requirements.txt
COPY pyproject.toml README.md LICENSE ./
COPY shared ./shared
COPY worker ./worker
COPY gateway ./gateway
COPY ops ./ops
RUN python -m venv /opt/build \
    && /opt/build/bin/pip install --no-cache-dir "hatchling>=1.25,<2" \
    && /opt/build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels .
RUN /opt/turnfleet/bin/pip install --no-cache-dir --no-deps --no-index /wheels/*.whl

FROM python:3.11-slim-bookworm AS runtime
# Named volumes inherit this owner; otherwise the unprivileged process could not write its spool.
RUN groupadd --gid 10001 turnfleet \
    && useradd --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin turnfleet \
    && install -d -o 10001 -g 10001 -m 0700 /var/lib/turnfleet
COPY --from=build /opt/turnfleet /opt/turnfleet
ENV PATH=/opt/turnfleet/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    TURNFLEET_DATA_DIR=/var/lib/turnfleet
USER 10001:10001
WORKDIR /var/lib/turnfleet
ENTRYPOINT ["turnfleet"]
CMD ["--help"]
