"""The ctypes mirror is the headers: sizes, offsets, functions."""
import ctypes
import subprocess

from conftest import ROOT, without_preload
from libscion import _abi, names
from libscion._library import library


def structs():
    return {name: value for name, value in vars(_abi).items()
            if isinstance(value, type) and issubclass(value, ctypes.Structure) and value is not ctypes.Structure}


def test_sizes_and_offsets_are_the_compilers(compile_c, tmp_path):
    headers = [str(ROOT / "include" / name) for name in ("scion.h", "scion_advanced.h")]
    source = tmp_path / "layout.c"
    source.write_text(subprocess.check_output(["sh", str(ROOT / "tools/mirror"), "--layout", *headers], text=True))
    compiled = subprocess.check_output([str(compile_c(source))], text=True, env=without_preload()).splitlines()
    ours = []
    for name, struct in structs().items():
        for field, _ in struct._fields_:
            member = getattr(struct, field)
            ours.append(f"{name} {field} {member.offset} {member.size}")
        ours.append(f"{name} {ctypes.sizeof(struct)}")
    assert len(compiled) > 150
    assert sorted(compiled) == sorted(ours)


def test_every_function_of_the_headers_is_there():
    listed = subprocess.check_output(
        ["sh", str(ROOT / "tools/man3"), "--names", str(ROOT / "include/scion.h"), str(ROOT / "include/scion_advanced.h")],
        text=True).split()
    functions = {name for name in listed if not name.endswith("_init")} | {"scion_boundary_init"}
    assert functions == set(_abi.FUNCTIONS)
    assert all(hasattr(library, name) for name in functions)


def test_names():
    assert names("rule")[:2] == ["scion", "uscion"] and "sgd" in names("rule")
    assert names("norm")[0] == "auto" and len(names("norm")) == 8
