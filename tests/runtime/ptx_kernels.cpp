#include "tests/runtime/ptx_kernels.h"

#include <array>
#include <utility>

namespace riffle::runtime::test {
namespace {

constexpr const char* kPtx = R"(.version 7.0
.target sm_75
.address_size 64

.extern .shared .align 16 .b8 dynamic[];

.visible .entry increment(.param .u64 p0, .param .u64 scratch, .param .u64 status) {
  .reg .b32 %r<6>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [p0];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.s32 %r4, %r1, %r2, %r3;
  mul.wide.s32 %rd3, %r4, 4;
  add.s64 %rd4, %rd2, %rd3;
  ld.global.u32 %r5, [%rd4];
  add.s32 %r5, %r5, 1;
  st.global.u32 [%rd4], %r5;
  ret;
}

.visible .entry to_scratch(.param .u64 p0, .param .u64 scratch, .param .u64 status) {
  .reg .b32 %r<5>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [scratch];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.s32 %r4, %r1, %r2, %r3;
  mul.wide.s32 %rd3, %r4, 4;
  add.s64 %rd4, %rd2, %rd3;
  st.global.u32 [%rd4], %r4;
  ret;
}

.visible .entry from_scratch(.param .u64 p0, .param .u64 scratch, .param .u64 status) {
  .reg .b32 %r<8>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [scratch];
  cvta.to.global.u64 %rd2, %rd1;
  ld.param.u64 %rd5, [p0];
  cvta.to.global.u64 %rd6, %rd5;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.s32 %r4, %r1, %r2, %r3;
  mul.wide.s32 %rd3, %r4, 4;
  add.s64 %rd4, %rd2, %rd3;
  add.s64 %rd7, %rd6, %rd3;
  ld.global.u32 %r5, [%rd4];
  ld.global.u32 %r6, [%rd7];
  add.s32 %r7, %r5, %r6;
  st.global.u32 [%rd7], %r7;
  ret;
}

.visible .entry report_index(.param .u64 scratch, .param .u64 status) {
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [status];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u64 %rd3, 17;
  st.relaxed.gpu.global.u64 [%rd2+8], %rd3;
  mov.u64 %rd3, 10;
  st.relaxed.gpu.global.u64 [%rd2+16], %rd3;
  mov.u64 %rd3, 1;
  st.relaxed.gpu.global.u64 [%rd2], %rd3;
  ret;
}

.visible .entry report_another(.param .u64 scratch, .param .u64 status) {
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [status];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u64 %rd3, 3;
  st.relaxed.gpu.global.u64 [%rd2+8], %rd3;
  mov.u64 %rd3, 2;
  st.relaxed.gpu.global.u64 [%rd2+16], %rd3;
  mov.u64 %rd3, 1;
  st.relaxed.gpu.global.u64 [%rd2], %rd3;
  ret;
}

.visible .entry reverse(.param .u64 p0, .param .u64 scratch, .param .u64 status) {
  .reg .b32 %r<12>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [p0];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.s32 %r4, %r1, %r2, %r3;
  mul.wide.s32 %rd3, %r4, 4;
  add.s64 %rd4, %rd2, %rd3;
  ld.global.u32 %r5, [%rd4];
  mov.u32 %r6, dynamic;
  shl.b32 %r7, %r3, 10;
  add.s32 %r8, %r6, %r7;
  st.shared.u32 [%r8], %r5;
  bar.sync 0;
  sub.s32 %r9, 63, %r3;
  shl.b32 %r10, %r9, 10;
  add.s32 %r11, %r6, %r10;
  ld.shared.u32 %r5, [%r11];
  st.global.u32 [%rd4], %r5;
  ret;
}

.visible .entry wild(.param .u64 p0, .param .u64 scratch, .param .u64 status) {
  .reg .b32 %r<2>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [p0];
  cvta.to.global.u64 %rd2, %rd1;
  add.s64 %rd3, %rd2, 1073741824;
  mov.u32 %r1, 1;
  st.global.u32 [%rd3], %r1;
  ret;
}
)";

/// What the object of a partition would hold.
struct Image {
  std::string ptx;
  std::array<DeviceKernel, 6> kernels;
  DeviceModule module;
};

constexpr std::uint32_t kShared = 64 << 10;
constexpr DeviceGrid kIncrementGrids[] = {{"increment", {kBlocks, 1, 1}, {kBlock, 1, 1}, 0, 0}};
constexpr DeviceGrid kScratchGrids[] = {{"to_scratch", {kBlocks, 1, 1}, {kBlock, 1, 1}, 0, 0},
                                        {"from_scratch", {kBlocks, 1, 1}, {kBlock, 1, 1}, 0, 0}};
constexpr DeviceGrid kReportGrids[] = {{"report_index", {1, 1, 1}, {1, 1, 1}, 0, 0}};
constexpr DeviceGrid kAnotherGrids[] = {{"report_another", {1, 1, 1}, {1, 1, 1}, 0, 0}};
constexpr DeviceGrid kReverseGrids[] = {{"reverse", {kBlocks, 1, 1}, {kBlock, 1, 1}, kShared, 0}};
constexpr DeviceGrid kWildGrids[] = {{"wild", {1, 1, 1}, {1, 1, 1}, 0, 0}};

template <const DeviceGrid* grids, int count, int operand_count>
int launch(LaunchGrid launch_grid, void* const* functions, void* const* operands, void* scratch,
           void* status, void* stream) {
  std::array<void*, operand_count + 2> values;
  for (int i = 0; i < operand_count; ++i) values[i] = operands[i];
  values[operand_count] = scratch;
  values[operand_count + 1] = status;
  std::array<void*, operand_count + 2> parameters;
  for (std::size_t i = 0; i < values.size(); ++i) parameters[i] = &values[i];
  for (int g = 0; g < count; ++g) {
    const DeviceGrid& grid = grids[g];
    const int code = launch_grid(functions[g], grid.grid[0], grid.grid[1], grid.grid[2],
                                 grid.block[0], grid.block[1], grid.block[2], grid.shared_bytes,
                                 stream, parameters.data(), nullptr);
    if (code != 0) return code;
  }
  return 0;
}

}  // namespace

