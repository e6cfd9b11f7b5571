// Combines the nodes' reports on their pings into a matrix, prints the matrix, and finds the host or pair
// whose messages are lost or slow.
#include "common/fabric/ping/matrix.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

namespace loch::fabric::ping {
namespace {

constexpr std::size_t over_rc = 0;

constexpr std::string_view capital(std::size_t transport) {
  constexpr std::array<std::string_view, transports.size()> names = {"RC", "UC", "UD"};
  return names[transport];
}

Cell cell_of(const Seen& sent, const Seen* received, std::size_t transport) {
  Cell cell{.is_there = true};
  if (sent.replies > 0) cell.median_us = static_cast<double>(sent.median) / 1e3;
  if (sent.bursts > 0 && sent.messages > 0)
    cell.rate = static_cast<double>(sent.messages) / static_cast<double>(sent.bursts) * 1e9;
  cell.sent = sent.pings + sent.messages;
  if (transport == over_rc) {
    cell.arrived = sent.replies + sent.messages;
  } else if (received != nullptr && cell.sent > 0) {
    cell.arrived = std::min(received->arrived, cell.sent);
    cell.loss = 1 - static_cast<double>(cell.arrived) / static_cast<double>(cell.sent);
  }
  return cell;
}

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// ---- The verdict on pairs and hosts --------------------------------------------------------------

using Pair = std::pair<std::size_t, std::size_t>;

class Judge {
 public:
  Judge(const Matrix& matrix, double slow) : matrix_(matrix), slow_(slow) {}
  std::vector<Finding> judge() {
    find_silent();
    for (std::size_t t = 0; t < transports.size(); ++t) {
      if (!matrix_.has[t]) continue;
      find_unreachable(t);
      find_loss(t);
      find_slow(t);
    }
    return std::move(findings_);
  }

 private:
  void each_pair(std::size_t transport, const std::function<void(Pair, const Cell&)>& visit) const {
    for (std::size_t from = 0; from < matrix_.nodes(); ++from) {
      for (std::size_t to = 0; to < matrix_.nodes(); ++to) {
        const Cell& cell = matrix_.at(from, to, transport);
        if (cell.is_there && matrix_.has_answered[from] && matrix_.has_answered[to]) visit({from, to}, cell);
      }
    }
  }
  [[nodiscard]] const std::string& name_of(std::size_t node) const { return matrix_.names[node]; }
  void add(FindingKind kind, bool is_fault, std::vector<std::string> hosts, std::string text) {
    findings_.push_back({kind, is_fault, std::move(hosts), std::move(text)});
  }

  void find_silent() {
    for (std::size_t node = 0; node < matrix_.nodes(); ++node) {
      if (!matrix_.has_answered[node])
        add(FindingKind::silent, true, {name_of(node)}, fmt::format("{} gave no answer", name_of(node)));
    }
  }

  void find_unreachable(std::size_t t) {
    std::vector<Pair> bad;
    std::vector<std::size_t> bad_of(matrix_.nodes()), all_of(matrix_.nodes());
    each_pair(t, [&](Pair pair, const Cell& cell) {
      // A pair that sent nothing, because a host was late for the pair's time in the schedule, was not tried.
      const bool is_bad = cell.sent > 0 && !cell.median_us && cell.arrived == 0;
      for (const std::size_t node : {pair.first, pair.second}) {
        ++all_of[node];
        if (is_bad) ++bad_of[node];
      }
      if (is_bad) bad.push_back(pair);
    });
    // In a cluster of two, a pair says nothing about which of the hosts is at fault.
    for (std::size_t node = 0; matrix_.nodes() > 2 && node < matrix_.nodes(); ++node) {
      if (all_of[node] == 0 || bad_of[node] != all_of[node]) continue;
      add(FindingKind::unreachable, true, {name_of(node)},
          fmt::format("{} reaches nobody and nobody reaches it over {}", name_of(node), capital(t)));
      std::erase_if(bad, [node](const Pair& pair) { return pair.first == node || pair.second == node; });
    }
    for (const Pair& pair : bad) {
      add(FindingKind::unreachable, true, {name_of(pair.first), name_of(pair.second)},
          fmt::format("{} does not reach {} over {}", name_of(pair.first), name_of(pair.second), capital(t)));
    }
  }

