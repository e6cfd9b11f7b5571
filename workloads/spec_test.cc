// Tests property files, YAML workload files and the refusal of bad input.
#include "workloads/spec.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace loch::workloads {
namespace {

using testing::Contains;
using testing::HasSubstr;

Properties parsed(std::string_view text) {
  Properties out;
  const auto ok = parse_properties(text, "t.properties", out);
  EXPECT_TRUE(ok) << ok.error().message;
  return out;
}
std::string value(std::string_view text, std::string_view key) {
  const Properties all = parsed(text);
  const auto found = all.find(key);
  return found == all.end() ? "(none)" : found->second.value;
}

TEST(Properties, Separators) {
  EXPECT_EQ(value("a=b", "a"), "b");
  EXPECT_EQ(value("a:b", "a"), "b");
  EXPECT_EQ(value("a b", "a"), "b");
  EXPECT_EQ(value("a \t=\t b", "a"), "b");
  EXPECT_EQ(value("a = = b", "a"), "= b");
  EXPECT_EQ(value("a", "a"), "");
  EXPECT_EQ(value("  a=b", "a"), "b");
  EXPECT_EQ(value("=b", ""), "b");
}

TEST(Properties, TrailingBlanksOfAValueStay) { EXPECT_EQ(value("a=b  \n", "a"), "b  "); }

TEST(Properties, CommentsAndBlankLines) {
  const Properties all = parsed("# one\n ! two\n\n  \n#a=b\\\na=c\n");
  EXPECT_EQ(all.size(), 1U);
  EXPECT_EQ(all.at("a").value, "c");
  EXPECT_EQ(all.at("a").line, 6);
}

TEST(Properties, Continuations) {
  EXPECT_EQ(value("a=one,\\\n   two,\\\r\n\tthree", "a"), "one,two,three");
  // A line that ends in an even number of backslashes is not continued.
  EXPECT_EQ(value("a=b\\\\\nc=d", "a"), "b\\");
  EXPECT_EQ(value("a=b\\\n#c", "a"), "b#c");  // a '#' on a continuation line does not start a comment
  EXPECT_EQ(value("a=b\\", "a"), "b");
}

TEST(Properties, Escapes) {
  EXPECT_EQ(value("a\\ b=c", "a b"), "c");
  EXPECT_EQ(value("a\\=b=c", "a=b"), "c");
  EXPECT_EQ(value("a=\\t\\n\\q\\\\", "a"), "\t\nq\\");
  EXPECT_EQ(value("a=\\u0041\\u00e9\\u20AC", "a"), "A\xC3\xA9\xE2\x82\xAC");
  Properties out;
  const auto bad = parse_properties("x=1\ny=\\u12g4", "f", out);
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message, HasSubstr("f:2:"));
}

TEST(Properties, LaterWins) { EXPECT_EQ(value("a=1\na=2", "a"), "2"); }
TEST(Properties, AllLineEnds) { EXPECT_EQ(parsed("a=1\rb=2\r\nc=3\nd=4").size(), 4U); }

