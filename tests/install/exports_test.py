"""exports_test.py LIBRIFFLE.SO: it exports the public API and nothing else, and errors can be caught outside."""
import re
import subprocess
import sys

lines = subprocess.run(["nm", "-DC", "--defined-only", sys.argv[1]], capture_output=True, text=True, check=True)
symbols = [line.split(None, 2)[2] for line in lines.stdout.splitlines()]
problems = []
for symbol in symbols:
    name = re.sub(r"^(typeinfo|typeinfo name|vtable) for ", "", symbol)
    if not name.startswith("riffle::") or re.match(r"riffle::(ir|codegen|jit|runtime|io|support|driver)::", name):
        problems.append("exported: " + symbol)
    if re.search(r"\bImpl::", name):
        problems.append("an implementation's member is exported: " + symbol)
for error in ("Error", "GraphError", "CompileError", "DeviceError", "CommError", "IoError", "UsageError", "Cancelled"):
    if f"typeinfo for riffle::{error}" not in symbols:
        problems.append(f"riffle::{error} cannot be caught outside: its typeinfo is not exported")
for wanted in ("riffle::Executable::step()", "riffle::Graph::text[abi:cxx11]() const"):
    if wanted not in symbols:
        problems.append("not exported: " + wanted)
sys.exit("\n".join(problems) if problems else 0)
