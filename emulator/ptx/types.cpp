#include "emulator/ptx/types.h"

#include <utility>

namespace emulator::ptx {
namespace {

constexpr std::pair<std::string_view, Type> kTypes[] = {
    {"pred", Type::pred},     {"b8", Type::b8},       {"u8", Type::u8},
    {"s8", Type::s8},         {"b16", Type::b16},     {"u16", Type::u16},
    {"s16", Type::s16},       {"f16", Type::f16},     {"bf16", Type::bf16},
    {"b32", Type::b32},       {"u32", Type::u32},     {"s32", Type::s32},
    {"f32", Type::f32},       {"tf32", Type::tf32},   {"f16x2", Type::f16x2},
    {"bf16x2", Type::bf16x2}, {"u16x2", Type::u16x2}, {"s16x2", Type::s16x2},
    {"b64", Type::b64},       {"u64", Type::u64},     {"s64", Type::s64},
    {"f64", Type::f64},       {"b128", Type::b128},
};

constexpr std::pair<std::string_view, Special> kSpecials[] = {
    {"%tid.x", Special::tid_x},
    {"%tid.y", Special::tid_y},
    {"%tid.z", Special::tid_z},
    {"%ntid.x", Special::ntid_x},
    {"%ntid.y", Special::ntid_y},
    {"%ntid.z", Special::ntid_z},
    {"%ctaid.x", Special::ctaid_x},
    {"%ctaid.y", Special::ctaid_y},
    {"%ctaid.z", Special::ctaid_z},
    {"%nctaid.x", Special::nctaid_x},
    {"%nctaid.y", Special::nctaid_y},
    {"%nctaid.z", Special::nctaid_z},
    {"%laneid", Special::laneid},
    {"%warpid", Special::warpid},
    {"%nwarpid", Special::nwarpid},
    {"%lanemask_eq", Special::lanemask_eq},
    {"%lanemask_lt", Special::lanemask_lt},
    {"%lanemask_le", Special::lanemask_le},
    {"%lanemask_gt", Special::lanemask_gt},
    {"%lanemask_ge", Special::lanemask_ge},
    {"WARP_SZ", Special::warp_size},
    {"%smid", Special::smid},
    {"%nsmid", Special::nsmid},
    {"%gridid", Special::gridid},
    {"%clock", Special::clock},
    {"%clock_hi", Special::clock},
    {"%clock64", Special::clock64},
    {"%globaltimer", Special::globaltimer},
    {"%globaltimer_lo", Special::globaltimer},
    {"%dynamic_smem_size", Special::dynamic_smem_size},
    {"%total_smem_size", Special::total_smem_size},
    {"%cluster_ctaid.x", Special::cluster_x},
    {"%cluster_ctaid.y", Special::cluster_x},
    {"%cluster_ctaid.z", Special::cluster_x},
    {"%cluster_ctarank", Special::cluster_x},
    {"%cluster_nctaid.x", Special::cluster_size_x},
    {"%cluster_nctaid.y", Special::cluster_size_x},
    {"%cluster_nctaid.z", Special::cluster_size_x},
    {"%cluster_nctarank", Special::cluster_size_x},
};

}  // namespace

Type type_named(std::string_view name) noexcept {
  for (const auto& [text, type] : kTypes)
    if (text == name) return type;
  return Type::none;
}

std::string_view name(Type type) noexcept {
  for (const auto& [text, candidate] : kTypes)
    if (candidate == type) return text;
  return "none";
}

Special special_named(std::string_view name) noexcept {
  for (const auto& [text, special] : kSpecials)
    if (text == name) return special;
  return Special::none;
}

}  // namespace emulator::ptx
