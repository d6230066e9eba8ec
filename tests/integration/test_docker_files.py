"""The Dockerfile, the compose file and the chart are what their readers take."""

import json
import re
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema_rs
import kubernetes_validate  # type: ignore[import-untyped]  # pyright: ignore
import pytest
import yaml

SERVICES = ("broker", "chronos", "txn", "push", "api")
KUBERNETES = "1.31"
URL = re.compile(r"\$\{(?P<name>[A-Z_]+)(?::?[-?](?P<rest>[^}]*))?\}")


@pytest.fixture(scope="module")
def folder(repository_root: Path) -> Path:
    return repository_root / "docker"


@pytest.fixture(scope="module")
def compose(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((folder / "compose.yml").read_text("utf-8"))
    return found


def tool(name: str) -> str:
    """A program that a package of the environment has brought, or the machine has."""
    own = Path(sys.executable).parent / name
    found = str(own) if own.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name} for this machine")
    return found


def render(folder: Path, *options: str) -> list[dict[str, Any]]:
    """What the chart becomes."""
    done = subprocess.run(
        [tool("helm"), "template", "shop", str(folder / "helm/halfpast"), *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [it for it in yaml.safe_load_all(done.stdout) if it]


def by_kind(objects: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    return {it["metadata"]["name"]: it for it in objects if it["kind"] == kind}


# --- the image ------------------------------------------------------------------------


def test_hadolint_finds_nothing_in_the_dockerfile(folder: Path) -> None:
    done = subprocess.run(
        [tool("hadolint"), "--failure-threshold", "style", str(folder / "Dockerfile")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_what_the_dockerfile_copies_is_not_ignored(
    repository_root: Path, folder: Path
) -> None:
    lines = (repository_root / ".dockerignore").read_text("utf-8").splitlines()
    kept = {line[1:] for line in lines if line.startswith("!")}
    assert "*" in lines
    assert all((repository_root / it).exists() for it in kept)
    project = (repository_root / "pyproject.toml").read_text("utf-8")
    packages = re.findall(r'^    "(\w+)/halfpast\w*",$', project, re.M)
    assert len(set(packages)) == 8
    assert {*packages, "migrations", "requirements/image.txt"} <= kept
    copied = re.findall(r"^COPY (requirements\S+)", dockerfile(folder), re.M)
    assert copied == ["requirements/image.txt"]


def dockerfile(folder: Path) -> str:
    return (folder / "Dockerfile").read_text("utf-8")


def test_the_image_runs_without_rights(folder: Path) -> None:
    text = dockerfile(folder)
    stages = text.split("\nFROM ")
    user = re.search(r"^USER (\S+)$", stages[-1], re.M)
    assert user is not None
    assert user[1] == "10001:10001"
    assert "--require-hashes" in text


# --- compose --------------------------------------------------------------------------


def test_the_compose_file_keeps_to_the_specification(compose: dict[str, Any]) -> None:
    vendored = files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json"
    schema = json.loads(vendored.read_text("utf-8"))
    jsonschema_rs.validate(schema, compose)


def test_compose_runs_the_services_without_rights(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert set(services) == {*SERVICES, "postgres", "prometheus", "grafana"}
    for name in SERVICES:
        service = services[name]
        assert service["command"] == [name, "--json"]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["healthcheck"]["test"][-2:] == [
            "halfpast_api.health_probe",
            name,
        ]
        for other in service.get("depends_on", ()):
            assert other in services
    for service in services.values():
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:")
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert source.startswith("./") or source in compose["volumes"]


def test_compose_mounts_files_that_there_are(
    folder: Path, compose: dict[str, Any]
) -> None:
    sources = [
        volume.partition(":")[0]
        for service in compose["services"].values()
        for volume in service.get("volumes", ())
    ]
    mounted = [it for it in sources if it.startswith("./")]
    assert len(mounted) >= 3
    assert all((folder / it).exists() for it in mounted)
    context = (folder / compose["services"]["api"]["build"]["context"]).resolve()
    assert (context / compose["services"]["api"]["build"]["dockerfile"]).is_file()


def test_compose_asks_for_what_the_example_names(
    folder: Path, compose: dict[str, Any]
) -> None:
    text = (folder / "compose.yml").read_text("utf-8")
    example = (folder / "example.env").read_text("utf-8")
    named = set(re.findall(r"^#?([A-Z_]+)=", example, re.M))
    needed = {it["name"] for it in URL.finditer(text) if ":?" in it[0]}
    assert needed
    assert needed <= named
    given = compose["services"]["grafana"]["environment"]
    sources = (folder / "grafana/provisioning/datasources/halfpast.yml").read_text()
    assert {it["name"] for it in URL.finditer(sources)} <= set(given)
    targets = yaml.safe_load((folder / "prometheus/prometheus.yml").read_text("utf-8"))
    (scraped,) = targets["scrape_configs"][0]["static_configs"][0]["targets"]
    assert scraped.partition(":")[0] in compose["services"]


# --- the chart ------------------------------------------------------------------------

EVERYTHING = (
    *("--set", "api.ingress.enabled=true", "--set", "api.ingress.host=mq.test"),
    *("--set", "api.ingress.tlsSecret=mq-tls", "--set", "auth.mode=open"),
    *("--set", "api.grpc.enabled=true", "--set", "api.grpc.tlsSecret=grpc-tls"),
    *("--set", "core.nodeSelector.disk=fast", "--set", "imagePullSecrets[0].name=x"),
    *("--set", "environment.OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318"),
    *("--set", "networkPolicy.apiFrom[0].podSelector.matchLabels.role=client"),
)


@pytest.mark.parametrize("options", [(), EVERYTHING], ids=["defaults", "everything"])
def test_kubernetes_takes_what_the_chart_renders(
    folder: Path, options: tuple[str, ...]
) -> None:
    objects = render(folder, *options)
    assert len(objects) >= 10
    for found in objects:
        kubernetes_validate.validate(found, KUBERNETES, strict=True)


def test_the_chart_runs_the_services_without_rights(folder: Path) -> None:
    objects = render(folder)
    pods = {
        **by_kind(objects, "StatefulSet"),
        **by_kind(objects, "Deployment"),
    }
    seen: set[str] = set()
    for controller in pods.values():
        spec = controller["spec"]["template"]["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        for container in spec["containers"]:
            seen.add(container["name"])
            assert container["args"] == [container["name"], "--json"]
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            ports = {it["name"] for it in container["ports"]}
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                found = container[probe]
                how = found.get("tcpSocket") or found.get("httpGet") or found["exec"]
                assert how.get("port", "") in {*ports, ""}
            mounted = {it["name"] for it in container["volumeMounts"]}
            given = {it["name"] for it in spec["volumes"]}
            claims = controller["spec"].get("volumeClaimTemplates", ())
            assert mounted <= given | {it["metadata"]["name"] for it in claims}
    assert seen == set(SERVICES)


def test_the_parts_of_the_chart_find_each_other(folder: Path) -> None:
    objects = render(folder)
    labels = [
        it["spec"]["template"]["metadata"]["labels"]
        for it in objects
        if it["kind"] in ("StatefulSet", "Deployment")
    ]
    services = by_kind(objects, "Service")
    for service in services.values():
        selector = service["spec"]["selector"].items()
        assert sum(selector <= it.items() for it in labels) == 1
    for controller in by_kind(objects, "Deployment").values():
        (container,) = controller["spec"]["template"]["spec"]["containers"]
        for variable in container["env"]:
            value = variable.get("value", "")
            if value.startswith("tcp:") and "0.0.0.0" not in value:
                _, host, port = value.split(":")
                service = services[host.partition(".")[0]]
                assert int(port) in {it["port"] for it in service["spec"]["ports"]}
    for policy in by_kind(objects, "NetworkPolicy").values():
        wanted = policy["spec"]["podSelector"]["matchLabels"].items()
        assert sum(wanted <= it.items() for it in labels) == 1


def test_the_core_opens_its_sockets_to_api_and_push_alone(folder: Path) -> None:
    policies = by_kind(render(folder), "NetworkPolicy")
    (rule,) = policies["shop-halfpast-core"]["spec"]["ingress"]
    (source,) = rule["from"]
    (expression,) = source["podSelector"]["matchExpressions"]
    assert expression["values"] == ["api", "push"]


def test_the_chart_ships_the_alert_rules(folder: Path) -> None:
    options = (
        "--set",
        "prometheusRule.enabled=true",
        "--set",
        "serviceMonitor.enabled=true",
    )
    rules = by_kind(render(folder, *options), "PrometheusRule")
    text = (folder / "prometheus/halfpast.rules.yml").read_text("utf-8")
    assert rules["shop-halfpast"]["spec"] == yaml.safe_load(text)


@pytest.mark.parametrize(
    "option",
    ["api.replicass=2", "auth.mode=none", "api.replicas=0", "core.persistence.size=50"],
)
def test_what_is_misspelt_is_refused(folder: Path, option: str) -> None:
    done = subprocess.run(
        [
            tool("helm"),
            "template",
            "shop",
            str(folder / "helm/halfpast"),
            "--set",
            option,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "schema" in done.stderr


def test_helm_lints_the_chart(folder: Path) -> None:
    done = subprocess.run(
        [tool("helm"), "lint", "--strict", str(folder / "helm/halfpast")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
