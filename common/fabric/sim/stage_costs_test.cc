// Checks the cost of each stage of a request against values that were computed by hand from its formula.
#include "common/fabric/sim/stage_costs.h"

#include <gtest/gtest.h>

namespace loch::fabric::sim {
namespace {

// A profile of round and distinct numbers. PCIe takes 125 ps per byte, plus headers for each packet of 128
// bytes: (22 + 2) · 125 = 3,000 ps in DMA reads, (26 + 2) · 125 = 3,500 ps in writes. The link takes 800 ps
// per byte.
HardwareProfile round_numbers() {
  HardwareProfile p;
  p.pcie = {.gbytes_s = 8,
            .read_ns = 640,
            .write_ns = 250,
            .mmio_ns = 230,
            .read_header_bytes = 26,
            .data_header_bytes = 22,
            .link_layer_bytes = 2,
            .packet_bytes = 128,
            .completion_bytes = 64};
  p.link.gbits_s = 10;
  p.link.mtu_bytes = 1024;
  p.link.framing_bytes = 20;
  p.link.switch_ns = 220;
  p.link.cable_ns = 15;
  p.link.port_buffer_bytes = 1000;
  p.nic.request_read_ns = 38.5;
  p.nic.request_write_ns = 31.2;
  p.nic.request_send_ns = 33;
  p.nic.request_ud_ns = 30;
  p.nic.request_atomic_ns = 40;
  p.nic.request_line_ns = 7.3;
  p.nic.respond_read_ns = 20;
  p.nic.respond_write_ns = 25;
  p.nic.respond_recv_ns = 28;
  p.nic.respond_atomic_ns = 29;
  p.nic.respond_byte_ns = 0.5;
  p.nic.payload_ns = 16.5;
  p.nic.inline_receive_ns = 9.1;
  p.nic.atomic_hold_ns = 370;
  p.nic.context_stall_ns = 425;
  p.nic.segment_bytes = 256;
  p.nic.segment_ns = 20.5;
  p.nic.outstanding_fetches = 8;
  p.nic.page_bytes = 4096;
  p.cpu.doorbell_ns = 60;
  p.cpu.write_combine_ns = 40;
  p.cpu.poll_ns = 70;
  p.cpu.completion_ns = 50;
  return p;
}

class StageCosts : public testing::Test {
 protected:
  const Timing t{round_numbers()};
};

// round_numbers() with a cache of 100 work requests, a cache of 200 answers to READs, and shared doorbell
// registers.
HardwareProfile crowded_numbers() {
  HardwareProfile p = round_numbers();
  p.nic.pipeline_ns = 100;
  p.nic.crowded.posted_entries = 100;
  p.nic.crowded.posted_ramp = 50;
  p.nic.crowded.posted_read_ns = 6;
  p.nic.crowded.posted_write_ns = 5;
  p.nic.crowded.answer_entries = 200;
  p.nic.crowded.answer_ramp = 400;
  p.nic.crowded.answer_miss_ns = 2;
  p.nic.crowded.queue_pair_latency_ns = 1.5;
  p.nic.crowded.doorbell_again_ns = 30;
  p.nic.crowded.doorbell_take_ns = 150;
  p.nic.crowded.doorbell_pass_ns = 200;
  p.nic.crowded.doorbell_exponent = 0.5;
  return p;
}

void expect_visit(const Visit& visit, Picos busy, Picos latency) {
  EXPECT_EQ(visit.busy, busy);
  EXPECT_EQ(visit.latency, latency);
}

TEST(StagePassage, TheLongestTurnCountsAndAllLatencies) {
  Server first{.free_at = 400}, second{.free_at = 1000};
  Passage way{.now = 100};
  way.visit(first, {50, 10});
  EXPECT_EQ(way.end(), 100 + 300 + 10);
  way.visit(second, {20, 5});
  EXPECT_EQ(way.end(), 100 + 900 + 15);
  way.wait(200);
  EXPECT_EQ(way.end(), 100 + 900 + 15);
  way.wait(2000);
  EXPECT_EQ(way.end(), 100 + 2000 + 15);
  EXPECT_EQ(first.free_at, 450);
  EXPECT_EQ(second.free_at, 1020);
}

TEST_F(StageCosts, TheBusCarriesBytesAndAHeaderForEachPacket) {
  EXPECT_EQ(pcie_span(t, 130, 7), 16250 + 2 * 7);
  EXPECT_EQ(dma_read_span(t, 0), 0);
  EXPECT_EQ(dma_read_span(t, 64), 8000 + 3000);
  EXPECT_EQ(dma_read_span(t, 128), 16000 + 3000);
  EXPECT_EQ(dma_read_span(t, 129), 16125 + 2 * 3000);
  EXPECT_EQ(dma_write_span(t, 64), 8000 + 3500);
  EXPECT_EQ(dma_write_span(t, 257), 32125 + 3 * 3500);
}

TEST_F(StageCosts, AReadCompletionEndsAtTheBoundary) {
  EXPECT_EQ(read_completions(t, 100, 256), 2u);  // without a boundary, the address does not matter
  HardwareProfile p = round_numbers();
  p.pcie.completion_boundary_bytes = 64;
  const Timing cut(p);
  EXPECT_EQ(read_completions(cut, 64, 256), 2u);
  EXPECT_EQ(read_completions(cut, 100, 28), 1u);       // to the boundary at 128
  EXPECT_EQ(read_completions(cut, 100, 29), 2u);       // and a byte beyond it
  EXPECT_EQ(read_completions(cut, 100, 256), 1u + 2);  // 28 bytes, 128, 100
  EXPECT_EQ(read_completions(cut, 100, 0), 0u);
  EXPECT_EQ(dma_read_span_at(cut, 100, 256), 32000 + 3 * 3000);
  EXPECT_EQ(memory_read(cut, 100, 8).busy, 1000 + 3000);
  EXPECT_EQ(memory_read(cut, 124, 8).busy, 1000 + 2 * 3000);
  EXPECT_EQ(payload_fetch(cut, 124, 8).busy, 1000 + 2 * 3000);
}

TEST_F(StageCosts, FractionsOfAPicosecondAreCutOff) {
  HardwareProfile p = round_numbers();
  p.pcie.gbytes_s = 7.88;  // 126,904 fs for each byte: 380.7 ps for 3 bytes
  EXPECT_EQ(pcie_span(Timing(p), 3, 0), 380);
}

TEST_F(StageCosts, ALinkCarriesBytesAndTheFramingOfEachPacket) {
  EXPECT_EQ(link_span(t, 100, 0), (100 + 20) * 800);
  EXPECT_EQ(link_span(t, 1106, 1024), (1106 + 20) * 800);
  EXPECT_EQ(link_span(t, 2000, 1025), (2000 + 2 * 20) * 800);
  EXPECT_EQ(last_packet(t, 1023), 1023u);
  EXPECT_EQ(last_packet(t, 1025), 1024u);
}

TEST_F(StageCosts, AWorkRequestIsHandedOverByItsLinesOrByADoorbell) {
  EXPECT_EQ(work_request_lines(Transport::rc, 1000, false), 1u);
  EXPECT_EQ(work_request_lines(Transport::rc, 28, true), 1u);
  EXPECT_EQ(work_request_lines(Transport::rc, 29, true), 2u);
  EXPECT_EQ(work_request_lines(Transport::ud, 60, true), 2u);
  EXPECT_EQ(work_request_lines(Transport::ud, 0, true), 1u);
  EXPECT_EQ(hand_over_by_mmio(t, 3).cpu, 3 * 40);
  EXPECT_EQ(hand_over_by_mmio(t, 3).bus, 3 * (8000 + 3500));
  EXPECT_EQ(hand_over_by_doorbell(t).cpu, 60);
  EXPECT_EQ(hand_over_by_doorbell(t).bus, 1000 + 3500);
}

TEST(Posting, ASingleRequestIsWrittenByMmioAsItsDriverDoes) {
  struct Case {
    Verb verb;
    Transport transport;
    std::uint32_t length;
    bool is_inline, libmlx4, any;
  };
  const Case cases[] = {
      {Verb::read, Transport::rc, 16384, false, true, true},
      {Verb::cas, Transport::rc, 8, false, false, true},
      {Verb::faa, Transport::rc, 8, false, false, true},
      {Verb::write, Transport::rc, 64, false, false, true},
      {Verb::write, Transport::uc, 64, true, true, true},
      {Verb::write, Transport::rc, 0, false, true, true},
      {Verb::send, Transport::rc, 0, false, false, false},
      {Verb::send, Transport::ud, 0, false, false, true},
      {Verb::send, Transport::ud, 188, true, true, true},    // 256 bytes
      {Verb::send, Transport::ud, 189, true, false, false},  // 257: no BlueFlame buffer holds them
      {Verb::write, Transport::rc, 220, true, true, true},
      {Verb::write, Transport::rc, 221, true, false, false},
  };
  for (const Case& c : cases) {
    WorkRequest wr;
    wr.verb = c.verb;
    wr.transport = c.transport;
    wr.length = c.length;
    wr.is_inline = c.is_inline;
    SCOPED_TRACE(static_cast<int>(c.verb) * 1000 + static_cast<int>(c.length));
    NicProfile nic;
    EXPECT_FALSE(is_written_by_mmio(nic, wr));
    nic.posting = Posting::libmlx4;
    EXPECT_EQ(is_written_by_mmio(nic, wr), c.libmlx4);
    nic.posting = Posting::any;
    EXPECT_EQ(is_written_by_mmio(nic, wr), c.any);
  }
}

TEST_F(StageCosts, TheNicHasItAfterTheCpuAndTheBus) {
  EXPECT_EQ(handed_over_at(t, 1000, 1500, 200'001), 1500 + 230);
  EXPECT_EQ(handed_over_at(t, 1000, 1500, 700'001), 1701 + 230);
}

TEST_F(StageCosts, TheSendingSideHasAGapByVerbLinesAndPayload) {
  EXPECT_EQ(requesting_gap(t, Verb::read, Transport::rc, 1, false), 38'500);
  EXPECT_EQ(requesting_gap(t, Verb::write, Transport::uc, 2, true), 31'200 + 7'300 + 16'500);
  EXPECT_EQ(requesting_gap(t, Verb::send, Transport::rc, 1, true), 33'000 + 16'500);
  EXPECT_EQ(requesting_gap(t, Verb::send, Transport::ud, 3, false), 30'000 + 2 * 7'300);
  EXPECT_EQ(requesting_gap(t, Verb::cas, Transport::rc, 1, false), 40'000);
  EXPECT_EQ(unit_wait(500, 200), 300);
  EXPECT_EQ(unit_wait(200, 500), 0);
}

TEST(CrowdedNic, ACacheOverflowsLittleByLittle) {
  EXPECT_EQ(overflow_gap(6000, 100, 100, 50), 0);
  EXPECT_EQ(overflow_gap(6000, 101, 100, 50), 6000 / 50);
  EXPECT_EQ(overflow_gap(6000, 125, 100, 50), 3000);
  EXPECT_EQ(overflow_gap(6000, 150, 100, 50), 6000);
  EXPECT_EQ(overflow_gap(6000, 4'000'000'000, 100, 50), 6000);
  EXPECT_EQ(overflow_gap(6000, 101, 100, 0), 6000);  // a cliff
  EXPECT_EQ(overflow_gap(0, 4000, 0, 0), 0);
}

TEST(CrowdedNic, OutstandingRequestsAddToTheGapOfTheirVerb) {
  const Timing t(crowded_numbers());
  EXPECT_EQ(posted_gap(t, Verb::read, 100), 0);
  EXPECT_EQ(posted_gap(t, Verb::read, 125), 3000);
  EXPECT_EQ(posted_gap(t, Verb::cas, 1000), 6000);
  EXPECT_EQ(posted_gap(t, Verb::write, 1000), 5000);
  EXPECT_EQ(posted_gap(t, Verb::send, 125), 2500);
  EXPECT_EQ(answer_gap(t, 200), 0);
  EXPECT_EQ(answer_gap(t, 300), 500);
  EXPECT_EQ(answer_gap(t, 600), 2000);
}

TEST(CrowdedNic, APassTakesLongerByTheQueuePairs) {
  const Timing t(crowded_numbers());
  EXPECT_EQ(pass_latency(t, 0), 100'000);
  EXPECT_EQ(pass_latency(t, 96), 100'000 + 96 * 1500);
}

TEST(CrowdedNic, ADoorbellRegisterIsHeldForLongerByTheThreadsThere) {
  const Timing t(crowded_numbers());
  EXPECT_EQ(doorbell_hold(t, true, 1), 30);
  EXPECT_EQ(doorbell_hold(t, false, 1), 150);
  EXPECT_EQ(doorbell_hold(t, false, 4), 400);
  EXPECT_EQ(doorbell_hold(t, false, 9), 600);
}

TEST(CrowdedNic, OtherProfilesHaveNothingOfIt) {
  const Timing t(round_numbers());
  EXPECT_EQ(posted_gap(t, Verb::read, 1'000'000), 0);
  EXPECT_EQ(posted_gap(t, Verb::write, 1'000'000), 0);
  EXPECT_EQ(answer_gap(t, 1'000'000), 0);
  EXPECT_EQ(pass_latency(t, 1'000'000), t.pipeline);
  EXPECT_TRUE(t.crowding.empty());
}

TEST_F(StageCosts, OnlyReadsBeyondASegmentHaveALargerGap) {
  EXPECT_EQ(segments_gap(t, Verb::read, 0), 0);
  EXPECT_EQ(segments_gap(t, Verb::read, 1), 0);
  EXPECT_EQ(segments_gap(t, Verb::read, 256), 0);
  EXPECT_EQ(segments_gap(t, Verb::read, 257), 20'500);
  EXPECT_EQ(segments_gap(t, Verb::read, 512), 20'500);
  EXPECT_EQ(segments_gap(t, Verb::read, 1024), 3 * 20'500);
  EXPECT_EQ(segments_gap(t, Verb::write, 1024), 0);
  HardwareProfile p = round_numbers();
  p.nic.segment_bytes = 0;
  EXPECT_EQ(segments_gap(Timing(p), Verb::read, 1 << 20), 0);
}

TEST_F(StageCosts, ASharedUnitIsHeldByTheGapOrTheLink) {
  EXPECT_EQ(transmit_hold(38'500, 20'000), 38'500);
  EXPECT_EQ(transmit_hold(38'500, 90'000), 90'000);
  EXPECT_EQ(unit_span(t, 38'500), 38'500);
  EXPECT_EQ(unit_of(t, 7), 0u);
  HardwareProfile p = round_numbers();
  p.nic.transmit_units = 8;
  EXPECT_EQ(unit_span(Timing(p), 38'500), 8 * 38'500);
  EXPECT_EQ(unit_of(Timing(p), 19), 3u);
  EXPECT_EQ(connection_number(2, 3, 4, 1, 6), 2u * 5 + 3 + 1);
  EXPECT_EQ(connection_number(2, 3, 2, 0, 6), 2u * 5 + 2);
  EXPECT_EQ(context_stall(t, true), 425'000);
  EXPECT_EQ(context_stall(t, false), 0);
}

TEST_F(StageCosts, TheNicFetchesWorkRequestsAndPayloads) {
  expect_visit(work_request_fetch(t, 1), 11'000, 640'000 + 11'000);
  expect_visit(work_request_fetch(t, 3), 24'000 + 2 * 3000, 640'000 + 24'000 + 2 * 3000);
  // In ps: 2,048 bytes are fetched in 16 PCIe packets of 128 bytes; the message leaves after the first 1,024
  // bytes, which are 8 packets.
  expect_visit(payload_fetch(t, 100, 2048), 256'000 + 16 * 3000, 640'000 + 128'000 + 8 * 3000);
}

TEST_F(StageCosts, AMissIsOneReadOfTheBus) {
  EXPECT_EQ(cache_miss(t, 0), 640'000);
  EXPECT_EQ(cache_miss(t, 80'001), 720'001);
  EXPECT_EQ(t.fetch_gap, 80'000);
}

TEST_F(StageCosts, ABufferLiesInPages) {
  const auto expect_pages = [&](std::uint64_t offset, std::uint64_t length, std::uint64_t first,
                                std::uint64_t last) {
    EXPECT_EQ(pages_of(t, offset, length).first, first) << offset << ' ' << length;
    EXPECT_EQ(pages_of(t, offset, length).last, last) << offset << ' ' << length;
  };
  expect_pages(4095, 1, 0, 0);
  expect_pages(4095, 2, 0, 1);
  expect_pages(8192, 0, 2, 2);
  expect_pages(100, 8192, 0, 2);
}

TEST_F(StageCosts, TheFirstBytesCrossTheSwitchWhileTheOthersAreOnTheLink) {
  EXPECT_EQ(first_bytes_at(t, 1'000'500, 500'000), 501 + 220 + 15);
  EXPECT_EQ(first_bytes_at(t, 1'000'000, 0), 1000 + 220 + 15);
}

TEST_F(StageCosts, ARefusalIsAnAcknowledgment) {
  EXPECT_EQ(refusal_bytes(LinkFormat::infiniband), 8u + 12 + 4 + 2 + 4);
  EXPECT_EQ(refusal_bytes(LinkFormat::roce_v1), 14u + 4 + 40 + 12 + 4 + 4);
}

TEST_F(StageCosts, APortOfTheSwitchEmptiesAtTheLinksRate) {
  EXPECT_EQ(t.port_buffer, 1000 * 800);
  EXPECT_EQ(t.port_xon, 1000 * 800);
  EXPECT_TRUE(t.is_pause_plain);
  HardwareProfile profile = round_numbers();
  profile.link.xon_offset_bytes = 300;
  profile.link.pause_delay_ns = 50;
  const Timing late(profile);
  EXPECT_EQ(late.port_buffer, 1000 * 800 + 50'000);
  EXPECT_EQ(late.port_xon, 700 * 800);
  EXPECT_EQ(late.pause_delay, 50'000);
  EXPECT_FALSE(late.is_pause_plain);
  EXPECT_EQ(port_starved(600, 400, 900), 0);
  EXPECT_EQ(port_starved(600, 400, 1100), 100);
  EXPECT_EQ(still_waiting(1000, 5000, 3000), 3000);
  EXPECT_EQ(still_waiting(3000, 5000, 3000), 2000);
  EXPECT_EQ(still_waiting(6000, 5000, 3000), 0);
  EXPECT_EQ(part_gone_at(1000, 5000, 3000, 1000), 3000);
  EXPECT_EQ(part_gone_at(2500, 5000, 3000, 1000), 3500);
  EXPECT_EQ(part_gone_at(4500, 5000, 3000, 1000), 5000);
  EXPECT_EQ(part_gone_at(6000, 5000, 3000, 1000), 6000);
}

TEST_F(StageCosts, APortWithoutRoomHoldsItsSendersLink) {
  EXPECT_EQ(taken_by_port(500, 300, 400), 300);
  EXPECT_EQ(taken_by_port(500, 600, 400), 400);
  EXPECT_EQ(taken_by_port(200, 600, 400), 200);
  EXPECT_EQ(link_held(500, 600, 400), 200);
  EXPECT_EQ(link_held(300, 600, 400), 0);
  EXPECT_EQ(link_held(500, 300, 400), 0);
}

TEST_F(StageCosts, TheReceivingSideHasAGapByVerbBytesAndReceive) {
  EXPECT_EQ(responding_gap(t, Verb::read, 100, Receives::nothing), 20'000 + 100 * 500);
  EXPECT_EQ(responding_gap(t, Verb::write, 100, Receives::nothing), 25'000);
  EXPECT_EQ(responding_gap(t, Verb::faa, 8, Receives::nothing), 29'000);
  EXPECT_EQ(responding_gap(t, Verb::send, 64, Receives::placed), 28'000 + 16'500);
  EXPECT_EQ(responding_gap(t, Verb::send, 64, Receives::in_completion), 28'000 + 9'100);
  EXPECT_EQ(responding_gap(t, Verb::send, 0, Receives::placed), 28'000);
  EXPECT_EQ(responding_gap(t, Verb::write, 64, Receives::placed), 28'000 + 16'500);
}

TEST_F(StageCosts, MemoryIsReadAndWrittenOverTheBus) {
  expect_visit(memory_read(t, 0, 8), 1000 + 3000, 640'000 + 1000 + 3000);
  expect_visit(memory_read(t, 100, 2048), 256'000 + 16 * 3000, 640'000 + 128'000 + 8 * 3000);
  expect_visit(memory_write(t, 8), 1000 + 3500, 250'000 + 1000 + 3500);
  expect_visit(memory_write(t, 2048), 256'000 + 16 * 3500, 250'000 + 128'000 + 8 * 3500);
  expect_visit(write_in_completion(t, 32), 96 * 125 + 3500, 250'000 + 96 * 125 + 3500);
  expect_visit(data_landing(t, 2048), 256'000 + 16 * 3500, 128'000 + 8 * 3500);
}

TEST_F(StageCosts, AnAtomicHoldsTheLockOfItsAddress) {
  expect_visit(atomic_update(t, 4096), 370'000, 370'000);
  expect_visit(atomic_update(t, std::uint64_t{1} << 40), 370'000, 370'000);
  HardwareProfile p = round_numbers();
  p.nic.atomic_hold_memory_ns = 556;
  expect_visit(atomic_update(Timing(p), std::uint64_t{1} << 40), 370'000, 370'000);  // no cache is known
  p.cpu.last_level_cache_bytes = 20 << 20;
  const Timing cached(p);
  expect_visit(atomic_update(cached, 20 << 20), 370'000, 370'000);
  expect_visit(atomic_update(cached, (20 << 20) + 1), 556'000, 556'000);
  EXPECT_EQ(atomic_taken_up(700, 600), 700);
  EXPECT_EQ(atomic_taken_up(700, 800), 800);
  EXPECT_EQ(receive_stall(t, true), 0);
  p.nic.receive_stall_ns = 90;
  EXPECT_EQ(receive_stall(Timing(p), true), 90'000);
  EXPECT_EQ(receive_stall(Timing(p), false), 0);
  EXPECT_EQ(atomic_lock(4096 + 8, 4096), 8u);
  EXPECT_EQ(atomic_lock(4096 + 8, 1), 0u);
}

TEST_F(StageCosts, CompletionsAndReceiveRequestsGoOverTheBus) {
  EXPECT_EQ(t.completion_entry, 8000 + 3500);
  EXPECT_EQ(t.recv_fetch, (8000 + 3000) / 4);  // a RECV request is 16 bytes of a 64-byte line
}

TEST_F(StageCosts, AWorkerSeesWhatCameWhenItNextLooks) {
  EXPECT_EQ(handled_at(t, 100, 120), 170 + 50);
  EXPECT_EQ(handled_at(t, 100, 500), 500 + 50);
}

TEST(StageLines, AMessageIsTornBetweenLines) {
  EXPECT_EQ(lines_touched(0, 0), 0u);
  EXPECT_EQ(lines_touched(0, 64), 1u);
  EXPECT_EQ(lines_touched(63, 2), 2u);
  EXPECT_EQ(lines_touched(64 + 8, 64), 2u);
  // 256 bytes that begin at byte 8 of a line touch 5 lines; the first of two pieces has 2 of these lines.
  EXPECT_EQ(piece_begin(8, 256, 0, 2), 0u);
  EXPECT_EQ(piece_begin(8, 256, 1, 2), 2u * 64 - 8);
  EXPECT_EQ(piece_begin(8, 256, 2, 2), 256u);
}

}  // namespace
}  // namespace loch::fabric::sim
