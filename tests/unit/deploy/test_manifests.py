"""What an operator deploys: valid files, commands that exist, grace periods that fit."""

import copy
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from ops.acl import Role
from ops.cli.main import NOUNS
from shared.config import Settings

ROOT = Path(__file__).parents[3]
K8S = ROOT / "k8s"
MANIFESTS = sorted(
    path
    for folder in ("base", "components", "overlays")
    for path in (K8S / folder).rglob("*.yaml")
    if path.name != "kustomization.yaml"
)
OVERLAYS = ("small", "prod-keda", "prod-hpa")
OURS = ("gateway", "worker", "recorder", "console")
WITH_PODS = ("Deployment", "StatefulSet")
FLUSH_S = 30
"""Seconds after the drain for segments, reports and logs to leave the process."""

Doc = dict[str, Any]


def load_all(path: Path) -> list[Doc]:
    return [doc for doc in yaml.safe_load_all(path.read_text(encoding="utf-8")) if doc]


DOCS = [doc for path in MANIFESTS for doc in load_all(path)]
PODS = {doc["metadata"]["name"]: doc for doc in DOCS if doc["kind"] in WITH_PODS}
COMPOSE = load_all(ROOT / "docker-compose.yml")[0]


def spec_of(name: str) -> Doc:
    spec: Doc = PODS[name]["spec"]["template"]["spec"]
    return spec


def containers(spec: Doc) -> Iterator[Doc]:
    yield from spec.get("initContainers", [])
    yield from spec["containers"]


