"""Makes the wheel of this package, with the engine that scripts/python.mjs has put together inside.

    python3 python/wheel.py ENGINE OUT

The standard library does it, so that nothing need be installed or downloaded. The same input gives the same bytes.
Source: PEP 427 for the format; PEP 566 for the metadata.
"""

import base64
import hashlib
import platform
import sys
import sysconfig
import zipfile
from pathlib import Path

import tomllib

HERE = Path(__file__).resolve().parent


def platform_tag() -> str:
    """Of this machine's addon, as pip knows it."""
    if sys.platform == "darwin":
        return f"macosx_11_0_{platform.machine()}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def metadata(project: dict) -> str:
    """The file METADATA."""
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"License-Expression: {project['license']}",
        f"Requires-Python: {project['requires-python']}",
        *(f"Requires-Dist: {need}" for need in project["dependencies"]),
    ]
    for extra, needs in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {need}; extra == "{extra}"' for need in needs]
    readme = (HERE / project["readme"]).read_text(encoding="utf-8")
    return "\n".join([*lines, "Description-Content-Type: text/markdown", "", readme])


def entry_points(project: dict) -> str:
    """The file entry_points.txt."""
    groups = {"console_scripts": project["scripts"]} | project["entry-points"]
    return "\n".join(
        line
        for group, points in groups.items()
        for line in (f"[{group}]", *(f"{name} = {target}" for name, target in points.items()), "")
    )


def main(engine: Path, out: Path) -> None:
    """Writes the wheel into the folder ``out`` and says where."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    source = HERE / "src" / "collapsar"
    files = {
        f"collapsar/{path.relative_to(source).as_posix()}": path.read_bytes()
        for path in sorted(source.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    files |= {
        f"collapsar/_engine/{path.relative_to(engine).as_posix()}": path.read_bytes()
        for path in sorted(engine.rglob("*"))
        if path.is_file()
    }
    tag = f"py3-none-{platform_tag()}"
    # PEP 427: names of files have no hyphens of their own.
    stem = f"{project['name'].replace('-', '_')}-{project['version']}"
    info = f"{stem}.dist-info"
    files[f"{info}/METADATA"] = metadata(project).encode()
    files[f"{info}/entry_points.txt"] = entry_points(project).encode()
    files[f"{info}/licenses/LICENSE"] = (HERE.parent / "LICENSE").read_bytes()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: collapsar\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    record = [
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}"
        for name, data in files.items()
    ]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    out.mkdir(parents=True, exist_ok=True)
    wheel = out / f"{stem}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    print(f"{wheel}: {len(files)} files, {wheel.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