TEST(Ycsb, DefaultsAreThoseOfTheCode) {
  const auto spec = from_ycsb({});
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_DOUBLE_EQ(spec->mix->get, 0.95);
  EXPECT_DOUBLE_EQ(spec->mix->put, 0.05);
  EXPECT_DOUBLE_EQ(spec->mix->insert, 0);
  EXPECT_EQ(spec->distribution->kind, Distribution::uniform);
  EXPECT_DOUBLE_EQ(spec->distribution->hotspot_data, 0.2);
  EXPECT_DOUBLE_EQ(spec->distribution->hotspot_operations, 0.8);
  EXPECT_DOUBLE_EQ(spec->distribution->exponential_fraction, 0.8571428571);
  EXPECT_EQ(spec->value_size, 1'000U);
  EXPECT_FALSE(spec->records || spec->operations || spec->target_rate || spec->duration);
  EXPECT_EQ(spec->key_order, KeyOrder::hashed);
  EXPECT_FALSE(*spec->verify);
}

TEST(Ycsb, TheSixWorkloads) {
  const std::string folder = std::string(LOCH_SOURCE_DIR) + "/workloads/ycsb/workload";
  const auto load = [&](const char* letter) { return load_workload({folder + letter}, {}); };
  const auto a = load("a");
  ASSERT_TRUE(a) << a.error().message;
  EXPECT_DOUBLE_EQ(a->mix->get, 0.5);
  EXPECT_EQ(a->distribution->kind, Distribution::zipfian);
  EXPECT_EQ(*a->records, 1'000U);
  EXPECT_DOUBLE_EQ(load("b")->mix->put, 0.05);
  EXPECT_DOUBLE_EQ(load("c")->mix->get, 1);
  const auto d = load("d");
  EXPECT_DOUBLE_EQ(d->mix->insert, 0.05);
  EXPECT_EQ(d->distribution->kind, Distribution::latest);
  const auto e = load("e");
  ASSERT_FALSE(e);
  EXPECT_THAT(e.error().message, HasSubstr("workload E"));
  EXPECT_DOUBLE_EQ(load("f")->mix->read_modify_write, 0.5);
}

TEST(Ycsb, EveryPropertyIsReadOrNamed) {
  const auto spec =
      from_ycsb(parsed("workload=com.yahoo.ycsb.workloads.CoreWorkload\nrecordcount=5\noperationcount=6\n"
                       "threadcount=7\ntarget=8\nmaxexecutiontime=9\nfieldcount=2\nfieldlength=30\n"
                       "requestdistribution=exponential\nexponential.percentile=90\ninsertorder=ordered\n"
                       "zeropadding=12\ndataintegrity=true\nmeasurementtype=timeseries\nelephants=grey\n"
                       "fieldlengthdistribution=zipfian\n"));
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(*spec->records, 5U);
  EXPECT_EQ(*spec->operations, 6U);
  EXPECT_EQ(*spec->threads, 7U);
  EXPECT_EQ(*spec->target_rate, 8);
  EXPECT_EQ(*spec->duration, 9'000'000'000);
  EXPECT_EQ(*spec->value_size, 60U);
  EXPECT_EQ(spec->value_sizes.kind, SizeKind::zipfian);
  EXPECT_EQ(spec->value_sizes.least, 1U);
  EXPECT_EQ(spec->value_sizes.pieces, 2U);
  EXPECT_EQ(spec->distribution->exponential_percentile, 90);
  EXPECT_EQ(spec->key_order, KeyOrder::ordered);
  EXPECT_EQ(spec->zero_padding, 12U);
  EXPECT_TRUE(*spec->verify);
  EXPECT_THAT(spec->notes, Contains(HasSubstr("elephants")));
  EXPECT_THAT(spec->notes, Contains(HasSubstr("measurementtype")));
}

TEST(Ycsb, FieldLengthsAreSizesOfValues) {
  const auto sizes = [](const std::string& text) {
    const auto spec = from_ycsb(parsed(text));
    EXPECT_TRUE(spec) << spec.error().message;
    auto made = sizes_of(spec->value_sizes, *spec->value_size, SizedData::value, "value-size");
    EXPECT_TRUE(made) << made.error().message;
    return *made;
  };
  EXPECT_EQ(sizes("fieldlength=30\n"), nullptr);
  const auto uniform =
      sizes("fieldcount=3\nfieldlength=30\nminfieldlength=10\nfieldlengthdistribution=uniform\n");
  ASSERT_NE(uniform, nullptr);
  EXPECT_EQ(uniform->least(), 30U);
  EXPECT_EQ(uniform->most(), 90U);
  const auto bad = from_ycsb(parsed("fieldlength=30\nminfieldlength=31\nfieldlengthdistribution=uniform\n"));
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message, HasSubstr("minfieldlength: \"31\" is not from 0 to fieldlength, 30"));
  const auto histogram =
      from_ycsb(parsed("fieldlengthdistribution=histogram\nfieldlengthhistogram=/nowhere/h\n"));
  ASSERT_TRUE(histogram);
  const auto missing =
      sizes_of(histogram->value_sizes, *histogram->value_size, SizedData::value, "value-size");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("/nowhere/h"));
}

TEST(Yaml, SizesOfKeysAndValues) {
  const auto spec = from_yaml(
      "value_size: 4K\nvalue_size_distribution: etc\nvalue_size_min: 8\n"
      "key-size-distribution: pareto\nkey_size_pareto: 20,10,0.1\n",
      "w.yaml");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->value_sizes.kind, SizeKind::etc);
  EXPECT_EQ(spec->value_sizes.least, 8U);
  EXPECT_EQ(spec->key_sizes.pareto, (std::array<double, 3>{20, 10, 0.1}));
  const auto keys = sizes_of(spec->key_sizes, 64, SizedData::key, "key-size");
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_EQ((*keys)->least(), 8U);
  for (const char* text :
       {"value_size_distribution: normal\n", "value_size_min: none\n", "key_size_pareto: 1,2\n",
        "key_size_pareto: 1,2,3,4\n", "value_size_histogram: \"\"\n"}) {
    const auto bad = from_yaml(text, "w.yaml");
    ASSERT_FALSE(bad) << text;
    EXPECT_THAT(bad.error().message, HasSubstr("w.yaml:1: "));
  }
  // A size parameter that does not belong to the chosen distribution is refused, not ignored.
  for (const SizeRequest& request :
       {SizeRequest{.least = 8}, SizeRequest{.kind = SizeKind::etc, .histogram = "h"},
        SizeRequest{.kind = SizeKind::histogram},
        SizeRequest{.kind = SizeKind::uniform, .pareto = std::array{1.0, 2.0, 0.1}}}) {
    EXPECT_FALSE(sizes_of(request, 100, SizedData::value, "value-size"));
  }
}

