"""Memory access of the builder `Function`: argument words, addresses, vectors with strides and masks, the stack."""

from __future__ import annotations

from typing import Any

from .values import BITS, LLVM_TYPES, Val

__all__ = ["MemoryAccess"]


class MemoryAccess:
    """Loads and stores; the builder `Function` supplies the instructions."""

    def arg(self, number: int) -> Val:
        """The pointer in argument word `number`; loaded once, at the start of the function."""
        found = self._arguments.get(number)
        if found is None:
            name = f"%arg{number}"
            place = f"{name}.p = getelementptr i64, ptr %args, i64 {number}"
            self.prologue += ["  " + place, f"  {name} = load ptr, ptr {name}.p, align 8"]
            found = self._arguments[number] = Val(self, name, "ptr")
        return found

    def number(self, word: int) -> Val:
        """The integer in argument word `word`."""
        return self.load(Val(self, "%args", "ptr"), word, "i64")

    def offset(self, pointer: Val, index: Any, kind: str) -> Val:
        """The address of element `index` of an array."""
        if isinstance(index, int) and index == 0:
            return pointer
        element = "i8" if kind == "i1" else LLVM_TYPES[kind]
        index = self.index(index)
        return self.emit(f"getelementptr {element}, {pointer.typed}, {index.typed}", "ptr", index.lanes)

    def load(
        self, pointer: Val, index: Any, kind: str, lanes: int = 1, mask: Val | None = None, stride: int = 1
    ) -> Val:
        """Element `index`, or the `lanes` elements from there on, `stride` apart. Masked lanes are zero,
        but with stride 0, where the one element is read whatever the mask says."""
        memory = "i8" if kind == "i1" else LLVM_TYPES[kind]
        align = max(1, BITS[kind] // 8)
        if lanes > 1 and stride == 0:
            return self.splat(self.load(pointer, index, kind), lanes)
        raw = "u8" if kind == "i1" else kind
        if lanes == 1:
            found = self.emit(f"load {memory}, {self.offset(pointer, index, kind).typed}, align {align}", raw)
        elif stride != 1:
            found = self._gather(pointer, index, raw, lanes, mask, stride, align)
        elif mask is None:
            place = self.offset(pointer, index, kind)
            found = self.emit(f"load <{lanes} x {memory}>, {place.typed}, align {align}", raw, lanes)
        else:
            vector, place = f"<{lanes} x {memory}>", self.offset(pointer, index, kind)
            name = f"llvm.masked.load.{self.suffix(raw, lanes)}.p0"
            self.declarations[f"declare {vector} @{name}(ptr, i32, <{lanes} x i1>, {vector})"] = None
            rest = f"{place.typed}, i32 {align}, {mask.typed}, {vector} zeroinitializer"
            found = self.emit(f"call {vector} @{name}({rest})", raw, lanes)
        return self.compare("ne", found, 0) if kind == "i1" else found

    def _lane_places(self, pointer: Val, index: Any, kind: str, lanes: int, stride: int) -> Val:
        start = self.offset(pointer, index, kind)
        steps = ", ".join(f"i64 {i * stride}" for i in range(lanes))
        return self.offset(start, Val(self, f"<{steps}>", "i64", lanes), kind)

    def _gather(
        self, pointer: Val, index: Any, kind: str, lanes: int, mask: Val | None, stride: int, align: int
    ) -> Val:
        return self.gather(self._lane_places(pointer, index, kind, lanes, stride), kind, mask)

    def gather(self, places: Val, kind: str, mask: Val | None = None) -> Val:
        """The elements at a vector of addresses; masked lanes are zero. Booleans are loaded as u8."""
        lanes, memory = places.lanes, LLVM_TYPES[kind]
        mask = mask or self.const("i1", True, lanes)
        vector = f"<{lanes} x {memory}>"
        name = f"llvm.masked.gather.{self.suffix(kind, lanes)}.v{lanes}p0"
        self.declarations[f"declare {vector} @{name}(<{lanes} x ptr>, i32, <{lanes} x i1>, {vector})"] = None
        rest = f"{places.typed}, i32 {max(1, BITS[kind] // 8)}, {mask.typed}, {vector} zeroinitializer"
        return self.emit(f"call {vector} @{name}({rest})", kind, lanes)

    def store(
        self, value: Val, pointer: Val, index: Any, mask: Val | None = None, stride: int = 1, past: bool = False
    ) -> None:
        """Write one element, or one for each lane, `stride` apart; `past`: whole aligned vectors, past the caches."""
        kind = value.kind
        if kind == "i1":
            value, kind = self.cast(value, "u8"), "u8"
        align = BITS[kind] // 8
        count = 0 if mask is None or value.lanes == 1 else self.known_tail(mask)
        if count == 1:
            value = self.extract(value, 0)  # LLVM would store a whole wide lane where a narrowed one is meant
        if value.lanes > 1 and stride != 1:
            places = self._lane_places(pointer, index, kind, value.lanes, stride)
            mask = mask or self.const("i1", True, value.lanes)
            name = f"llvm.masked.scatter.{self.suffix(kind, value.lanes)}.v{value.lanes}p0"
            self.declarations[
                f"declare void @{name}({value.type}, <{value.lanes} x ptr>, i32, <{value.lanes} x i1>)"
            ] = None
            self.do(f"call void @{name}({value.typed}, {places.typed}, i32 {align}, {mask.typed})")
            return
        place = self.offset(pointer, index, kind)
        if mask is None or value.lanes == 1:
            hint = f"{align * value.lanes}, !nontemporal !{{i32 1}}" if past else f"{align}"
            self.do(f"store {value.typed}, {place.typed}, align {hint}")
            return
        if count and not self.target.masked_stores:
            self._store_first(value, count, pointer, index)
            return
        name = f"llvm.masked.store.{self.suffix(kind, value.lanes)}.p0"
        self.declarations[f"declare void @{name}({value.type}, ptr, i32, <{value.lanes} x i1>)"] = None
        self.do(f"call void @{name}({value.typed}, {place.typed}, i32 {align}, {mask.typed})")

    def prefetch(self, pointer: Val, index: Any, kind: str, level: int = 1) -> None:
        """Ask for the line of memory around element `index`, to be read soon; `level`: the cache that it shall come to."""
        self.declarations["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None
        self.do(
            f"call void @llvm.prefetch.p0({self.offset(pointer, index, kind).typed}, i32 0, i32 {4 - level}, i32 1)"
        )

    def _store_first(self, value: Val, count: int, pointer: Val, index: Any) -> None:
        """Write the first `count` lanes, in pieces of a whole, a half, a quarter … of a vector."""
        done, size = 0, value.lanes
        while size:
            if count - done >= size:
                piece = self.shuffle(value, value, range(done, done + size)) if size > 1 else self.extract(value, done)
                self.store(piece, pointer, index + done)
                done += size
            size //= 2

    def stack(self, kind: str, count: int, align: int = 64) -> Val:
        """Private memory of the function, `count` elements."""
        name = f"%{self.fresh('stack')}"
        self.prologue.append(f"  {name} = alloca [{count} x {LLVM_TYPES[kind]}], align {align}")
        return Val(self, name, "ptr")