  struct Lost {
    std::uint64_t sent = 0, lost = 0;
    [[nodiscard]] double share() const {
      return sent == 0 ? 0 : static_cast<double>(lost) / static_cast<double>(sent);
    }
  };
  // Adds a finding if `host` sends, or receives, three quarters of all lost messages.
  bool blame_for_loss(std::size_t t, std::span<const Lost> by_host, std::uint64_t lost,
                      std::string_view verb) {
    const auto worst = std::ranges::max_element(by_host, {}, &Lost::lost);
    if (matrix_.nodes() < 3 || worst == by_host.end() || worst->lost * 4 < lost * 3) return false;
    const std::string& host = name_of(static_cast<std::size_t>(worst - by_host.begin()));
    add(FindingKind::loss, worst->share() >= faulty_loss, {host},
        fmt::format("{} {} of the {} messages that {} {} are lost ({} of {})", percent(worst->share()), "%",
                    capital(t), host, verb, worst->lost, worst->sent));
    return true;
  }
  static std::string percent(double share) { return fmt::format("{:.2g}", 100 * share); }

  void find_loss(std::size_t t) {
    if (t == over_rc) return;
    std::vector<Lost> senders(matrix_.nodes()), receivers(matrix_.nodes());
    Lost all;
    std::vector<std::pair<Pair, Lost>> pairs;
    each_pair(t, [&](Pair pair, const Cell& cell) {
      // a pair of which nothing arrived is reported as unreachable, not as lossy
      if (!cell.loss || cell.arrived == 0) return;
      const Lost one{cell.sent, cell.sent - cell.arrived};
      for (Lost* sum : {&senders[pair.first], &receivers[pair.second], &all}) {
        sum->sent += one.sent;
        sum->lost += one.lost;
      }
      if (one.lost > 0) pairs.emplace_back(pair, one);
    });
    if (all.lost == 0) return;
    if (blame_for_loss(t, senders, all.lost, "sends")) return;
    if (blame_for_loss(t, receivers, all.lost, "receives")) return;
    std::ranges::sort(pairs, [](const auto& a, const auto& b) { return a.second.lost > b.second.lost; });
    const auto& [pair, worst] = pairs.front();
    add(FindingKind::loss, worst.share() >= faulty_loss, {name_of(pair.first), name_of(pair.second)},
        fmt::format("{} % of the {} messages from {} to {} are lost ({} of {}){}", percent(worst.share()),
                    capital(t), name_of(pair.first), name_of(pair.second), worst.lost, worst.sent,
                    pairs.size() == 1 ? ""
                                      : fmt::format("; {} of {} over all pairs, {} of which lose some",
                                                    all.lost, all.sent, pairs.size())));
  }

  void find_slow(std::size_t t) {
    std::vector<double> every;
    std::vector<std::vector<double>> of(matrix_.nodes());
    Pair worst;
    double longest = 0;
    each_pair(t, [&](Pair pair, const Cell& cell) {
      if (!cell.median_us) return;
      every.push_back(*cell.median_us);
      of[pair.first].push_back(*cell.median_us);
      of[pair.second].push_back(*cell.median_us);
      if (*cell.median_us > longest) {
        longest = *cell.median_us;
        worst = pair;
      }
    });
    if (every.size() < 3) return;
    const double usual = median_of(every);
    if (longest <= slow_ * usual) return;
    for (std::size_t node = 0; matrix_.nodes() > 2 && node < matrix_.nodes(); ++node) {
      const double own = median_of(of[node]);
      if (own <= slow_ * usual) continue;
      add(FindingKind::slow, false, {name_of(node)},
          fmt::format("round trips of {} over {} take {:.3g} us, {:.1f} times the median of {:.3g} us",
                      name_of(node), capital(t), own, own / usual, usual));
      return;
    }
    add(FindingKind::slow, false, {name_of(worst.first), name_of(worst.second)},
        fmt::format(
            "the round trip from {} to {} over {} takes {:.3g} us, {:.1f} times the median of {:.3g} us",
            name_of(worst.first), name_of(worst.second), capital(t), longest, longest / usual, usual));
  }

