"""What the tests share: the repository, the C compiler, and programs that are linked with the library under test."""
import os
import pathlib
import shutil
import subprocess

import pytest

import libscion

ROOT = pathlib.Path(__file__).resolve().parents[2]


def library_path():
    return pathlib.Path(os.environ.get("SCION_LIBRARY") or pathlib.Path(libscion.__file__).parent / "libscion.so").resolve()


@pytest.fixture(scope="session")
def compile_c(tmp_path_factory):
    """A function that compiles a C source against the headers, and the library if it is asked for; the program's path."""
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("there is no C compiler here")
    folder = tmp_path_factory.mktemp("c")

    def build(source, linked=False):
        program = folder / pathlib.Path(source).stem
        command = [compiler, "-std=gnu11", "-Wall", "-Werror", f"-I{ROOT / 'include'}", str(source), "-o", str(program)]
        if linked:
            library = library_path()
            command += [str(library), f"-Wl,-rpath,{library.parent}", "-Wl,--allow-shlib-undefined"]
        subprocess.run(command, check=True, env=without_preload())
        return program

    return build


def without_preload():
    """The environment of a compiler: a sanitizer that is preloaded for Python would watch it, too."""
    return {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
