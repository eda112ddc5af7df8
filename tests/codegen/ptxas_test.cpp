#include "codegen/nvptx/ptxas.h"

#include <gtest/gtest.h>

#include "riffle/error.h"

namespace riffle::codegen {
namespace {

constexpr char kPtx[] = R"(.version 7.0
.target sm_80
.address_size 64
.visible .entry copy(.param .u64 from, .param .u64 to)
{
	.reg .pred %p<2>;
	.reg .b64 %rd<6>;
	.reg .b32 %r<6>;
	ld.param.u64 	%rd1, [from];
	ld.param.u64 	%rd2, [to];
	cvta.to.global.u64 	%rd3, %rd1;
	cvta.to.global.u64 	%rd4, %rd2;
	mov.u32 	%r5, %tid.x;
	setp.gt.u32 	%p1, %r5, 0;
	@%p1 bra 	$done;
	ld.global.v4.b32 	{%r1, %r2, %r3, %r4}, [%rd3];
	bar.sync 	0;
	st.global.v4.b32 	[%rd4], {%r1, %r2, %r3, %r4};
	st.global.b32 	[%rd4+16], %r1;
$done:
	ret;
}
)";

TEST(Ptxas, ReadsTheAssemblersReport) {
  const auto kernels = parse_ptxas_report(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'one' for 'sm_80'\n"
      "ptxas info    : Function properties for one\n"
      "    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
      "ptxas info    : Used 40 registers, used 1 barriers, 1024 bytes smem, 380 bytes cmem[0]\n"
      "ptxas info    : Compiling entry function 'two' for 'sm_80'\n"
      "ptxas info    : Function properties for two\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 8 registers, used 0 barriers, 360 bytes cmem[0]\n");
  EXPECT_EQ(kernels, (std::vector<PtxasKernel>{{"one", 40, 1024, 16, 8, 12}, {"two", 8}}));
}

TEST(Ptxas, CountsWhatMakesAKernelFast) {
  const auto mix = count_instructions(kPtx);
  ASSERT_EQ(mix.size(), 1U);
  EXPECT_EQ(mix[0].symbol, "copy");
  EXPECT_EQ(mix[0].instructions, 12);
  EXPECT_EQ(mix[0].global_128, 2);
  EXPECT_EQ(mix[0].global_other, 1);
  EXPECT_EQ(mix[0].barriers, 1);
  EXPECT_EQ(mix[0].local, 0);
}

TEST(Ptxas, AssemblesAndRefusesByTheAssemblersOwnWords) {
  const auto ptxas = find_ptxas();
  if (!ptxas) GTEST_SKIP() << "no ptxas on this machine";
  const auto kernels = assemble(*ptxas, kPtx, 80);
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].symbol, "copy");
  EXPECT_GT(kernels[0].registers, 0);
  EXPECT_EQ(kernels[0].spill_store_bytes, 0);
  try {
    assemble(*ptxas, std::string(kPtx) + "\nnonsense", 80);
    FAIL() << "accepted";
  } catch (const CompileError& error) {
    EXPECT_NE(std::string(error.what()).find("sm_80"), std::string::npos) << error.what();
  }
  EXPECT_THROW(assemble("/nonexistent/ptxas", kPtx, 80), CompileError);
}

}  // namespace
}  // namespace riffle::codegen
