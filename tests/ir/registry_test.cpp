// The op table as parsed, and what Attrs keeps.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "ir/op.h"

namespace riffle::ir {
namespace {

TEST(Registry, HasEveryRowOnceByText) {
  std::set<std::string_view> texts;
  for (const OpInfo& op : all_ops()) {
    EXPECT_TRUE(texts.insert(op.text).second) << op.text;
    EXPECT_EQ(find_op(op.text), &op);
    EXPECT_EQ(&info(op.op), &op);
  }
  EXPECT_GE(texts.size(), 55u);
  EXPECT_EQ(find_op("where_"), nullptr);
  EXPECT_EQ(find_op("where")->enumerator, "where_");
}

TEST(Registry, ParsesSignatures) {
  const OpInfo& norm = info(Op::layer_norm);
  ASSERT_EQ(norm.arguments.size(), 5u);
  EXPECT_EQ(norm.arguments[0].name, "x");
  EXPECT_EQ(norm.arguments[0].role, ArgumentSpec::Role::operand);
  EXPECT_EQ(norm.arguments[1].kind, AttrKind::ints);
  EXPECT_FALSE(norm.arguments[1].default_value);
  EXPECT_EQ(norm.arguments[2].name, "weight");
  EXPECT_EQ(norm.arguments[2].role, ArgumentSpec::Role::optional_operand);
  EXPECT_EQ(std::get<double>(*norm.arguments[4].default_value), 1e-5);
  EXPECT_EQ(norm.required_operands(), 1u);
  EXPECT_EQ(norm.maximum_operands(), 3u);

  const OpInfo& cat = info(Op::cat);
  EXPECT_EQ(cat.arguments[0].role, ArgumentSpec::Role::operand_list);
  EXPECT_EQ(cat.required_operands(), 1u);
  EXPECT_EQ(cat.maximum_operands(), SIZE_MAX);

  EXPECT_EQ(std::get<std::int64_t>(*info(Op::slice).attribute("end")->default_value), INT64_MAX);
  EXPECT_EQ(std::get<std::string>(*info(Op::gelu).attribute("approximate")->default_value), "none");
  EXPECT_EQ(std::get<DType>(*info(Op::arange).attribute("dtype")->default_value), DType::i64);
  EXPECT_EQ(std::get<bool>(*info(Op::param).attribute("frozen")->default_value), false);
  EXPECT_EQ(info(Op::relu).attribute("dim"), nullptr);
  EXPECT_TRUE(info(Op::break_).arguments.empty());
}

TEST(Registry, FindsWhatAMisspeltNameMeant) {
  ASSERT_FALSE(similar_ops("lienar").empty());
  EXPECT_EQ(similar_ops("lienar").front(), "linear");
  EXPECT_EQ(similar_ops("layernorm").front(), "layer_norm");
  EXPECT_TRUE(similar_ops("conv_transpose3d").empty());
}

TEST(Attrs, SortedAndEqualByBits) {
  const Attrs a = {{"b", true}, {"a", std::int64_t{1}}};
  EXPECT_EQ(a.entries().front().first, "a");
  EXPECT_EQ(a, (Attrs{{"a", std::int64_t{1}}, {"b", true}}));
  EXPECT_FALSE(a == (Attrs{{"a", 1.0}, {"b", true}}));
  EXPECT_FALSE((Attrs{{"a", 0.0}}) == (Attrs{{"a", -0.0}}));
  EXPECT_EQ((Attrs{{"a", std::nan("")}}), (Attrs{{"a", std::nan("")}}));
  EXPECT_EQ(a.number("a"), 1.0) << "an integer will do for a number";
  EXPECT_EQ(a.find("c"), nullptr);
}

TEST(Attrs, PrintsAsTextWritesThem) {
  EXPECT_EQ(to_string(AttrValue(true)), "True");
  EXPECT_EQ(to_string(AttrValue(std::int64_t{-3})), "-3");
  EXPECT_EQ(to_string(AttrValue(1e-5)), "1e-05");
  EXPECT_EQ(to_string(AttrValue(2.0)), "2.0");
  EXPECT_EQ(to_string(AttrValue(-HUGE_VAL)), "-inf");
  EXPECT_EQ(to_string(AttrValue(DType::bf16)), "bf16");
  EXPECT_EQ(to_string(AttrValue(std::string("mean"))), "'mean'");
  EXPECT_EQ(to_string(AttrValue(Ints{0, 1})), "[0, 1]");
}

}  // namespace
}  // namespace riffle::ir
