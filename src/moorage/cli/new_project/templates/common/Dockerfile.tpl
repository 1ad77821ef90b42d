# Moorage with this plugin. `make image` in the repository of Moorage builds the base image.
ARG BASE=moorage:{{ moorage }}
FROM ${BASE}
USER root
COPY pyproject.toml README.md /build/
COPY src /build/src
# --no-deps: the base image contains Moorage and its locked dependencies. Add further dependencies of the plugin here.
RUN pip install --no-cache-dir --no-deps /build && rm -r /build
USER 65532:65532
