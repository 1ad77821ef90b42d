"""Jobs select their own pods; users of signing requests are those of the request."""

from tests.support.api import ApiHarness, Data

JOBS = "/apis/batch/v1/namespaces/default/jobs"


def job(labels: dict[str, str] | None = None, **spec: object) -> Data:
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "app:1"}]}
    template = {"metadata": {"labels": labels or {}}, "spec": pod}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "own"},
        "spec": {"template": template, **spec},
    }


def test_job_selects_its_uid() -> None:
    stored = ApiHarness().create(JOBS, job())
    uid = stored["metadata"]["uid"]
    assert stored["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert stored["spec"]["template"]["metadata"]["labels"]["controller-uid"] == uid


def test_exported_job_is_rejected() -> None:
    exported = job({"controller-uid": "other"}, selector={"matchLabels": {"controller-uid": "other"}})
    causes = ApiHarness().request("POST", JOBS, exported, want=422)["details"]["causes"]
    assert [cause["field"] for cause in causes] == ["spec.template.metadata.labels[controller-uid]", "spec.selector"]


def test_users_of_signing_requests_are_set_by_the_server() -> None:
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    spec = {"request": "YQ==", "signerName": "example.org/a", "usages": ["client auth"], "username": "forged"}
    body = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "a"},
        "spec": spec,
    }
    assert ApiHarness().create(path, body)["spec"]["username"] != "forged"