TEST(Ycsb, BadValuesNameFileLineAndKey) {
  for (const char* text : {"recordcount=many", "readproportion=1.5", "requestdistribution=zipf",
                           "insertorder=sorted", "dataintegrity=yes", "recordcount=-1", "readproportion=nan",
                           "workload=TimeSeries", "threadcount=0", "zeropadding=1000"}) {
    const auto spec = from_ycsb(parsed(std::string("\n") + text));
    ASSERT_FALSE(spec) << text;
    EXPECT_THAT(spec.error().message, HasSubstr("t.properties:2: ")) << text;
  }
  EXPECT_FALSE(from_ycsb(parsed("readproportion=0\nupdateproportion=0")));
  EXPECT_FALSE(from_ycsb(parsed("fieldcount=100000\nfieldlength=100000")));
}

TEST(Load, FilesInOrderThenOverrides) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("loch_spec_test_{}", ::getpid());
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "one") << "recordcount=1\noperationcount=10\ntarget=5\n";
  std::ofstream(folder / "two") << "recordcount=2\noperationcount=20\n";
  const auto spec = load_workload({folder / "one", folder / "two"}, {"operationcount=30"});
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(*spec->records, 2U);
  EXPECT_EQ(*spec->operations, 30U);
  EXPECT_EQ(*spec->target_rate, 5);
  const auto missing = load_workload({folder / "three"}, {});
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("three"));
  EXPECT_FALSE(load_workload({folder / "one"}, {"nonsense"}));
  std::filesystem::remove_all(folder);
}

TEST(Yaml, Reads) {
  const auto spec = from_yaml(
      "get: 0.8\ndelete: 0.05\ndistribution: zipfian-n\nzipf-theta: 0.9\nkeys: 10K\n"
      "value_size: 16K\nduration: 50ms\nverify: true\n",
      "w.yaml");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_DOUBLE_EQ(spec->mix->put, 0.15);
  EXPECT_EQ(spec->distribution->kind, Distribution::zipfian_n);
  EXPECT_EQ(spec->distribution->zipf_theta, 0.9);
  EXPECT_EQ(*spec->records, 10'240U);
  EXPECT_EQ(*spec->value_size, 16'384U);
  EXPECT_EQ(*spec->duration, 50'000'000);
  EXPECT_FALSE(spec->key_size);
}

TEST(Yaml, RefusesWithPlaceKeyAndNearestName) {
  const auto message = [](const char* text) {
    const auto spec = from_yaml(text, "w.yaml");
    return spec ? std::string("accepted") : spec.error().message;
  };
  EXPECT_THAT(message("get: 0.5\nvalue_sise: 3"),
              testing::AllOf(HasSubstr("w.yaml:2: value_sise"), HasSubstr("value_size")));
  EXPECT_THAT(message("get: lots"), HasSubstr("w.yaml:1: get"));
  EXPECT_THAT(message("get: [1]"), HasSubstr("one plain value"));
  EXPECT_THAT(message("get: 0.9\nput: 0.9"), HasSubstr("sum"));
  EXPECT_THAT(message("- a"), HasSubstr("mapping"));
  EXPECT_THAT(message("a: [1"), HasSubstr("not YAML"));
  EXPECT_THAT(message("distribution: pareto"), HasSubstr("zipfian"));
  EXPECT_THAT(message("duration: 10"), HasSubstr("duration"));
}

}  // namespace
}  // namespace loch::workloads
