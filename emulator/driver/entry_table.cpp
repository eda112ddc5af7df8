// In a file of its own: here the entry points have no types, only addresses.
#include "emulator/driver/entry_points.h"

extern "C" {
#define ROW(name, since, symbol) void symbol();
#include "emulator/driver/entry_points.def"
#undef ROW
}

namespace emulator {
namespace {

constexpr EntryPoint kEntryPoints[] = {
#define ROW(name, since, symbol) {#name, since, &::symbol},
#include "emulator/driver/entry_points.def"
#undef ROW
};

}  // namespace

std::span<const EntryPoint> entry_points() { return kEntryPoints; }

}  // namespace emulator
