"""The dependency rule of docs/architecture.md, read off the #include lines."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What a folder's files may include, apart from their own folder, the standard library and include/riffle.
ALLOWED = {
    "support": set(),
    "ir": {"support"},
    "runtime": {"support"},
    "codegen": {"support", "ir"},
    "jit": {"support", "ir", "codegen", "runtime"},
    "io": {"support", "ir"},
    "driver": {"support", "ir", "codegen", "runtime", "jit", "io"},
    "emulator": set(),
    "include/riffle": set(),
}
EXCEPTIONS = {("codegen", "runtime/kernel_abi.h")}  # the calling convention, all that the two share
# Headers of other projects, and where alone they may be included (a folder and those below it).
FOREIGN = {
    r"llvm[-/]": {"codegen", "jit"},
    r"cuda\.h": {"runtime/cuda"},
    r"(cuda_|nvrtc|cudnn|cublas)\w*\.h": set(),
    r"nccl\.h": {"runtime/collectives/nccl"},
    r"mpi\.h": set(),
    r"(histedit|editline/).*": {"driver"},
    r"CLI/": {"driver"},
    r"zlib\.h": {"io"},
}

problems = []
for folder, allowed in ALLOWED.items():
    files = [p for p in (ROOT / folder).rglob("*") if p.suffix in (".h", ".cpp")]
    if not files:
        problems.append(f"{folder}: no file was found")
    for path in files:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
            if not found:
                continue
            header, place = found[1], f"{path.relative_to(ROOT)}:{number}"
            top = header.split("/")[0]
            if top in ALLOWED and top != folder and top not in allowed and (folder, header) not in EXCEPTIONS:
                problems.append(f"{place}: {folder}/ may not include {header}")
            for pattern, where in FOREIGN.items():
                parents = {str(parent) for parent in path.relative_to(ROOT).parents}
                if re.match(pattern, header) and not parents & where:
                    problems.append(f"{place}: {header} may be included in {sorted(where) or 'no folder'} only")
sys.exit("\n".join(problems) if problems else 0)
