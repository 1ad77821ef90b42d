"""Build the root file system of the image without a container engine, and run it: `make image-root`.

The instructions of the Dockerfile run in order on a Debian root file system that replaces the base image: the same
release of Debian and the same minor version of Python as `python:3.13-slim`. RUN executes in new mount and PID
namespaces below `chroot`, which needs root. :class:`ImageRoot` runs commands as the image does: as an unprivileged
user, with the root file system read-only and an empty /tmp.
"""

import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from release.debian import Suite, empty_directory
from release.dist import ROOT
from release.interpreters import CACHE

SUITE: Final = "trixie"
PACKAGES: Final = ("python3", "python3-pip-whl", "ca-certificates", "passwd", "libstdc++6")
CERTIFICATES: Final = "etc/ssl/certs/ca-certificates.crt"
#: Settings of this machine that a build needs to reach the index, as build arguments are for an engine.
PASSED: Final = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Stage:
    """One FROM of a Dockerfile: a root file system and the settings for the next instructions."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.directory = "/"
        self.environment = {"PATH": PATH, "HOME": "/root"}
        self.user = "0:0"
        self.entry: list[str] = []
        self.command: list[str] = []
        self.health: list[str] = []


class ImageRoot:
    """A built image: run its entry point or another command, as an engine does."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "root"
        self.settings = json.loads((directory / "image.json").read_text())

    def command(self, *arguments: str, mounts: dict[Path, str] | None = None, user: str = "") -> list[str]:
        """Return the command line that runs arguments, or the default command, inside the image.

        ``mounts`` maps directories of this machine to directories of the image, read-only.
        The network is that of the machine.
        """
        command = [*arguments] or [*self.settings["entry"], *self.settings["command"]]
        lines = [f"mount --bind {self.root} {self.root}"]
        for source, target in (mounts or {}).items():
            # Engines create missing mount points.
            lines.append(f"mkdir -p {self.root}{target}")
            lines.append(f"mount --bind -o ro {shlex.quote(str(source))} {self.root}{target}")
        lines += [
            f"mount -t proc proc {self.root}/proc",
            f"mount -t tmpfs tmpfs {self.root}/tmp",
            f"mount -o remount,bind,ro {self.root}",
        ]
        environment = " ".join(shlex.quote(f"{key}={value}") for key, value in self.settings["environment"].items())
        inside = f"cd / && exec {shlex.join(command)}"
        lines.append(
            f"exec env -i {environment} chroot --userspec={user or self.settings['user']} --groups= {self.root} "
            f"/bin/sh -c {shlex.quote(inside)}"
        )
        return [*UNSHARE, "sh", "-ec", "\n".join(lines)]


UNSHARE: Final = ("unshare", "--mount", "--pid", "--fork", "--kill-child")


def main() -> None:
    """Build the image below the cache and try its commands."""
    directory = CACHE / "image" if "--try-only" in sys.argv else build()
    image = ImageRoot(directory)
    size = sum(path.lstat().st_size for path in image.root.rglob("*") if not path.is_symlink()) / 1e6
    print(f"{directory}: {size:.0f} MB")
    for command, expected in (
        (("moorage", "--version"), "moorage "),
        (("/usr/local/bin/kube-scheduler", "--version"), "kube-scheduler v"),
        (("sh", "-c", "id -u; touch /home/x 2>&1 || true"), "65532"),
        (("sh", "-c", "touch /home/x 2>&1 || true"), "Read-only file system"),
        (("python3", "-c", "import cel_expr_python, uvloop, moorage; print('libraries')"), "libraries"),
    ):
        output = run_inside(image.command(*command))
        if expected not in output:
            raise SystemExit(f"{shlex.join(command)}: expected {expected!r} in {output!r}")
    print("runs as 65532 on a read-only root; moorage and kube-scheduler start")


def build() -> Path:
    """Run the instructions of the Dockerfile; return the directory of the image."""
    if os.geteuid():
        raise SystemExit("make image-root needs root for chroot; with a container engine, use `make image`")
    base = prepare_base()
    directory = empty_directory(CACHE / "image")
    stages: dict[str, Stage] = {}
    arguments: dict[str, str] = {}
    stage: Stage | None = None
    for instruction, rest in parse(ROOT.joinpath("Dockerfile").read_text(encoding="utf-8")):
        if instruction == "ARG":
            name, _, default = rest.partition("=")
            arguments[name] = default
        elif instruction == "FROM":
            name = rest.split(" AS ")[1] if " AS " in rest else "final"
            stage = stages[name] = Stage(directory / ("root" if name == "final" else name))
            subprocess.run(["cp", "-a", base, stage.root], check=True)
        else:
            assert stage is not None, f"{instruction} before FROM"
            apply(instruction, rest, stage, stages)
    final = stages["final"]
    final.environment["HOME"] = get_home(final)
    settings = {key: getattr(final, key) for key in ("environment", "user", "entry", "command", "health")}
    (directory / "image.json").write_text(json.dumps(settings))
    for name, other in stages.items():
        if name != "final":
            shutil.rmtree(other.root)
    return directory


