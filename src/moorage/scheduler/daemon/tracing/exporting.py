"""Where spans go: an OTLP collector over HTTP, from a bounded queue of OpenTelemetry's own."""

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from moorage.common.errors import InputError
from moorage.common.version import version_line

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

PATH: Final = "/v1/traces"
MILLION: Final = 1_000_000


def traces_url(endpoint: str) -> str:
    """Complete the address of a collector; raise InputError if it is invalid.

    >>> traces_url("http://localhost:4318")
    'http://localhost:4318/v1/traces'
    """
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        hint = "write the address of an OTLP/HTTP collector, such as http://localhost:4318"
        raise InputError("--tracing-endpoint", f"{endpoint!r} is not a URL of http or https", hint=hint)
    return endpoint if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}{PATH}"


def sampled_share(per_million: int) -> float:
    """Turn the sampling rate into a share; raise InputError if it is invalid."""
    if not 0 <= per_million <= MILLION:
        problem = f"{per_million} is not a number from 0 to {MILLION}"
        raise InputError("--tracing-sampling-rate-per-million", problem)
    return per_million / MILLION


def provider_for(endpoint: str) -> "TracerProvider":
    """Build the provider of spans; OTEL_EXPORTER_OTLP_* variables set headers, certificates and other options."""
    url = traces_url(endpoint)
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON
    except ImportError as error:
        hint = "pip install 'moorage[tracing]'"
        raise InputError("--tracing-endpoint", f"OpenTelemetry is not installed: {error}", hint=hint) from error
    resource = Resource.create({"service.name": "moorage-scheduler", "service.version": version_line()})
    # Sampling is decided before a span exists, so attempts without a trace cost nothing.
    provider = TracerProvider(resource=resource, sampler=ALWAYS_ON, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=url)))
    return provider
