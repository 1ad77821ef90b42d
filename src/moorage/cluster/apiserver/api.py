"""The Kubernetes API on a store, without HTTP: a request becomes a response or a watch.

This module routes requests to the verbs. ``reading`` has lists, watches and tables, ``writing`` changes and deletions.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from secrets import token_urlsafe
from typing import Any, Final

import msgspec

from moorage.cluster.apiserver.admission.chain import Admission, undecodable
from moorage.cluster.apiserver.admission.policies import POLICIES, unenforced_expressions
from moorage.cluster.apiserver.admission.service_addresses import kubernetes_service
from moorage.cluster.apiserver.conversions import from_stored, to_stored
from moorage.cluster.apiserver.discovery import openapi
from moorage.cluster.apiserver.discovery.custom_resources import (
    DEFINITIONS,
    CustomResources,
    complete_definition,
    definition_warnings,
)
from moorage.cluster.apiserver.discovery.documents import Discovery, server_version
from moorage.cluster.apiserver.reading.listing import Lists
from moorage.cluster.apiserver.reading.representations import Representation, select_representation
from moorage.cluster.apiserver.reading.selection import selection
from moorage.cluster.apiserver.reading.tables.printing import select_printer
from moorage.cluster.apiserver.reading.watching import Watch, WatchTerms
from moorage.cluster.apiserver.requests.bodies import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    read_object,
    read_options,
    read_patch,
    repeated_fields,
)
from moorage.cluster.apiserver.requests.request import JSON, ApiRequest, ApiResponse, Target, parse_target
from moorage.cluster.apiserver.storage.store import Entry, Store
from moorage.cluster.apiserver.users import Tokens
from moorage.cluster.apiserver.writing.apply import ApplyRequest
from moorage.cluster.apiserver.writing.field_types import FieldTypes
from moorage.cluster.apiserver.writing.field_values import MissingKey
from moorage.cluster.apiserver.writing.managed_fields import Writing
from moorage.cluster.apiserver.writing.subresources import bind, change_scale, evict, get_scale
from moorage.cluster.apiserver.writing.writer import (
    NEEDS_VERSION,
    DeleteOptions,
    WriteOptions,
    Writer,
    encode_body,
)
from moorage.common.clock import Clock
from moorage.common.errors import ApiError
from moorage.kube.admission.pod_admission import BUILT_IN_CLASSES
from moorage.kube.api.cluster import Namespace
from moorage.kube.api.codec import without_nulls
from moorage.kube.api.kinds import CREATE_ONLY
from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.struct import Data
from moorage.kube.features import FeatureGates
from moorage.kube.field_errors import required_value
from moorage.kube.patches import json_patch, merge_patch, strategic_merge
from moorage.kube.resources import Resources, ServedResource
from moorage.kube.schema import empty_null_texts, find_kind_schema, unknown_fields
from moorage.kube.status_errors import (
    bad_request,
    error_status,
    invalid_options,
    method_not_allowed,
    not_acceptable,
    path_not_found,
    success_status,
    unsupported_media_type,
    version_required,
)

Edit = Callable[[Data], Data]
NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
HEALTH: Final = ("/healthz", "/livez", "/readyz")
SHOWS_DELETED: Final = frozenset(
    (
        *("pods", "namespaces", "persistentvolumeclaims", "persistentvolumes", "serviceaccounts", "services"),
        *("podtemplates", "resourcequotas"),
        *(f"{plural}.storage.k8s.io" for plural in ("csidrivers", "csinodes", "storageclasses", "volumeattachments")),
        "volumeattributesclasses.storage.k8s.io",
        *(
            f"{plural}.resource.k8s.io"
            for plural in ("deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices")
        ),
    )
)
"""Resources that return the object instead of a Status when they are deleted."""
CREATED_BY_PUT: Final = frozenset(
    (
        *("endpoints", "services", "limitranges", "leases.coordination.k8s.io", "runtimeclasses.node.k8s.io"),
        *(f"{plural}.rbac.authorization.k8s.io" for plural in ("roles", "rolebindings")),
        *(f"{plural}.rbac.authorization.k8s.io" for plural in ("clusterroles", "clusterrolebindings")),
    )
)
"""Resources that an update creates if they do not exist."""
SIGNING_REQUESTS: Final = "certificatesigningrequests.certificates.k8s.io"
USER_FIELDS: Final = ("username", "uid", "groups", "extra")
_CREATED_PARTS: Final = ("binding", "eviction", "token")
"""Subresources that can only be created."""


class Api:
    """A complete API server without the network: pass requests to :meth:`answer`.

    Generated names and UIDs are drawn from ``chance``; a simulation that must be repeatable passes a seeded generator.
    """

    def __init__(
        self,
        clock: Clock,
        store: Store | None = None,
        *,
        features: FeatureGates | None = None,
        tokens: Tokens | None = None,
        chance: Random | None = None,
    ) -> None:
        self.store = store if store is not None else Store()
        self.clock = clock
        features = features or FeatureGates()
        self._version = server_version(features)
        self._can_drop = features.enabled("ManagedFieldsOptOut")
        self.resources = Resources(features)
        self._custom = CustomResources(self.store, self.resources)
        self._types = FieldTypes(self._custom.schemas)
        self._writer = Writer(self.store, Admission(self.store, features), clock, self._types, chance)
        self._lists = Lists(self.store, clock)
        self._discovery = Discovery(self.resources)
        self._tokens = tokens or Tokens(token_urlsafe(24))
        self._verbs: dict[str, Callable[[ApiRequest, Target], ApiResponse | Watch]] = {
            "GET": self._read,
            "POST": self._post,
            "PUT": self._put,
            "PATCH": self._patch,
            "DELETE": self._delete,
        }
        self._bootstrap()

    def _bootstrap(self) -> None:
        options = WriteOptions(manager="moorage")
        for name in NAMESPACES:
            target = self._target_of_kind("v1", "Namespace")
            if self.store.get("namespaces", name) is None:
                self._writer.create(target, _typed_data(Namespace(ObjectMeta(name=name)), target), options)
        target = self._target_of_kind("scheduling.k8s.io/v1", "PriorityClass")
        for obj in BUILT_IN_CLASSES:
            if self.store.get(target.resource.storage, obj.name) is None:
                self._writer.create(target, _typed_data(obj, target), options)
        target = replace(self._target_of_kind("v1", "Service"), namespace="default")
        if self.store.get("services", "default/kubernetes") is None:
            self._writer.create(target, kubernetes_service(), options)

    def _target_of_kind(self, api_version: str, kind: str) -> Target:
        resource = self.resources.find_kind(api_version, kind)
        assert resource is not None, kind
        return Target(resource)

    def answer(self, request: ApiRequest) -> ApiResponse | Watch:
        """Execute a request. Errors are returned as Status objects."""
        try:
            if (document := self._document(request)) is not None:
                return document
            target = parse_target(request.path, self.resources)
            carry_out = self._verbs.get(request.method)
            if carry_out is None or (target.resource.verbs == CREATE_ONLY and request.method != "POST"):
                raise method_not_allowed()
            return carry_out(request, target)
        except ApiError as error:
            retry = int(error.retry_after) if error.retry_after is not None else None
            return ApiResponse(msgspec.json.encode(error_status(error)), error.status or 500, retry_after=retry)
        finally:
            if not self._writer.admission.quotas.is_settled:
                self._writer.admission.quotas.settle()

    def _document(self, request: ApiRequest) -> ApiResponse | None:
        """Return a document that is not a resource: health, version, discovery and schemas."""
        path = request.path
        if request.method != "GET" or (path.startswith(("/api/v1/", "/apis/")) and path.count("/") > 3):
            return None
        if path in HEALTH or path.startswith(tuple(f"{prefix}/" for prefix in HEALTH)):
            return ApiResponse(b"ok", content_type="text/plain; charset=utf-8")
        if path == "/version":
            return ApiResponse(encode_body(self._version))
        if path.startswith("/openapi/"):
            return self._openapi(path, request.accept)
        if path == "/":
            return ApiResponse(encode_body({"paths": ["/api", "/apis", "/healthz", "/openapi/v3", "/version"]}))
        document = self._discovery.answer(path, request.accept)
        return ApiResponse(msgspec.json.encode(document[0]), content_type=document[1]) if document is not None else None

    def _openapi(self, path: str, accept: str) -> ApiResponse:
        match path.strip("/").split("/")[1:]:
            case ["v2"] if "openapi.spec.v2" in accept:
                # kubectl reads it to validate manifests. It looks for kinds in the discovery documents.
                return ApiResponse(openapi.V2_PROTOBUF, content_type=openapi.V2_CONTENT_TYPE)
            case ["v2"]:
                return ApiResponse(encode_body(openapi.version_2(self.resources, self._custom.schemas)))
            case ["v3"]:
                return ApiResponse(encode_body(openapi.index(self.resources)))
            case ["v3", "api", version]:
                document = openapi.document(self.resources, "", version, self._custom.schemas)
            case ["v3", "apis", group, version]:
                document = openapi.document(self.resources, group, version, self._custom.schemas)
            case _:
                document = None
        if document is None:
            raise path_not_found()
        return ApiResponse(encode_body(document))

    def _representation(self, request: ApiRequest, resource: ServedResource) -> Representation:
        printer = select_printer(resource.storage, self.clock.now, self._custom.columns(resource))
        include, fill = request.query.get("includeObject", ""), self._custom.defaults_filler(resource)
        can_drop = self._can_drop and request.method == "GET"
        return select_representation(resource, request.accept, printer, include, fill, can_drop=can_drop)

    def _represent(
        self, request: ApiRequest, target: Target, body: bytes, status: int = 200, warnings: tuple[str, ...] = ()
    ) -> ApiResponse:
        return ApiResponse(
            self._representation(request, target.resource).encode_object(body), status, warnings=warnings
        )

    def _read(self, request: ApiRequest, target: Target) -> ApiResponse | Watch:
        if target.name and not request.is_set("watch"):
            entry = self._writer.find(target)
            if target.subresource == "scale":
                return ApiResponse(encode_body(get_scale(entry.data)))
            if target.subresource in (*_CREATED_PARTS, "finalize"):
                raise method_not_allowed()
            return self._represent(request, target, entry.body)
        if target.subresource:
            raise method_not_allowed()
        representation = self._representation(request, target.resource)
        if request.is_set("watch"):
            return Watch(self.store, target.resource, representation, WatchTerms.read(request, target))
        page = self._lists.answer(request, target)
        return ApiResponse(representation.many(page.entries, page.version, page.token, page.remaining))

    def _post(self, request: ApiRequest, target: Target) -> ApiResponse:
        resource = target.resource
        if resource.plural == "bindings" and not resource.group:
            data = self._object(request, "Binding")
            pods = self._target_of_kind("v1", "Pod").resource
            return self._bind(request, Target(pods, target.namespace, str(data["metadata"].get("name", ""))), data)
        if target.subresource == "binding":
            return self._bind(request, target, self._object(request, "Binding"))
        if target.subresource == "eviction":
            return ApiResponse(encode_body(evict(self._writer, target, self._object(request, "Eviction"))), 201)
        if target.subresource == "token":
            account = self._writer.find(target).data
            token_request = self._tokens.request(account, self._object(request, "TokenRequest"), self.clock.now())
            return ApiResponse(encode_body(token_request), 201)
        if target.name:
            raise method_not_allowed()
        data = self._object(request, resource.name, resource)
        if resource.verbs == CREATE_ONLY:
            if request.accept and all(";as=" in offer.replace(" ", "") for offer in request.accept.split(",")):
                # A review has no metadata, so there is nothing to make a table of.
                raise not_acceptable()
            self._writer.admission.check_types(resource, data)
            status = self._tokens.review(resource.plural, data.get("spec") or {}, request.user, self.clock.now())
            return ApiResponse(encode_body({**data, "status": status}), 201)
        warnings = self._check_fields(request, resource, data)
        if resource.storage == SIGNING_REQUESTS and isinstance(data.get("spec"), dict):
            # Signers trust these fields, so clients cannot set them.
            requested = {key: item for key, item in data["spec"].items() if key not in USER_FIELDS}
            data["spec"] = {**requested, **request.user.data()}
        created = self._create(
            target,
            self._to_stored(resource, data),
            WriteOptions(request.is_dry_run, request.manager, user=request.user),
        )
        if resource.storage == DEFINITIONS:
            warnings += definition_warnings(data)
        elif resource.storage in POLICIES:
            warnings += tuple(unenforced_expressions(data))
        return self._represent(request, target, created.body, 201, warnings)

    def _to_stored(self, resource: ServedResource, data: Data, old: Data | None = None) -> Data:
        # Conversions expect fields of the right types, as those of the real server get decoded objects.
        if resource.converts:
            self._writer.admission.check_types(resource, data)
        return to_stored(resource, data, old)

    def _check_fields(
        self, request: ApiRequest, resource: ServedResource, data: Data, target: Target | None = None
    ) -> tuple[str, ...]:
        """Check for unknown and duplicate fields as the request's fieldValidation requires. Return the warnings.

        Unknown fields that ``target`` already has are ignored.
        """
        if request.field_validation in ("", "Ignore"):
            return ()
        unknown, repeated = self._unknown_fields(resource, data), []
        if target is not None:
            existing = set(self._unknown_fields(resource, self._writer.find(target).data))
            unknown = [path for path in unknown if path not in existing]
        elif request.content_type in (JSON, ""):
            repeated = repeated_fields(request.body)
        problems = (
            *(f'unknown field "{path}"' for path in unknown),
            *(f'duplicate field "{path}"' for path in repeated),
        )
        if problems and request.field_validation == "Strict":
            raise undecodable(resource, f"strict decoding error: {', '.join(problems)}")
        return problems

    def _unknown_fields(self, resource: ServedResource, data: Data) -> list[str]:
        if resource.is_custom:
            return self._custom.unknown_fields(resource, data)
        schema = find_kind_schema(resource.api_version, resource.name)
        return list(unknown_fields(data, schema)) if schema is not None else []

    def _bind(self, request: ApiRequest, target: Target, data: Data) -> ApiResponse:
        return ApiResponse(encode_body(bind(self._writer, target, data, is_dry_run=request.is_dry_run)), 201)

    def _create(self, target: Target, data: Data, options: WriteOptions) -> Entry:
        resource = target.resource
        if resource.storage == DEFINITIONS:
            complete_definition(resource, data, self.clock.now())
        elif resource.is_custom:
            if resource.has_status:
                # The status of a new object is its default.
                data.pop("status", None)
            self._custom.complete(resource, data)
        return self._writer.create(target, data, options)

    def _object(self, request: ApiRequest, kind: str, resource: ServedResource | None = None) -> Data:
        """Read the object in the body; 400 if it is of another kind than the path is for."""
        data = read_object(request, partial(_drop_nulls, resource) if resource is not None else without_nulls)
        actual_kind = data.get("kind") or kind
        if actual_kind != kind:
            raise bad_request(f'{actual_kind} in version "{data.get("apiVersion", "")}" cannot be handled as a {kind}')
        data["kind"] = kind
        if resource is None:
            return data
        version = data.get("apiVersion") or resource.api_version
        if version != resource.api_version:
            raise bad_request(
                f"the API version in the data ({version}) does not match the expected API version "
                f"({resource.api_version})"
            )
        data["apiVersion"] = version
        return data

    def _put(self, request: ApiRequest, target: Target) -> ApiResponse:
        if not target.name or target.subresource in _CREATED_PARTS:
            raise method_not_allowed()
        options = _options(request, target)
        if target.subresource == "scale":
            scale = self._object(request, "Scale")
            return ApiResponse(encode_body(change_scale(self._writer, target, lambda _old: scale, options)))
        data = self._object(request, target.resource.name, target.resource)
        warnings = self._check_fields(request, target.resource, data)
        is_new = (
            target.resource.storage in CREATED_BY_PUT and self.store.get(target.resource.storage, target.key) is None
        )
        if is_new and not data["metadata"].get("resourceVersion"):
            data["metadata"].setdefault("name", target.name)
            created = self._create(target, self._to_stored(target.resource, data), options)
            return self._represent(request, target, created.body, 201, warnings)
        needs_version = target.resource.is_custom or target.resource.storage in NEEDS_VERSION
        if needs_version and not data["metadata"].get("resourceVersion") and self._writer.find(target):
            raise version_required(target.resource, target.name)

        def edit(old: Data) -> Data:
            return self._to_stored(target.resource, data, old)

        return self._represent(request, target, self._change(target, edit, options).body, warnings=warnings)

    def _change(self, target: Target, edit: Edit, options: WriteOptions) -> Entry:
        resource = target.resource

        def checked(old: Data) -> Data:
            new = edit(old)
            if not isinstance(new, dict) or not isinstance(new.get("metadata"), dict):
                raise bad_request("invalid patch result: metadata is missing")
            if resource.is_custom:
                self._custom.complete(resource, new, old, keeps_nulls=options.is_apply)
            elif resource.storage == DEFINITIONS and not options.subresource:
                new["status"] = self._writer.find(target).data.get("status")
                complete_definition(resource, new, self.clock.now())
            return new

        return self._writer.change(target, checked, options)

    def _patch(self, request: ApiRequest, target: Target) -> ApiResponse:
        if not target.name or target.subresource in _CREATED_PARTS:
            raise method_not_allowed()
        kind, patch = read_patch(request)
        if kind == APPLY_PATCH:
            return self._apply(request, target, patch)
        if kind == STRATEGIC_PATCH and target.resource.is_custom:
            raise unsupported_media_type((JSON_PATCH, MERGE_PATCH, APPLY_PATCH))
        options = _options(request, target)
        edit = self._edit(target, kind, patch)
        if target.subresource == "scale":
            return ApiResponse(encode_body(change_scale(self._writer, target, edit, options)))
        warnings: list[str] = []

        def checked(old: Data) -> Data:
            new = edit(old)
            if isinstance(new, dict):
                warnings.extend(self._check_fields(request, target.resource, new, target))
            return new

        body = self._change(target, checked, options).body
        return self._represent(request, target, body, warnings=tuple(warnings))

    def _edit(self, target: Target, kind: str, patch: Any) -> Edit:
        resource, converts = target.resource, target.resource.converts and target.subresource != "scale"

        def edit(stored: Data) -> Data:
            data = from_stored(resource, stored) if converts else stored
            if kind == JSON_PATCH:
                data = without_nulls(json_patch(data, patch))
            elif kind == MERGE_PATCH:
                data = merge_patch(data, patch)
            else:
                data = strategic_merge(data, patch, find_kind_schema(resource.api_version, resource.name))
            return self._to_stored(resource, data, stored) if converts and isinstance(data, dict) else data

        return edit

    def _apply(self, request: ApiRequest, target: Target, applied_data: Data) -> ApiResponse:
        manager, force = request.query.get("fieldManager", ""), request.is_set("force")
        if not manager:
            raise invalid_options("PatchOptions", required_value("fieldManager", "is required for apply patch"))
        resource = target.resource
        actual = (applied_data.get("apiVersion"), applied_data.get("kind"))
        if actual != (resource.api_version, resource.name) or target.subresource == "scale":
            raise bad_request(f"apply requires the apiVersion and kind of the resource, found {actual}")
        if resource.is_custom and (unknown := self._custom.unknown_fields(resource, applied_data)):
            lines = ", ".join(f".{path}: field not declared in schema" for path in unknown)
            subject = f"{target.namespace}/{target.name}; {resource.api_version}, Kind={resource.name}"
            raise bad_request(f"failed to create typed patch object ({subject}): {lines}")
        self._check_fields(request, resource, applied_data)
        applied_data = self._to_stored(resource, applied_data)
        options = WriteOptions(request.is_dry_run, manager, target.subresource, is_apply=True, user=request.user)
        writing = Writing(resource, manager, target.subresource, "Apply")
        apply = ApplyRequest(writing, applied_data, self._types.find(applied_data), force, self.clock)
        try:
            if self.store.get(resource.storage, target.key) is None and not target.subresource:
                applied_data["metadata"].setdefault("name", target.name)
                if applied_data["metadata"]["name"] != target.name:
                    raise bad_request("the name of the object does not match the name on the URL")
                return self._represent(request, target, self._create(target, apply.create(), options).body, 201)
            return self._represent(request, target, self._change(target, apply.change, options).body)
        except MissingKey as error:
            subject = f"{target.namespace}/{target.name}; {resource.api_version}, Kind={resource.name}"
            raise bad_request(f"failed to create typed patch object ({subject}): {error}") from error

    def _delete(self, request: ApiRequest, target: Target) -> ApiResponse:
        if target.subresource:
            raise method_not_allowed()
        options = DeleteOptions.read(request.query, read_options(request, "DeleteOptions"), request.user)
        if not target.name:
            return self._delete_many(request, target, options)
        data, is_gone = self._delete_one(target, options)
        if is_gone and target.resource.storage not in SHOWS_DELETED:
            return ApiResponse(encode_body(success_status(target.resource, target.name, data["metadata"]["uid"])))
        return self._represent(request, target, encode_body(data))

    def _delete_one(self, target: Target, options: DeleteOptions) -> tuple[Data, bool]:
        data, is_gone = self._writer.delete(target, options)
        if is_gone and target.resource.storage == DEFINITIONS and not options.is_dry_run:
            self._custom.remove_objects(target.key)
        return data, is_gone

    def _delete_many(self, request: ApiRequest, target: Target, options: DeleteOptions) -> ApiResponse:
        entries = self._lists.select(target, selection(target.resource, request.query)).entries
        for entry in entries:
            namespace, _, name = entry.key.rpartition("/")
            self._delete_one(Target(target.resource, namespace, name), options)
        representation = self._representation(request, target.resource)
        return ApiResponse(representation.many(entries, self.store.version, "", 0))


def _options(request: ApiRequest, target: Target) -> WriteOptions:
    # The approval of a signing request is part of its status.
    part = "status" if target.subresource == "approval" else target.subresource
    return WriteOptions(request.is_dry_run, request.manager, part, user=request.user)


def _drop_nulls(resource: ServedResource, data: Any) -> Any:
    """Drop nulls as Go's decoder does. The schema of a custom resource decides which of its nulls are kept."""
    if not isinstance(data, dict):
        return data
    if resource.is_custom:
        return data | {"metadata": without_nulls(data.get("metadata")) or {}}
    if (schema := find_kind_schema(resource.api_version, resource.name)) is not None:
        empty_null_texts(data, schema)
    return without_nulls(data)


def _typed_data(obj: msgspec.Struct, target: Target) -> Data:
    kind = {"apiVersion": target.resource.api_version, "kind": target.resource.name}
    return {**kind, **msgspec.to_builtins(obj)}
