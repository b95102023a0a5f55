"""Checks what an operator deploys. `make manifests` runs it, in an environment of its own tools.

Comes in: the manifests of this folder, `docker-compose.yml`, `Dockerfile`. Goes out: a line for
each check and the exit code. Kinds that Kubernetes does not know itself are held to `schemas/`.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import yaml

HERE = Path(__file__).parent
ROOT = HERE.parent
OVERLAYS = ("small", "prod-keda", "prod-hpa")
TOOLS = Path(sys.executable).parent
LIMIT_S = 600
COMPOSE_LINT = "dclint@3.1.0"


def main() -> int:
    """Runs every check and says how it went."""
    failed = 0
    with tempfile.TemporaryDirectory(prefix="tf-manifests-") as name:
        built = build(Path(name))
        for title, words in commands(built):
            failed += not run(title, words)
        for path in built:
            failed += not own_schemas(path)
    return 1 if failed else 0


def build(directory: Path) -> list[Path]:
    """The overlays as they would be applied; the files themselves where there is no kubectl."""
    if shutil.which("kubectl") is None:
        tell("kustomize", "skipped: there is no kubectl here; the files are checked one by one")
        files = (path for path in HERE.rglob("*.yaml") if path.name != "kustomization.yaml")
        return sorted(files)
    built = []
    for overlay in OVERLAYS:
        path = directory / f"{overlay}.yaml"
        words = ["kubectl", "kustomize", str(HERE / "overlays" / overlay)]
        done = called(words)
        tell(f"kustomize {overlay}", "ok" if done.returncode == 0 else done.stderr)
        if done.returncode:
            sys.exit(1)
        path.write_text(done.stdout, encoding="utf-8")
        built.append(path)
    return built


def commands(built: list[Path]) -> Iterator[tuple[str, list[str]]]:
    """The tools, with their arguments."""
    paths = [str(path) for path in built]
    lint = ["--strict", "-c", str(ROOT / ".yamllint"), str(HERE), str(ROOT / "docker-compose.yml")]
    yield "yamllint", [str(TOOLS / "yamllint"), *lint]
    yield "kubernetes-validate", [str(TOOLS / "kubernetes-validate"), "--strict", *paths]
    yield "hadolint", [str(TOOLS / "hadolint"), str(ROOT / "Dockerfile")]
    common = ["--quiet", "--compact", "--skip-download"]
    scanner = str(TOOLS / "checkov")
    for path in paths:
        yield "checkov", [scanner, "--framework", "kubernetes", *common, "-f", path]
    dockerfile = ["--framework", "dockerfile", *common, "-f", str(ROOT / "Dockerfile")]
    yield "checkov Dockerfile", [scanner, *dockerfile]
    if shutil.which("npx") is None:
        tell("compose", "skipped: there is no npx here")
    else:
        words = ["npx", "--yes", COMPOSE_LINT, "-q", str(ROOT / "docker-compose.yml")]
        yield "compose", words


def run(title: str, words: list[str]) -> bool:
    """Runs a tool; what it says is shown where it finds something."""
    done = called(words)
    tell(title, "ok" if done.returncode == 0 else done.stdout + done.stderr)
    return done.returncode == 0


def called(words: list[str]) -> "subprocess.CompletedProcess[str]":
    """A tool's run, from its own name and our own files."""
    return subprocess.run(  # noqa: S603 - nothing of it comes from elsewhere
        words, capture_output=True, text=True, check=False, timeout=LIMIT_S, cwd=ROOT
    )


def own_schemas(path: Path) -> bool:
    """Holds kinds of other makers to our own schemas."""
    is_well = True
    for doc in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        schema = HERE / "schemas" / f"{(doc or {}).get('kind')}.json"
        if not schema.exists():
            continue
        try:
            jsonschema.validate(doc, json.loads(schema.read_text(encoding="utf-8")))
        except jsonschema.ValidationError as exc:
            tell(schema.stem, f"{exc.json_path}: {exc.message}")
            is_well = False
        else:
            tell(schema.stem, "ok")
    return is_well


def tell(title: str, text: str) -> None:
    """One check's result."""
    sys.stdout.write(f"{title}: {text.strip()}\n")


if __name__ == "__main__":
    sys.exit(main())
