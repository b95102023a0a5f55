"""The containers of the manifests as plain processes: same command, environment, files and probes.

What a container runtime does is done here by words: mounted paths become directories of the test,
ports free ones of the loopback interface. The process sees nothing else of this machine's
environment.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import yaml

from tests.support.servers import free_port

ROOT = Path(__file__).parents[2]
K8S = ROOT / "k8s"
Doc = dict[str, Any]


def docs(*folders: str) -> list[Doc]:
    """The manifests of some folders of `k8s`."""
    return [
        doc
        for folder in folders
        for path in sorted((K8S / folder).glob("*.yaml"))
        for doc in yaml.safe_load_all(path.read_text(encoding="utf-8"))
        if doc and path.name != "kustomization.yaml"
    ]


def pods(found: list[Doc]) -> dict[str, Doc]:
    """What runs, by its name."""
    return {
        doc["metadata"]["name"]: doc
        for doc in found
        if doc["kind"] in ("Deployment", "StatefulSet")
    }


class Pod:
    """One pod's containers.

    Args:
        doc: a Deployment or StatefulSet.
        config: the ConfigMap's data, as the overlay has it.
        secrets: the directory that `turnfleet secrets` wrote.
        home: where its volumes are.
    """

    def __init__(self, doc: Doc, config: Mapping[str, str], secrets: Path, home: Path) -> None:
        self.name: str = doc["metadata"]["name"]
        self.spec: Doc = doc["spec"]["template"]["spec"]
        self._config = config
        self._home: Path = home / self.name
        self._home.mkdir()
        self._volumes: dict[str, Path] = {
            one["name"]: self._volume(one, secrets) for one in self.spec["volumes"]
        }
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.log = self._home / "stdout"

    def _volume(self, volume: Doc, secrets: Path) -> Path:
        if "secret" in volume:
            return secrets / str(volume["secret"]["secretName"]).removeprefix("turnfleet-")
        path = self._home / str(volume["name"])
        path.mkdir()
        if "configMap" in volume:  # the one of a file, which kustomize makes
            path.joinpath("turnfleet.toml").write_bytes((K8S / "base/turnfleet.toml").read_bytes())
        return path

    def run_init(self) -> None:
        """Runs the init containers, one after the other."""
        for container in self.spec.get("initContainers", []):
            self._start(container).wait(60)

    def start(self) -> None:
        """Starts the container."""
        self.process = self._start(self.spec["containers"][0])

    def _start(self, container: Doc) -> "subprocess.Popen[bytes]":
        mounts = {
            str(one["mountPath"]): self._volumes[one["name"]] for one in container["volumeMounts"]
        }
        given = {**self._config, **{one["name"]: one["value"] for one in container.get("env", [])}}
        environment = {name: self._translated(text, mounts) for name, text in given.items()}
        args = [self._translated(word, mounts) for word in container["args"]]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "ops", *args],
                cwd=ROOT,
                env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), **environment},
                stdout=log,
                stderr=log,
            )

    def _translated(self, text: str, mounts: Mapping[str, Path]) -> str:
        for path, real in mounts.items():
            if text == path or text.startswith(f"{path}/"):
                return f"{real}{text.removeprefix(path)}"
        container = self.spec["containers"][0]
        ports = {str(one["containerPort"]) for one in container.get("ports", [])}
        port = text.removeprefix(":")
        if port in ports:
            return str(self.port) if port == text else f"127.0.0.1:{self.port}"
        return text

    def answer(self, path: str, **headers: str) -> tuple[int, str]:
        """What it answers; 0 where nobody does."""
        request = Request(f"http://127.0.0.1:{self.port}{path}", headers=headers)
        try:
            with urlopen(request, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except URLError as exc:
            return getattr(exc, "code", 0), str(exc)

    def probe(self, kind: str) -> bool:
        """A probe, as the kubelet asks it."""
        path = self.spec["containers"][0][kind]["httpGet"]["path"]
        return 200 <= self.answer(path)[0] < 400

    def started(self) -> None:
        """Waits as the start-up probe does, twenty times more often."""
        probe = self.spec["containers"][0]["startupProbe"]
        wait_for(
            lambda: self.probe("startupProbe"), probe["periodSeconds"] * probe["failureThreshold"]
        )
        wait_for(lambda: self.probe("readinessProbe"), 30)

    def stop(self) -> int:
        """SIGTERM; the exit code, within the grace period."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(self.spec["terminationGracePeriodSeconds"])

    def kill(self) -> None:
        """Ends it at once, if it still runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def wait_for(is_so: Callable[[], bool], limit_s: float) -> None:
    """Looks again and again until it is so."""
    deadline = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)
