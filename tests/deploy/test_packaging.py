"""The wheel, the Debian package, the container image and the Kubernetes examples: built or linted, not described."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from shipper import config

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "deploy" / "packaging"
KUBERNETES = ROOT / "deploy" / "k8s"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PROGRAMS = {"shipper", "producer", "consumer", "partitioner", "spark_analytics", "deploy"}
SCRIPTS = [PACKAGING / "deb.sh", *(PACKAGING / "debian").iterdir(), *(ROOT / "deploy" / "setup").glob("*.sh")]
MANIFESTS = sorted(path for path in KUBERNETES.glob("*.yaml") if path.name != "kustomization.yaml")


def run(*command, **more):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, **more)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def needed(program, package):
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"no {program} here: apt-get install {package}")
    return found


# -- the wheel --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy: what lies in `build/` of somebody's checkout is not shipped."""
    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for program in PROGRAMS:
        shutil.copytree(ROOT / program, source / program, ignore=shutil.ignore_patterns("__pycache__"))
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    run(*build, "--wheel-dir", place, source)
    (found,) = place.glob("*.whl")
    return zipfile.ZipFile(found)


def test_the_wheel_holds_what_the_checkout_holds(wheel):
    names = set(wheel.namelist())
    for program in PROGRAMS:
        for path in (ROOT / program).rglob("*.py"):
            assert path.relative_to(ROOT).as_posix() in names
    for path in [*(ROOT / "deploy" / "systemd").rglob("*"), *(ROOT / "deploy" / "nats").glob("*")]:
        assert path.is_dir() or path.relative_to(ROOT).as_posix() in names
    assert not [name for name in names if name.split("/")[0] not in PROGRAMS and ".dist-info" not in name]


def test_the_wheel_has_its_extras_and_verbs(wheel):
    (metadata,) = [name for name in wheel.namelist() if name.endswith("/METADATA")]
    extras = re.findall(r"^Provides-Extra: (.+)$", wheel.read(metadata).decode(), re.MULTILINE)
    assert {"embedded", "spark"} <= set(extras)
    (entries,) = [name for name in wheel.namelist() if name.endswith("/entry_points.txt")]
    assert "install = deploy.install.cli:app" in wheel.read(entries).decode()


# -- the Debian package -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The real one, unpacked, with its control files in DEBIAN."""
    needed("dpkg-deb", "dpkg")
    python = Path("/usr/bin/python3")
    if not python.exists() or subprocess.run([python, "-c", "import venv, tomllib"], check=False).returncode:
        pytest.skip("no python3 of the system with its venv module: apt-get install python3-venv")
    place = tmp_path_factory.mktemp("deb")
    pip = f"{shlex.quote(sys.executable)} -m pip"
    made = run(PACKAGING / "deb.sh", place, env=os.environ | {"COMPRESS": "none", "PIP": pip}).split()[-1]
    run("dpkg-deb", "--raw-extract", made, place / "root")
    return place / "root"


def test_the_package_says_what_it_needs(package):
    control = (package / "DEBIAN" / "control").read_text()
    fields = dict(re.findall(r"^([\w-]+): (.*)$", control, re.MULTILINE))
    assert (fields["Package"], fields["Version"]) == ("fshipper", PROJECT["version"])
    assert re.search(r"python3 \(>= 3\.\d+\), python3 \(<< 3\.\d+\)", fields["Depends"])
    assert int(fields["Installed-Size"]) > 10_000


def test_the_package_brings_program_units_users_and_examples(package):
    for name in ("fshipper-producer.service", "fshipper-collector.service", "fshipper-report.timer"):
        shipped = ROOT / "deploy" / "systemd" / name
        assert (package / "usr/lib/systemd/system" / name).read_bytes() == shipped.read_bytes()
    assert (package / "usr/lib/sysusers.d/fshipper.conf").exists()
    assert (package / "usr/lib/tmpfiles.d/fshipper.conf").exists()
    assert (package / "usr/share/doc/fshipper/examples/producer.toml").exists()
    assert os.readlink(package / "usr/bin/fshipper") == "/opt/fshipper/bin/fshipper"
    assert not (package / "etc").exists(), "configuration is a matter of `fshipper install`"


def test_the_packaged_program_does_not_know_where_it_was_built(package):
    launcher = (package / "opt/fshipper/bin/fshipper").read_text()
    assert launcher.startswith("#!/opt/fshipper/bin/python")
    stage = re.compile(rb"fshipper-deb\.\w{6}")
    knowing = [path for path in (package / "opt").rglob("*") if path.is_file() and stage.search(path.read_bytes())]
    assert knowing == []


