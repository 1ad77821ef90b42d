# Builds the wheel in one image and installs it in another, which runs as nobody in particular.
#
# Every package is taken at the version and with the hash that the lock files give (`make lock` writes them anew). The
# base image is named by its tag, so that it is not an old one; whoever wants the same bytes every time names it by digest:
#   docker build --build-arg BASE=python:3.12-slim@sha256:… .
ARG BASE=python:3.12-slim
FROM ${BASE} AS build
WORKDIR /build
COPY requirements.lock requirements-build.lock ./
# Wheels only: nothing that is downloaded runs while the image is built.
RUN pip install --no-cache-dir --require-hashes --only-binary=:all: -r requirements-build.lock \
    && pip download --no-cache-dir --require-hashes --only-binary=:all: --no-deps --dest /wheels -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
# `moorage new` gives a project a copy of these: the package has a link to them.
COPY deploy ./deploy
RUN pip wheel --no-cache-dir --no-build-isolation --no-deps --wheel-dir /wheels .

FROM ${BASE}
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels moorage \
    && useradd --uid 65532 --no-create-home --shell /usr/sbin/nologin moorage
USER 65532:65532
ENV PYTHONDONTWRITEBYTECODE=1
ENTRYPOINT ["moorage"]
CMD ["scheduler"]
