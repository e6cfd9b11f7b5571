// Tests the trace reader: the columns of the three formats, how each operation is replayed, records, sizes,
// arrival times, and the messages about refused lines.
#include "workloads/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "workloads/records.h"

namespace loch::workloads {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

Result<std::shared_ptr<const Trace>> read(TraceRequest request, const std::vector<std::string>& lines) {
  request.file = "t";
  TraceBuilder builder(request);
  for (const std::string& line : lines) {
    if (builder.is_full()) break;
    LOCH_TRY(builder.add(line));
  }
  return builder.finish();
}
std::shared_ptr<const Trace> must(const TraceRequest& request, const std::vector<std::string>& lines) {
  auto trace = read(request, lines);
  EXPECT_TRUE(trace) << trace.error().message;
  return trace ? *trace : nullptr;
}
std::string refusal(const TraceRequest& request, const std::vector<std::string>& lines) {
  const auto trace = read(request, lines);
  return trace ? "accepted" : trace.error().message;
}

const TraceRequest twitter{.file = {}, .format = TraceFormat::twitter};
const TraceRequest cachelib{.file = {}, .format = TraceFormat::cachelib};
const TraceRequest ycsb{.file = {}, .format = TraceFormat::ycsb};

// What a test expects of an event: operation, record, bytes of the value.
using Asked = std::tuple<OpKind, std::uint32_t, std::uint32_t>;
std::vector<Asked> asked(const Trace& trace) {
  std::vector<Asked> all;
  for (const TraceEvent& each : trace.events()) all.emplace_back(each.kind(), each.record, each.value_bytes);
  return all;
}
std::vector<Nanos> times(const Trace& trace) {
  std::vector<Nanos> all;
  for (const TraceEvent& each : trace.events()) all.push_back(each.at);
  return all;
}

TEST(Trace, ColumnsOfTwitter) {
  const auto trace = must(twitter, {"0,a:b,9,100,3,get,0", "0,c,d,12,70,3,set,60", "0,a:b,9,0,3,delete,0",
                                    "0,c,d,12,0,4,set,60\r"});
  // The first line's key is preloaded; the second line's key, which contains a comma, is not, because its
  // first operation is a write.
  EXPECT_THAT(asked(*trace), ElementsAre(Asked{OpKind::get, 0, 0}, Asked{OpKind::put, 1, 70},
                                         Asked{OpKind::remove, 0, 0}, Asked{OpKind::put, 1, 1}));
  EXPECT_EQ(trace->keys(), 2U);
  EXPECT_EQ(trace->preloaded(), 1U);
  EXPECT_THAT(trace->sizes()->key_bytes, ElementsAre(9, 12));
  EXPECT_THAT(trace->sizes()->value_bytes, ElementsAre(100, 70));
  EXPECT_EQ(trace->counts().empty_values, 1U);
  EXPECT_TRUE(trace->has_times());
}

TEST(Trace, WhatBecomesOfTwittersOperations) {
  std::vector<std::string> lines;
  for (const char* name :
       {"get", "gets", "set", "add", "replace", "cas", "append", "prepend", "delete", "incr", "decr", "incr"})
    lines.push_back(std::string("5,k,20,10,1,") + name + ",0");
  const auto trace = must(twitter, lines);
  EXPECT_THAT(asked(*trace),
              ElementsAre(Asked{OpKind::get, 0, 0}, Asked{OpKind::get, 0, 0}, Asked{OpKind::put, 0, 10},
                          Asked{OpKind::put, 0, 10}, Asked{OpKind::put, 0, 10}, Asked{OpKind::put, 0, 10},
                          Asked{OpKind::remove, 0, 0}));
  EXPECT_THAT(trace->counts().skipped,
              ElementsAre(Pair("append", 1), Pair("decr", 1), Pair("incr", 2), Pair("prepend", 1)));
  EXPECT_THAT(trace->counts().simplified,
              ElementsAre(Pair("add", 1), Pair("cas", 1), Pair("gets", 1), Pair("replace", 1)));
}

TEST(Trace, AnAddIsAnInsertWhereTheProtocolHasIt) {
  TraceRequest request = twitter;
  request.has_insert_if_absent = true;
  const auto trace = must(request, {"5,k,20,0,1,add,60", "5,k,20,30,1,add,60", "6,k,20,0,1,get,0"});
  EXPECT_THAT(asked(*trace), ElementsAre(Asked{OpKind::insert_if_absent, 0, 1},
                                         Asked{OpKind::insert_if_absent, 0, 30}, Asked{OpKind::get, 0, 0}));
  EXPECT_EQ(trace->preloaded(), 0U);
  EXPECT_TRUE(trace->counts().simplified.empty());
  request.is_one_size = true;
  request.key_most = request.value_most = 64;
  const auto fixed = must(request, {"5,k,20,30,1,add,60"});
  EXPECT_THAT(asked(*fixed), ElementsAre(Asked{OpKind::insert_if_absent, 0, 64}));
}

TEST(Trace, ColumnsOfCacheLibAreFoundByTheirNames) {
  const auto old = must(cachelib, {"key,op,size,op_count,key_size", "7,GET,0,2,20", "8,SET_LEASE,300,1,30"});
  EXPECT_THAT(asked(*old),
              ElementsAre(Asked{OpKind::get, 0, 0}, Asked{OpKind::get, 0, 0}, Asked{OpKind::put, 1, 300}));
  EXPECT_THAT(old->sizes()->key_bytes, ElementsAre(20, 30));
  EXPECT_FALSE(old->has_times());
  EXPECT_EQ(old->counts().unknown_values, 1U);
  // A GET that missed tells no value size, so 1,024 bytes are assumed.
  EXPECT_THAT(old->sizes()->value_bytes, ElementsAre(1024, 300));
  EXPECT_THAT(old->counts().simplified, ElementsAre(Pair("SET_LEASE", 1)));
  const auto later =
      must(cachelib, {"op_time,key,key_size,op,op_count,size,cache_hits,ttl",
                      "564726470,798057486,83,GET,1,62,1,0", "564726472,798057487,40,DELETE,1,0,0,0"});
  EXPECT_THAT(asked(*later), ElementsAre(Asked{OpKind::get, 0, 0}, Asked{OpKind::remove, 1, 0}));
  EXPECT_THAT(times(*later), ElementsAre(0, 2'000'000'000));
  EXPECT_THAT(later->sizes()->key_bytes, ElementsAre(83, 40));
}

TEST(Trace, LinesOfYcsb) {
  const auto trace = must(ycsb, {
                                    "***************** properties *****************",
                                    "\"recordcount\"=\"1000\"",
                                    "READ usertable user10000000 [ <all fields>]",
                                    "UPDATE usertable user10000000 [ field3=ab=] field c ]",
                                    "INSERT usertable user2 [ field0=0123456789 field10=01234 ]",
                                    "UPDATE usertable user2 [ field1=0123 ]",
                                    "SCAN usertable user2 17 [ <all fields>]",
                                    "READMODIFYWRITE usertable user2 [ field1=0123456789abcdefghij ]",
                                    "DELETE usertable user2",
                                    "",
                                    "[OVERALL], RunTime(ms), 121.0",
                                });
  // An UPDATE writes some of the fields and leaves the value's size as it was: here the 1,024 bytes that are
  // assumed for an unknown value.
  EXPECT_THAT(asked(*trace),
              ElementsAre(Asked{OpKind::get, 0, 0}, Asked{OpKind::put, 0, 1024}, Asked{OpKind::put, 1, 15},
                          Asked{OpKind::put, 1, 15}, Asked{OpKind::get, 1, 0}, Asked{OpKind::put, 1, 20},
                          Asked{OpKind::remove, 1, 0}));
  EXPECT_THAT(trace->counts().skipped, ElementsAre(Pair("SCAN", 1)));
  // "user2" has 5 bytes and is lengthened to the minimum of 8
  EXPECT_THAT(trace->sizes()->key_bytes, ElementsAre(12, 8));
  EXPECT_EQ(trace->counts().short_keys, 1U);
  // The field's value "ab=] field c" contains '=' and ']' and has 12 bytes.
  const auto longer = must({.file = {}, .format = TraceFormat::ycsb, .unknown_value = 4},
                           {"UPDATE usertable user10000000 [ field3=ab=] field c ]"});
  EXPECT_EQ(longer->events()[0].value_bytes, 12U);
}

TEST(Trace, OperationsOfOneSecondAreSpreadOverIt) {
  const auto trace =
      must(twitter, {"10,a,20,1,0,get,0", "10,b,20,1,0,get,0", "10,c,20,1,0,incr,0", "10,d,20,1,0,get,0",
                     "10,e,20,1,0,get,0", "13,a,20,1,0,get,0", "13,b,20,1,0,get,0"});
  EXPECT_THAT(times(*trace),
              ElementsAre(0, 250'000'000, 500'000'000, 750'000'000, 3'000'000'000, 3'500'000'000));
  EXPECT_EQ(trace->span(), 4'000'000'000);
}

TEST(Trace, WhichKeysArePreloaded) {
  const std::vector<std::string> lines = {"0,new,20,5,0,set,0", "0,old,20,6,0,replace,0",
                                          "0,new,20,5,0,get,0"};
  TraceRequest request = twitter;
  EXPECT_EQ(must(request, lines)->preloaded(), 1U);
  // Preloaded keys get the lowest record numbers, even if another key comes first in the file.
  EXPECT_THAT(asked(*must(request, lines)),
              ElementsAre(Asked{OpKind::put, 1, 5}, Asked{OpKind::put, 0, 6}, Asked{OpKind::get, 1, 0}));
  request.preload = TracePreload::all;
  EXPECT_EQ(must(request, lines)->preloaded(), 2U);
  request.preload = TracePreload::none;
  EXPECT_EQ(must(request, lines)->preloaded(), 0U);
}

TEST(Trace, OfOneSizeOnRequest) {
  TraceRequest request = twitter;
  request.is_one_size = true;
  request.key_most = 16;
  request.value_most = 64;
  const auto trace = must(request, {"0,a,9,100,3,get,0", "0,b,400,70000,3,set,60"});
  EXPECT_THAT(asked(*trace), ElementsAre(Asked{OpKind::get, 0, 0}, Asked{OpKind::put, 1, 64}));
  EXPECT_TRUE(trace->sizes()->key_bytes.empty() && trace->sizes()->value_bytes.empty());
  EXPECT_EQ(trace->key_most(), 16U);
  EXPECT_EQ(trace->value_most(), 64U);
}

TEST(Trace, TheFirstOperationsOnRequest) {
  TraceRequest request = cachelib;
  request.operations = 3;
  const std::vector<std::string> lines = {"key,op,size,op_count", "1,GET,5,2", "2,GET,5,1"};
  EXPECT_FALSE(must(request, lines)->counts().is_cut);
  request.operations = 1;
  EXPECT_EQ(must(request, lines)->events().size(), 1U);
  EXPECT_TRUE(must(request, lines)->counts().is_cut);
  EXPECT_EQ(must(request, {"key,op,size,op_count", "1,GET,5,18446744073709551615"})->events().size(), 1U);
}

TEST(Trace, RefusesWithFileAndLine) {
  const auto one = [](const char* line) { return refusal(twitter, {"0,a,9,1,3,get,0", line}); };
  EXPECT_EQ(one("1,a,9,1,3,get"), "t:2: expected timestamp,key,key size,value size,client id,operation,TTL");
  EXPECT_EQ(one("x,a,9,1,3,get,0"), "t:2: expected a timestamp in whole seconds in column 1");
  EXPECT_EQ(one("1,,9,1,3,get,0"), "t:2: expected a key in column 2");
  EXPECT_EQ(one("1,a,-9,1,3,get,0"), "t:2: expected the key's size in bytes in column 3");
  EXPECT_EQ(one("1,a,9,1x,3,get,0"), "t:2: expected the value's size in bytes in column 4");
  EXPECT_THAT(one("1,a,9,1,3,touch,0"), HasSubstr("t:2: expected an operation in column 6: get, gets, set"));
  EXPECT_EQ(one("1,a,9,1,3,get,"), "t:2: expected a time to live in whole seconds in column 7");
  EXPECT_EQ(one("4000000001,a,9,1,3,get,0"),
            "t:2: expected a time of at most 1000000000 s after the first, and not 4000000001 s");
  EXPECT_EQ(refusal(twitter, {"5,a,9,1,3,incr,0", "4,a,9,1,3,get,0"}),
            "t:2: expected a time of 5 s or later, as in the line before, and not 4 s");
  EXPECT_EQ(one(""), "t:2: expected timestamp,key,key size,value size,client id,operation,TTL");
  const auto two = [](const char* line) {
    return refusal(cachelib, {"key,op,size,op_count,key_size,op_time", line});
  };
  EXPECT_EQ(refusal(cachelib, {"1,GET,5,1"}),
            "t:1: expected a header of column names with key, op and size among them");
  EXPECT_EQ(two("1,GET,5"), "t:2: expected 6 columns, as the header has");
  EXPECT_EQ(two("1,SAT,5,1,9,0"), "t:2: expected an op: GET, GET_LEASE, SET, SET_LEASE, DELETE");
  EXPECT_EQ(two("1,GET,,1,9,0"), "t:2: expected a size in bytes");
  EXPECT_EQ(two("1,GET,5,0,9,0"), "t:2: expected an op_count of 1 or more");
  EXPECT_EQ(two("1,GET,5,1,q,0"), "t:2: expected a key_size in bytes");
  EXPECT_EQ(two("1,GET,5,1,9,0.5"), "t:2: expected an op_time in whole seconds");
  EXPECT_EQ(two(",GET,5,1,9,0"), "t:2: expected a key");
  const auto three = [](const char* line) { return refusal(ycsb, {line}); };
  EXPECT_THAT(three("Loading workload..."),
              HasSubstr("t:1: expected an operation, a table and a key: READ, INSERT"));
  EXPECT_EQ(three("READ usertable"), "t:1: expected a table and a key behind the operation");
  EXPECT_EQ(three("READ usertable user1"), "t:1: expected fields between \"[ \" and \"]\" behind the key");
  EXPECT_EQ(three("UPDATE usertable user1 [ field0=a"),
            "t:1: expected fields between \"[ \" and \"]\" behind the key");
  EXPECT_EQ(three("DELETE usertable user1 [ ]"), "t:1: expected nothing behind the key of a DELETE");
}

TEST(Trace, RefusesSizesAboveTheMaximum) {
  TraceRequest request = twitter;
  request.key_most = 20;
  request.value_most = 100;
  EXPECT_EQ(refusal(request, {"0,a,20,100,3,set,0"}), "accepted");
  EXPECT_EQ(refusal(request, {"0,a,21,100,3,set,0"}), "t:1: a key of 21 bytes, above --key-size 20");
  EXPECT_EQ(refusal(request, {"0,a,20,101,3,get,0"}), "t:1: a value of 101 bytes, above --value-size 100");
  EXPECT_EQ(refusal(twitter, {"0,a,20,1073741824,3,set,0"}),
            "t:1: a value of 1073741824 bytes; at most 1073741823");
}

TEST(Trace, RefusesWhatHoldsNothing) {
  EXPECT_EQ(refusal(twitter, {}), "t: empty; expected the lines of a twitter trace");
  EXPECT_EQ(refusal(ycsb, {"", "SCAN usertable user1 3 [ <all fields>]"}),
            "t: no GET, PUT or DELETE in 2 lines of a ycsb trace");
}

TEST(Trace, AFileIsReadOrRefused) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("loch-trace-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const auto outcome = [&](const char* name, const std::string& text) {
    TraceRequest request = twitter;
    request.file = (folder / name).string();
    if (!text.empty()) std::ofstream(request.file, std::ios::binary) << text;
    const auto trace = read_trace(request);
    return trace ? std::to_string((*trace)->events().size()) : trace.error().message;
  };
  const std::string line = "0,a,20,100,3,set,0\n";
  EXPECT_EQ(outcome("whole", line + line), "2");
  EXPECT_EQ(outcome("unended", line + line + line.substr(0, line.size() - 1)), "3");
  std::string many;  // larger than the reader's buffer, so lines cross its boundary
  for (int i = 0; i < 10'000; ++i) many += line;
  EXPECT_EQ(outcome("many", many), "10000");
  EXPECT_THAT(outcome("bad", line + "x\n"), HasSubstr("bad:2: expected timestamp"));
  EXPECT_THAT(outcome("long", line + std::string((16 << 20) + 70'000, 'x')),
              HasSubstr("long: a line is longer than 16777216 bytes; expected a text file"));
  EXPECT_THAT(outcome("packed", "\x28\xB5\x2F\xFD..."),
              HasSubstr("packed: is compressed; expected text, as zstd -d"));
  EXPECT_THAT(outcome("missing", ""), HasSubstr("missing: cannot read: No such file"));
  EXPECT_THAT(outcome(".", ""), HasSubstr(": expected a regular file"));
  std::filesystem::remove_all(folder);
}

TEST(Trace, RecordsHaveTheTracesSizes) {
  const auto trace = must(twitter, {"0,a,9,100,3,get,0", "0,b,40,70,3,get,60"});
  const auto records = Records::make({.preloaded = 2,
                                      .most = 2,
                                      .key_size = trace->key_most(),
                                      .value_size = trace->value_most(),
                                      .table = trace->sizes()});
  ASSERT_TRUE(records) << records.error().message;
  EXPECT_EQ(records->key_size(0), 9U);
  EXPECT_EQ(records->key_size(1), 40U);
  EXPECT_EQ(records->value_size(0, 100), 100U);
  EXPECT_EQ(records->value_size(1, 100), 70U);
  std::vector<std::byte> key(40), value(70);
  records->key(1, key.data());
  records->value(1, value.data(), 70);
  const std::uint64_t digest = kv::key_digest({key.data(), 40});
  const kv::ValueReading reading = kv::read_value({value.data(), 70, 70}, digest, true);
  EXPECT_EQ(reading.verdict, kv::ValueVerdict::verified);
  EXPECT_TRUE(records->is_size_right(reading, 70, digest));
  EXPECT_FALSE(records->is_size_right(reading, 101, digest));
}

}  // namespace
}  // namespace loch::workloads
