#!/usr/bin/env python3
"""compile.py LIBNVRTC SOURCE.cu OUT.ptx: CUDA C to PTX for sm_37 through NVRTC, without a toolkit."""
import ctypes
import pathlib
import sys

OPTIONS = ["--gpu-architecture=compute_37", "--std=c++11"]


def main(library, source, out):
    nvrtc = ctypes.CDLL(library)
    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p

    def text(program, size_of, get):
        size = ctypes.c_size_t()
        check(size_of(program, ctypes.byref(size)))
        buffer = ctypes.create_string_buffer(size.value)
        check(get(program, buffer))
        return buffer.value

    def check(result):
        if result:
            sys.exit(f"{source}: {nvrtc.nvrtcGetErrorString(result).decode()}")

    source = pathlib.Path(source)
    program = ctypes.c_void_p()
    # The bare name and no path: nothing of this machine may end up in the PTX.
    check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.read_bytes(), source.name.encode(),
                                   0, None, None))
    options = [o.encode() for o in OPTIONS + [f"--include-path={source.parent}"]]
    result = nvrtc.nvrtcCompileProgram(program, len(options),
                                       (ctypes.c_char_p * len(options))(*options))
    log = text(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
    if log:
        sys.stderr.write(log.decode())
    check(result)
    pathlib.Path(out).write_bytes(text(program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX))


main(*sys.argv[1:])