def test_every_manifest_is_valid_kubernetes():
    """In one process: it reads the schemas of Kubernetes once."""
    run = subprocess.run(
        [Path(sys.executable).with_name("kubernetes-validate"), "--strict", *map(str, MANIFESTS)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_yaml_files_pass_the_linter():
    run = subprocess.run(
        [
            *(sys.executable, "-m", "yamllint", "--strict", "-c", str(ROOT / ".yamllint")),
            *(str(K8S), str(ROOT / "docker-compose.yml")),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout


@pytest.mark.parametrize(
    "folder",
    [K8S / "base", *(K8S / "components").iterdir(), K8S / "monitoring"],
    ids=lambda path: path.name,
)
def test_a_kustomization_lists_every_manifest_beside_it(folder: Path):
    listed = load_all(folder / "kustomization.yaml")[0]["resources"]
    beside = {path.name for path in folder.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(listed) == beside


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed here")
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kustomize_builds_an_overlay(overlay: str):
    run = subprocess.run(
        ["kubectl", "kustomize", str(K8S / "overlays" / overlay)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    docs = [doc for doc in yaml.safe_load_all(run.stdout) if doc]
    kinds = {(doc["kind"], doc["metadata"]["name"]): doc for doc in docs}
    assert "registry.example/turnfleet" in run.stdout
    worker = kinds["Deployment", "worker"]["spec"]
    is_scaled = ("ScaledObject", "worker") in kinds or (
        "HorizontalPodAutoscaler",
        "worker",
    ) in kinds
    assert ("replicas" in worker) is not is_scaled
    assert is_scaled is (overlay != "small")


SCHEMAS = {path.stem: json.loads(path.read_text()) for path in (K8S / "schemas").glob("*.json")}
FOREIGN = [
    doc
    for path in [*MANIFESTS, *(K8S / "monitoring").glob("*.yaml")]
    for doc in load_all(path)
    if doc["kind"] in SCHEMAS
]


@pytest.mark.parametrize("doc", FOREIGN, ids=lambda doc: str(doc["kind"]))
def test_a_kind_of_another_maker_fits_our_schema(doc: Doc):
    jsonschema.validate(doc, SCHEMAS[doc["kind"]])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param(("spec", "minReplicaCount"), 0, id="from nothing a single turn wakes nobody"),
        pytest.param(("spec", "minReplicas"), 2, id="a name of another kind"),
        pytest.param(("spec", "maxReplicaCount"), "20", id="text for a number"),
        pytest.param(
            ("spec", "triggers", 0, "metadata", "targetValue"), 70, id="number for a text"
        ),
        pytest.param(("spec", "triggers", 0, "type"), "redis-streams", id="the lag of a stream"),
    ],
)
def test_the_schema_of_the_scaler_refuses(path: tuple[str | int, ...], value: object):
    doc = copy.deepcopy(next(doc for doc in FOREIGN if doc["kind"] == "ScaledObject"))
    place: Any = doc
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(doc, SCHEMAS["ScaledObject"])


def test_every_kind_that_kubernetes_does_not_know_has_a_schema():
    assert {doc["kind"] for doc in FOREIGN} == {"ScaledObject", "PodMonitor", "PrometheusRule"}


def test_compose_and_kubernetes_start_the_same_processes():
    services = set(COMPOSE["services"]) - {"redis", "postgres", "migrate", "operator"}
    assert services == set(OURS) == set(PODS) - {"redis", "postgres"}


@pytest.mark.parametrize("name", OURS)
def test_both_give_the_same_command(name: str):
    assert COMPOSE["services"][name]["command"] == spec_of(name)["containers"][0]["args"]
    assert spec_of(name)["containers"][0]["args"][0] in NOUNS
    assert 'ENTRYPOINT ["turnfleet"]' in (ROOT / "Dockerfile").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", list(PODS))
def test_a_pod_is_restricted(name: str):
    spec = spec_of(name)
    security = spec["securityContext"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["serviceAccountName"] == f"turnfleet-{name}"
    assert security["runAsNonRoot"] is True
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in containers(spec):
        rules = container["securityContext"]
        assert rules["readOnlyRootFilesystem"] is True
        assert rules["allowPrivilegeEscalation"] is False
        assert rules["capabilities"] == {"drop": ["ALL"]}
        assert "memory" in container["resources"]["limits"]


def test_no_account_has_a_token():
    accounts = [doc for doc in DOCS if doc["kind"] == "ServiceAccount"]
    assert {doc["metadata"]["name"] for doc in accounts} == {f"turnfleet-{name}" for name in PODS}
    assert all(doc["automountServiceAccountToken"] is False for doc in accounts)


@pytest.mark.parametrize("name", OURS)
def test_a_pod_gets_the_secrets_of_its_own_kind_and_no_others(name: str):
    volumes = spec_of(name)["volumes"]
    held = [one["secret"] for one in volumes if "secret" in one]
    assert [one["secretName"] for one in held] == [f"turnfleet-{Role(name)}"]
    assert all(one["defaultMode"] == 0o440 for one in held)
    mounts = [one for one in COMPOSE["services"][name]["volumes"] if one.startswith("./secrets")]
    assert mounts == [f"./secrets/{Role(name)}:/run/secrets/turnfleet:ro"]
    assert "secretRef" not in json.dumps(spec_of(name))


def test_only_workers_open_credentials():
    holders = {
        name
        for name in OURS
        if "opening.keys" in json.dumps(spec_of(name))
        or "opening.keys" in json.dumps(COMPOSE["services"][name])
    }
    assert holders == {"worker"}


@pytest.mark.parametrize("name", OURS)
def test_a_pod_is_probed_where_it_listens(name: str):
    container = spec_of(name)["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports in ({"health": 9464}, {"pages": 8750})
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] in ports
    alive = container["livenessProbe"]["httpGet"]["path"]
    assert alive == "/healthz"  # never Redis: its outage must not restart the fleet


def environment(name: str) -> dict[str, str]:
    config = next(doc for doc in DOCS if doc["kind"] == "ConfigMap")
    own = {one["name"]: one["value"] for one in spec_of(name)["containers"][0].get("env", [])}
    return {**config["data"], **own}


@pytest.mark.parametrize("name", OURS)
def test_every_variable_is_a_setting(name: str):
    known = {f"TURNFLEET_{field.upper()}" for field in Settings.__struct_fields__}
    known.add("TURNFLEET_SECRETS_DIR")
    assert set(environment(name)) <= known
    assert set(COMPOSE["services"][name]["environment"]) <= known


@pytest.mark.parametrize("name", ["gateway", "worker"])
def test_a_process_gets_its_drain_and_time_to_flush(name: str):
    drain_s = float(environment(name).get("TURNFLEET_DRAIN_S", Settings().drain_s))
    assert spec_of(name)["terminationGracePeriodSeconds"] >= drain_s + FLUSH_S
    service = COMPOSE["services"][name]
    drain_s = float(service["environment"].get("TURNFLEET_DRAIN_S", Settings().drain_s))
    assert int(service["stop_grace_period"].removesuffix("s")) >= drain_s + FLUSH_S


def test_a_worker_drains_for_as_long_as_a_turn_may_take():
    assert float(environment("worker")["TURNFLEET_DRAIN_S"]) >= Settings().turn_deadline_s


def test_a_scaler_waits_for_a_drain_before_it_takes_the_next_pod():
    grace_s = spec_of("worker")["terminationGracePeriodSeconds"]
    for doc in DOCS:
        if doc["kind"] == "ScaledObject":
            behavior = doc["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
        elif doc["kind"] == "HorizontalPodAutoscaler":
            behavior = doc["spec"]["behavior"]
        else:
            continue
        assert behavior["scaleDown"]["stabilizationWindowSeconds"] >= grace_s


def test_the_scaler_aims_below_the_slots_of_a_worker():
    (doc,) = [doc for doc in DOCS if doc["kind"] == "ScaledObject"]
    target = int(doc["spec"]["triggers"][0]["metadata"]["targetValue"])
    assert target == round(0.7 * Settings().slots)


def test_redis_keeps_what_it_acknowledged_and_knows_its_users():
    command = " ".join(COMPOSE["services"]["redis"]["command"])
    args = " ".join(spec_of("redis")["containers"][0]["args"])
    for words in (command, args):
        assert "--appendonly yes" in words
        assert "--appendfsync always" in words
        assert "--maxmemory-policy noeviction" in words
        assert "--aclfile /run/secrets/redis/users.acl" in words


def test_whoever_is_selected_by_a_network_policy_exists():
    allowed = set()
    for doc in DOCS:
        if doc["kind"] != "NetworkPolicy":
            continue
        text = json.dumps(doc["spec"])
        allowed |= set(re.findall(r'"app.kubernetes.io/component": "(\w+)"', text))
        for group in re.findall(r'"values": \[([^\]]*)\]', text):
            allowed |= set(re.findall(r'"(\w+)"', group))
    assert allowed <= set(PODS)


def test_images_have_tags_of_one_release():
    images = {container["image"] for name in PODS for container in containers(spec_of(name))}
    images |= {one["image"] for one in COMPOSE["services"].values() if "build" not in one}
    for image in images - {"turnfleet"}:
        assert re.search(r":\d+\.\d+(\.\d+)?-", image), image
    base = re.search(r"^ARG PYTHON_IMAGE=(\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert base is not None
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", base[1])


def test_no_file_holds_a_password():
    for path in [*MANIFESTS, ROOT / "docker-compose.yml"]:
        text = path.read_text(encoding="utf-8").lower()
        assert not re.search(r"(password|token|secret)\w*:\s*[\"']?[a-z0-9]{8,}[\"']?$", text, re.M)
