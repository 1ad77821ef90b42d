# Moorage with this plugin in it. The base is Moorage's own image: `make image` in its repository builds it.
ARG BASE=moorage:{{ moorage }}
FROM ${BASE}
USER root
COPY pyproject.toml README.md /build/
COPY src /build/src
# --no-deps: Moorage is there already, at the versions of its lock file. Name what else the plugin needs here.
RUN pip install --no-cache-dir --no-deps /build && rm -r /build
USER 65532:65532