std::string ptx_text() { return kPtx; }

ModuleImage ptx_image_with(const std::string& name, std::string ptx, int ptx_version,
                           std::int64_t scratch_bytes) {
  const auto image = std::make_shared<Image>();
  image->ptx = std::move(ptx);
  image->kernels = {{
      {"increment", launch<kIncrementGrids, 1, 1>, kIncrementGrids, 1, 1, 0},
      {"copy_scratch", launch<kScratchGrids, 2, 1>, kScratchGrids, 2, 1, scratch_bytes},
      {"report_index", launch<kReportGrids, 1, 0>, kReportGrids, 1, 0, 0},
      {"report_another", launch<kAnotherGrids, 1, 0>, kAnotherGrids, 1, 0, 0},
      {"reverse", launch<kReverseGrids, 1, 1>, kReverseGrids, 1, 1, 0},
      {"wild", launch<kWildGrids, 1, 1>, kWildGrids, 1, 1, 0},
  }};
  image->module = {.ptx = image->ptx.c_str(),
                   .ptx_bytes = static_cast<std::int64_t>(image->ptx.size()),
                   .sm = 75,
                   .ptx_version = ptx_version,
                   .kernels = image->kernels.data(),
                   .kernel_count = static_cast<std::int64_t>(image->kernels.size())};
  ModuleImage result;
  result.name = name;
  for (const DeviceKernel& kernel : image->kernels)
    result.kernels.push_back({.name = kernel.name, .geometry = {}});
  result.device = &image->module;
  result.owner = image;
  return result;
}

ModuleImage ptx_image(const std::string& name, std::int64_t scratch_bytes) {
  return ptx_image_with(name, ptx_text(), 70, scratch_bytes);
}

}  // namespace riffle::runtime::test
