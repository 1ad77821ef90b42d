# Builds the wheel in one stage and installs it in the final image, which runs as an unprivileged user with a read-only
# root file system. All instructions work on linux/amd64 and linux/arm64:
#   docker buildx build --platform linux/amd64,linux/arm64 .
#
# The lock files pin the version and hash of each package (`make lock` updates them). The base image is referenced by
# tag to receive updates. The release workflow resolves the tag and passes the digest; so does a reproducible build:
#   docker build --build-arg BASE=python:3.13-slim@sha256:… .
#
# Without a container engine, `make image-root` runs these instructions on a Debian root file system.
ARG BASE=python:3.13-slim
FROM ${BASE} AS build
WORKDIR /build
COPY requirements.lock requirements-build.lock ./
# Wheels only: the build runs no downloaded code.
RUN pip install --no-cache-dir --require-hashes --only-binary=:all: -r requirements-build.lock \
    && pip download --no-cache-dir --require-hashes --only-binary=:all: --no-deps --dest /wheels -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
# `moorage new` copies these manifests into new projects, so the wheel contains them.
COPY deploy ./deploy
RUN pip wheel --no-cache-dir --no-build-isolation --no-deps --wheel-dir /wheels .

FROM ${BASE}
LABEL org.opencontainers.image.title="moorage" \
      org.opencontainers.image.description="The Kubernetes scheduler in Python" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels 'moorage[dra]' \
    && useradd --uid 65532 --no-create-home --shell /usr/sbin/nologin moorage
# Charts that run kube-scheduler's image start this path; only the name of the image changes.
RUN printf '#!/bin/sh\nexec moorage scheduler "$@"\n' > /usr/local/bin/kube-scheduler \
    && chmod 755 /usr/local/bin/kube-scheduler
USER 65532:65532
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
EXPOSE 10259
# For engines without probes. Kubernetes ignores it; the manifests have probes.
HEALTHCHECK --interval=10s --timeout=5s --start-period=15s \
    CMD ["python3", "-c", "import ssl, urllib.request as r; r.urlopen('https://127.0.0.1:10259/livez', timeout=4, context=ssl._create_unverified_context())"]
ENTRYPOINT ["moorage"]
CMD ["scheduler"]