def test_the_packaged_program_runs_in_its_place(package):
    """With its tree mounted where it will be, by the system's own Python."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root may mount something: apt-get install util-linux")
    script = 'mkdir -p /opt/fshipper && mount --bind "$1" /opt/fshipper && shift && exec "$@"'
    tree = package / "opt" / "fshipper"
    made = not Path("/opt/fshipper").exists()
    try:
        inside = ["unshare", "--mount", "sh", "-c", script, "sh", tree]
        clean = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        assert run(*inside, "/opt/fshipper/bin/fshipper", "version", env=clean) == f"fshipper {PROJECT['version']}\n"
        shown = run(*inside, "/opt/fshipper/bin/fshipper", "install", "--role", "host", "--dry-run", env=clean)
        assert "fshipper-producer.service" in shown
        assert "warning" not in shown, "services find it there"
    finally:
        if made:
            Path("/opt/fshipper").rmdir()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_every_script_is_one_that_a_shell_can_read(script):
    run("sh", "-n", script)
    assert os.access(script, os.X_OK) or script.name == "java.sh"


# -- the image --------------------------------------------------------------------------------------------------------


def test_hadolint_has_nothing_to_say_about_the_image():
    program = Path(sysconfig.get_path("scripts")) / "hadolint"
    assert run(program, PACKAGING / "Containerfile") == ""


def test_the_image_copies_what_there_is():
    lines = (PACKAGING / "Containerfile").read_text().splitlines()
    sources = [
        word for line in lines if line.startswith("COPY ") and "--from" not in line for word in line.split()[1:-1]
    ]
    assert set(sources) >= PROGRAMS
    assert [source for source in sources if not (ROOT / source).exists()] == []


# -- Kubernetes -------------------------------------------------------------------------------------------------------


def documents(path):
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def pods(document):
    """The pod templates in it."""
    spec = document.get("spec", {})
    if document["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    return [spec["template"]["spec"]] if "template" in spec else []


EVERY = [document for path in MANIFESTS for document in documents(path)]
PODS = [pod for document in EVERY for pod in pods(document)]
CONTAINERS = [container for pod in PODS for container in pod["containers"]]


@pytest.mark.parametrize("document", EVERY, ids=lambda document: f"{document['kind']}-{document['metadata']['name']}")
def test_kubernetes_knows_every_field(document):
    kubernetes_validate.validate(document, "1.33", strict=True)


def test_kustomize_takes_all_of_it():
    kubectl = needed("kubectl", "kubernetes-client")
    out = run(kubectl, "kustomize", KUBERNETES)
    made = [document for document in yaml.safe_load_all(out) if document]
    kinds = sorted(document["kind"] for document in made)
    assert kinds == sorted(document["kind"] for document in EVERY)
    assert "DaemonSet" in kinds
    assert "StatefulSet" in kinds
    assert {document["metadata"].get("namespace", "fshipper") for document in made} == {"fshipper"}


@pytest.mark.parametrize("container", CONTAINERS, ids=lambda container: container["name"])
def test_a_container_is_given_what_it_understands(container):
    """Its verb and options exist, its environment is read, and its files are where they can be written."""
    words = container.get("args") or shlex.split(container["command"][-1])[1:]
    shown = run(shutil.which("fshipper", path=sysconfig.get_path("scripts")), *verb(words), "--help")
    for option in [word for word in words if word.startswith("--")]:
        assert option in shown
    known = {*config.ENVIRONMENT, *config.OTHERS, "TMPDIR"}
    assert {variable["name"] for variable in container["env"]} <= known if "env" in container else True
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
    assert container["resources"]["limits"]["memory"]


def verb(words):
    return words[:2] if words[0] == "partition" else words[:1]


def test_volumes_ports_and_services_fit_together():
    for document in EVERY:
        for pod in pods(document):
            claimed = document["spec"].get("volumeClaimTemplates", [])
            volumes = {
                volume["name"] for volume in [*pod.get("volumes", []), *(claim["metadata"] for claim in claimed)]
            }
            for container in pod["containers"]:
                assert {mount["name"] for mount in container.get("volumeMounts", [])} <= volumes
                ports = {port["name"] for port in container.get("ports", [])}
                for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                    assert container.get(probe, {}).get("httpGet", {}).get("port", "metrics") in {*ports, "metrics"}
    settings = next(document for document in EVERY if document["kind"] == "ConfigMap")
    config.load({}, environment=settings["data"])


def test_the_collector_is_given_time_and_the_producer_its_nodes_name():
    producer, collector = (next(d for d in EVERY if d["kind"] == kind) for kind in ("DaemonSet", "StatefulSet"))
    (pod,) = pods(producer)
    environment = {variable["name"]: variable for variable in pod["containers"][0]["env"]}
    assert environment["HOSTNAME"]["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"
    assert pod["terminationGracePeriodSeconds"] > config.load({}, environment={}).producer.drain_within
    assert pods(collector)[0]["terminationGracePeriodSeconds"] >= 60
