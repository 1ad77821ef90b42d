# Builds the wheel in one image and installs it in another, which runs as nobody in particular.
FROM python:3.12-slim AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip wheel --no-cache-dir --wheel-dir /wheels .

FROM python:3.12-slim
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels moorage \
    && useradd --uid 65532 --no-create-home --shell /usr/sbin/nologin moorage
USER 65532:65532
ENV PYTHONDONTWRITEBYTECODE=1
ENTRYPOINT ["moorage"]
CMD ["scheduler"]
