"""LLVM IR text to object code: llvmlite and nothing else of Weft.

Run as a program, this file compiles what another process sends it: llvmlite works under one lock, so only a second
process makes a second core help. A message is the word `weft`, a length (4 bytes, little-endian) and so many bytes. The
first message is the target's triple, processor and features in three lines; every further one is a module, answered by
its object code, or by an empty message for IR that is not accepted.
"""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any, BinaryIO

__all__ = ["binding", "emit", "new_machine", "receive", "send"]


@functools.cache
def binding() -> ModuleType:
    """llvmlite's binding, ready to generate code; imported late because that takes longer than small programs."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


def new_machine(triple: str, cpu: str, features: str) -> Any:
    """A code generator at level 1: half the time of level 3 for code of the same speed."""
    llvm = binding()
    if triple.partition("-")[0] != llvm.get_process_triple().partition("-")[0]:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features, opt=1, jit=True)


_machine = functools.cache(new_machine)


def emit(ir: str, triple: str, cpu: str, features: str, assembly: bool = False) -> Any:
    """Object code (or assembly for people to read) of a module; no passes run over the IR.

    RuntimeError for IR that does not parse, is not well formed, or calls a function that the module does not define.
    """
    llvm, machine = binding(), _machine(triple, cpu, features)
    module = llvm.parse_assembly(ir, llvm.create_context())  # a context keeps what was ever parsed in it
    module.verify()
    outside = [f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")]
    if outside:
        raise RuntimeError(f"native functions get what they call as arguments; this one asks the linker for {outside}")
    module.triple, module.data_layout = triple, str(machine.target_data)
    return machine.emit_assembly(module) if assembly else machine.emit_object(module)


_START = b"weft"


def send(stream: BinaryIO, message: bytes) -> None:
    """Write one message."""
    stream.write(_START + len(message).to_bytes(4, "little") + message)
    stream.flush()


def receive(stream: BinaryIO) -> bytes | None:
    """Read one message; None at the end of the stream, or if it holds something else."""
    head = stream.read(8)
    if len(head) != 8 or not head.startswith(_START):
        return None
    size = int.from_bytes(head[4:], "little")
    message = stream.read(size)
    return message if len(message) == size else None


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Compile modules until the requests end."""
    target = (receive(requests) or b"").decode().split("\n")
    while (ir := receive(requests)) is not None:
        try:
            send(answers, emit(ir.decode(), *target))
        except RuntimeError:
            send(answers, b"")


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
