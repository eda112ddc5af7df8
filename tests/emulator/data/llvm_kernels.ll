; Source of llvm_kernels_sm80.ptx: llc-19 -mtriple=nvptx64 -mcpu=sm_80 -mattr=+ptx75 -fp-contract=off
;   -o llvm_kernels_sm80.ptx llvm_kernels.ll
target triple = "nvptx64-nvidia-cuda"
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"

declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare void @llvm.nvvm.barrier0()
declare float @llvm.nvvm.shfl.sync.bfly.f32(i32, float, i32, i32)
declare { i32, i1 } @llvm.nvvm.shfl.sync.down.i32p(i32, i32, i32, i32)
declare i32 @llvm.nvvm.vote.ballot.sync(i32, i1)
declare i32 @llvm.nvvm.redux.sync.add(i32, i32)
declare float @llvm.fma.f32(float, float, float)
declare bfloat @llvm.fma.bf16(bfloat, bfloat, bfloat)
declare <2 x half> @llvm.fma.v2f16(<2 x half>, <2 x half>, <2 x half>)
declare float @llvm.maxnum.f32(float, float)
declare float @llvm.floor.f32(float)
declare i32 @llvm.fshl.i32(i32, i32, i32)
declare i32 @llvm.bswap.i32(i32)
declare i32 @llvm.umax.i32(i32, i32)

@tile = internal addrspace(3) global [64 x float] undef, align 16
@table = addrspace(4) constant [4 x i32] [i32 10, i32 20, i32 30, i32 40]

; Elementwise in f32, bf16 and f16; parameters of every size; q is only read.
define ptx_kernel void @elementwise(ptr addrspace(1) %p, ptr addrspace(1) noalias readonly %q, i64 %n, half %h, i8 %b, i1 %flag, [3 x i32] %arr, <4 x float> %v) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %c = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %nt = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %m = mul i32 %c, %nt
  %i = add i32 %m, %t
  %i64 = zext i32 %i to i64
  %in = icmp slt i64 %i64, %n
  br i1 %in, label %work, label %done
work:
  %a = getelementptr float, ptr addrspace(1) %q, i64 %i64
  %x = load float, ptr addrspace(1) %a, align 4
  %y = call float @llvm.fma.f32(float %x, float %x, float 1.5)
  %f = call float @llvm.floor.f32(float %y)
  %mx = call float @llvm.maxnum.f32(float %f, float %x)
  %bf = fptrunc float %x to bfloat
  %bg = call bfloat @llvm.fma.bf16(bfloat %bf, bfloat %bf, bfloat %bf)
  %bx = fpext bfloat %bg to float
  %hf = fptrunc float %x to half
  %pk = insertelement <2 x half> poison, half %hf, i32 0
  %pk2 = insertelement <2 x half> %pk, half %h, i32 1
  %pf = call <2 x half> @llvm.fma.v2f16(<2 x half> %pk2, <2 x half> %pk2, <2 x half> %pk2)
  %pe = extractelement <2 x half> %pf, i32 1
  %pex = fpext half %pe to float
  %bs = call i32 @llvm.bswap.i32(i32 %i)
  %fs = call i32 @llvm.fshl.i32(i32 %bs, i32 %i, i32 8)
  %um = call i32 @llvm.umax.i32(i32 %fs, i32 %i)
  %dv = udiv i32 %um, 7
  %a1 = extractvalue [3 x i32] %arr, 1
  %z = add i32 %dv, %a1
  %tix = and i64 %i64, 3
  %cp = getelementptr [4 x i32], ptr addrspace(4) @table, i64 0, i64 %tix
  %cv = load i32, ptr addrspace(4) %cp
  %sb = sext i8 %b to i32
  %z2 = add i32 %cv, %sb
  %z3 = select i1 %flag, i32 %z2, i32 %z
  %zf = uitofp i32 %z3 to float
  %v2 = extractelement <4 x float> %v, i32 2
  %s1 = fadd float %mx, %bx
  %s2 = fadd float %s1, %pex
  %s3 = fmul float %s2, %v2
  %s4 = fadd float %s3, %zf
  %o = getelementptr float, ptr addrspace(1) %p, i64 %i64
  store float %s4, ptr addrspace(1) %o, align 4
  br label %done
done:
  ret void
}

define float @helper(float %x, ptr %out) noinline {
  %y = fmul float %x, 2.0
  store float %y, ptr %out
  %z = fadd float %x, 1.0
  ret float %z
}

; 64 threads: a call with a pointer to a local variable, a local array, shuffles, votes, shared
; memory through a generic pointer.
define ptx_kernel void @exchange(ptr addrspace(1) %p) {
  %loc = alloca float
  %arr = alloca [8 x i32]
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %i = zext i32 %t to i64
  %a = getelementptr float, ptr addrspace(1) %p, i64 %i
  %x = load float, ptr addrspace(1) %a
  %h = call float @helper(float %x, ptr %loc)
  %l = load float, ptr %loc
  %k = and i64 %i, 7
  %ap = getelementptr [8 x i32], ptr %arr, i64 0, i64 %k
  store i32 %t, ptr %ap
  %av = load i32, ptr %ap
  %b1 = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %h, i32 16, i32 31)
  %b2 = fadd float %b1, %l
  %r = call { i32, i1 } @llvm.nvvm.shfl.sync.down.i32p(i32 -1, i32 %av, i32 1, i32 31)
  %r0 = extractvalue { i32, i1 } %r, 0
  %r1 = extractvalue { i32, i1 } %r, 1
  %bal = call i32 @llvm.nvvm.vote.ballot.sync(i32 -1, i1 %r1)
  %rx = call i32 @llvm.nvvm.redux.sync.add(i32 %r0, i32 -1)
  %low = and i32 %bal, 255
  %rs = add i32 %low, %rx
  %rf = sitofp i32 %rs to float
  %b3 = fadd float %b2, %rf
  %sp = getelementptr [64 x float], ptr addrspace(3) @tile, i64 0, i64 %i
  store float %b3, ptr addrspace(3) %sp
  call void @llvm.nvvm.barrier0()
  %j = xor i64 %i, 33
  %sq = getelementptr [64 x float], ptr addrspace(3) @tile, i64 0, i64 %j
  %g = addrspacecast ptr addrspace(3) %sq to ptr
  %o = load float, ptr %g
  store float %o, ptr addrspace(1) %a
  ret void
}