  const Matrix& matrix_;
  double slow_;
  std::vector<Finding> findings_;
};

// ---- Text ----------------------------------------------------------------------------------------

std::string short_rate(const std::optional<double>& rate) {
  if (!rate) return "-";
  if (*rate >= 1e6) return fmt::format("{:.3g}M", *rate / 1e6);
  return *rate >= 1e3 ? fmt::format("{:.3g}k", *rate / 1e3) : fmt::format("{:.3g}", *rate);
}

std::string short_number(double value) {
  return value < 100 ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", value);
}

std::string cell_text(const Cell& cell, std::size_t transport) {
  if (!cell.is_there) return "-";
  const std::string trip = cell.median_us ? short_number(*cell.median_us) : "no reply";
  const std::string rate = short_rate(cell.rate);
  if (transport == over_rc) return fmt::format("{} {}", trip, rate);
  return fmt::format("{} {} {}", trip, rate, cell.loss ? fmt::format("{:.2g}%", 100 * *cell.loss) : "-");
}

std::string table_of(const Matrix& matrix, std::size_t transport) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> head = {"from \\ to"};
  head.insert(head.end(), matrix.names.begin(), matrix.names.end());
  rows.push_back(std::move(head));
  for (std::size_t from = 0; from < matrix.nodes(); ++from) {
    std::vector<std::string> row = {matrix.names[from]};
    for (std::size_t to = 0; to < matrix.nodes(); ++to)
      row.push_back(cell_text(matrix.at(from, to, transport), transport));
    rows.push_back(std::move(row));
  }
  std::string text =
      transport == over_rc
          ? "RC: round trip of a READ (median, us), READs a second\n"
          : fmt::format("{}: round trip (median, us), messages a second, loss\n", capital(transport));
  std::vector<std::size_t> widths(matrix.nodes() + 1);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    text += " ";
    for (std::size_t i = 0; i < row.size(); ++i) text += fmt::format(" {:>{}}", row[i], widths[i]);
    text += "\n";
  }
  return text;
}

}  // namespace

std::string_view name(FindingKind kind) {
  constexpr std::array<std::string_view, 4> names = {"silent", "unreachable", "loss", "slow"};
  return names[static_cast<std::size_t>(kind)];
}

Matrix make_matrix(std::vector<std::string> names, const std::vector<std::optional<NodeSeen>>& reports,
                   const Capabilities& can) {
  Matrix matrix;
  matrix.names = std::move(names);
  matrix.has = {can.rc, can.uc, can.ud};
  const std::size_t nodes = matrix.nodes();
  matrix.cells.resize(nodes * nodes);
  for (const auto& report : reports) matrix.has_answered.push_back(report.has_value());
  for (std::size_t from = 0; from < nodes; ++from) {
    for (std::size_t to = 0; to < nodes; ++to) {
      for (std::size_t t = 0; t < transports.size(); ++t) {
        if (from == to || !matrix.has[t]) continue;
        Cell& cell = matrix.cells[from * nodes + to][t];
        cell.is_there = true;
        if (!reports[from]) continue;
        cell = cell_of(reports[from]->of[to][t], reports[to] ? &reports[to]->of[from][t] : nullptr, t);
      }
    }
  }
  return matrix;
}

std::vector<Finding> judge(const Matrix& matrix, double slow) { return Judge(matrix, slow).judge(); }

std::string to_table(const Matrix& matrix) {
  std::string text;
  for (std::size_t t = 0; t < transports.size(); ++t) {
    if (matrix.has[t])
      text += table_of(matrix, t);
    else
      text += fmt::format("{}: - (not all devices have it)\n", capital(t));
  }
  return text;
}

}  // namespace loch::fabric::ping
