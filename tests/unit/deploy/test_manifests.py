"""What an operator deploys: valid files, commands that exist, grace periods that fit."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared.config import Settings

ROOT = Path(__file__).parents[3]
BASE = ROOT / "k8s" / "base"
MANIFESTS = sorted(path for path in BASE.glob("*.yaml") if path.name != "kustomization.yaml")
FLUSH_S = 30
"""Seconds after the drain for segments, reports and logs to leave the process."""


def load_all(path: Path) -> list[dict[str, Any]]:
    return [doc for doc in yaml.safe_load_all(path.read_text(encoding="utf-8")) if doc]


def compose() -> dict[str, Any]:
    return load_all(ROOT / "docker-compose.yml")[0]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_manifest_is_valid_kubernetes(path: Path):
    run = subprocess.run(
        [Path(sys.executable).with_name("kubernetes-validate"), "--strict", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_yaml_files_pass_the_linter():
    files = [*BASE.glob("*.yaml"), ROOT / "docker-compose.yml"]
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "yamllint",
            "--strict",
            "-c",
            str(ROOT / ".yamllint"),
            *map(str, files),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout


def test_kustomization_lists_every_manifest():
    listed = load_all(BASE / "kustomization.yaml")[0]["resources"]
    assert sorted(listed) == [path.name for path in MANIFESTS]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed here")
def test_kustomize_builds_the_base():
    run = subprocess.run(
        ["kubectl", "kustomize", str(BASE)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "registry.example/turnfleet" in run.stdout


def test_compose_and_kubernetes_start_the_same_processes():
    services = set(compose()["services"]) - {"redis", "migrate"}
    deployments = {
        doc["metadata"]["name"]
        for path in MANIFESTS
        for doc in load_all(path)
        if doc["kind"] == "Deployment"
    }
    assert services == deployments == {"gateway", "worker", "recorder"}


def test_workers_get_their_drain_and_time_to_flush():
    worker = compose()["services"]["worker"]
    drain_s = float(worker["environment"]["TURNFLEET_DRAIN_S"])
    assert int(worker["stop_grace_period"].removesuffix("s")) >= drain_s + FLUSH_S
    pods = [doc for doc in load_all(BASE / "worker.yaml") if doc["kind"] == "Deployment"]
    grace_s = pods[0]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    k8s_drain_s = float(load_all(BASE / "config.yaml")[0]["data"]["TURNFLEET_DRAIN_S"])
    assert grace_s >= k8s_drain_s + FLUSH_S
    assert k8s_drain_s >= Settings().turn_deadline_s


def test_redis_keeps_what_it_acknowledged():
    command = " ".join(compose()["services"]["redis"]["command"])
    args = " ".join(
        load_all(BASE / "redis.yaml")[1]["spec"]["template"]["spec"]["containers"][0]["args"]
    )
    for words in (command, args):
        assert "--appendonly yes" in words
        assert "--appendfsync always" in words
        assert "--maxmemory-policy noeviction" in words


def test_no_file_holds_a_default_password():
    for path in [*BASE.glob("*.yaml"), ROOT / "docker-compose.yml"]:
        assert "password" not in path.read_text(encoding="utf-8").lower()