def get_home(stage: Stage) -> str:
    """Return the home directory of the user, as an engine sets HOME."""
    for line in (stage.root / "etc/passwd").read_text(encoding="utf-8").splitlines():
        fields = line.split(":")
        if fields[2] == stage.user.split(":")[0]:
            return fields[5]
    return "/"


def prepare_base() -> Path:
    """Unpack the replacement of the base image, once."""
    recipe = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
    root = CACHE / "base" / f"{SUITE}-{recipe}"
    if (root / ".complete").exists():
        return root
    suite = Suite(SUITE, platform.machine(), CACHE / "debian")
    print(f"unpacking Debian {SUITE} with Python {suite.version('python3')}", file=sys.stderr)
    empty_directory(root)
    suite.unpack(suite.closure((*suite.essential(), *PACKAGES)), root)
    for name in ("passwd", "group"):
        shutil.copy(root / "usr/share/base-passwd" / f"{name}.master", root / "etc" / name)
    for name in ("usr/local/bin", "usr/local/lib", "etc/ssl/certs", "tmp", "proc"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    # Images of Python have no distribution that manages packages.
    for marker in (root / "usr/lib").glob("python3*/EXTERNALLY-MANAGED"):
        marker.unlink()
    subprocess.run(["chroot", root, "/sbin/ldconfig"], check=True)
    shutil.copy(f"/{CERTIFICATES}", root / CERTIFICATES)
    # An image of Python contains pip and no other package.
    (wheel,) = (root / "usr/share/python-wheels").glob("pip-*.whl")
    pip = f"/usr/share/python-wheels/{wheel.name}"
    run_inside(["chroot", str(root), "/usr/bin/python3", f"{pip}/pip", "install", "--no-index", "--quiet", pip])
    (root / ".complete").touch()
    return root


def parse(text: str) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile with their arguments."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in joined.splitlines() if line.strip()]


def apply(instruction: str, rest: str, stage: Stage, stages: dict[str, Stage]) -> None:
    """Apply one instruction to a stage."""
    match instruction:
        case "WORKDIR":
            stage.directory = rest
            (stage.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        case "COPY":
            *sources, target = rest.split()
            copy(sources, stage.root / stage.directory.lstrip("/"), target)
        case "RUN":
            execute(rest, stage, stages)
        case "ENV":
            stage.environment |= dict(part.partition("=")[::2] for part in shlex.split(rest))
        case "USER":
            stage.user = rest
        case "ENTRYPOINT":
            stage.entry = json.loads(rest)
        case "CMD":
            stage.command = json.loads(rest)
        case "HEALTHCHECK":
            stage.health = json.loads(rest.partition("CMD ")[2])
        case "LABEL" | "EXPOSE":
            pass
        case _:
            raise SystemExit(f"Dockerfile: {instruction} is not supported here")


def copy(sources: list[str], directory: Path, target: str) -> None:
    """Copy files of the build context, as far as .dockerignore includes them."""
    ignored = ROOT.joinpath(".dockerignore").read_text(encoding="utf-8").splitlines()
    for source in sources:
        if f"!{source}" not in ignored:
            raise SystemExit(f".dockerignore excludes {source}")
        if (ROOT / source).is_dir():
            shutil.copytree(
                ROOT / source, directory / target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(ROOT / source, directory / target / source)


def execute(rest: str, stage: Stage, stages: dict[str, Stage]) -> None:
    """Run a RUN instruction with the bind mounts that it names."""
    lines = [f"mount --bind {stage.root} {stage.root}", f"mount -t proc proc {stage.root}/proc"]
    while (match := re.match(r"--mount=type=bind,from=(\w+),source=(\S+),target=(\S+) +", rest)) is not None:
        (stage.root / match[3].lstrip("/")).mkdir(exist_ok=True)
        lines.append(f"mount --bind {stages[match[1]].root}{match[2]} {stage.root}{match[3]}")
        rest = rest[match.end() :]
    # The network settings of this machine, for the time of the build.
    shutil.copy("/etc/resolv.conf", stage.root / "etc/resolv.conf")
    shutil.copy(f"/{CERTIFICATES}", stage.root / CERTIFICATES)
    environment = {key: value for key, value in os.environ.items() if key in PASSED or key.startswith("PIP_")}
    environment.pop("PIP_FIND_LINKS", None)
    pairs = " ".join(shlex.quote(f"{key}={value}") for key, value in {**environment, **stage.environment}.items())
    shell = shlex.quote(f"cd {stage.directory} && {rest}")
    lines.append(f"exec env -i {pairs} chroot {stage.root} /bin/sh -ec {shell}")
    print(f"RUN {rest[:100]}", file=sys.stderr)
    run_inside([*UNSHARE, "sh", "-ec", "\n".join(lines)])


def run_inside(command: list[str]) -> str:
    """Run a command that is expected to succeed; return its output."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"failed with {result.returncode}:\n{command[-1]}\n{result.stdout}{result.stderr}")
    return result.stdout + result.stderr


if __name__ == "__main__":
    main()
