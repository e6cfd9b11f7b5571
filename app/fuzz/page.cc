// Draws a finding as an SVG picture in an HTML page.
#include "app/fuzz/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "app/fuzz/page_layout.h"

namespace loch::fuzz {
namespace {

using check::Operation;

constexpr double left = 150, top = 34, lane_height = 46, bar_height = 16, node_height = 26;

// Okabe and Ito's colour scheme, as in all figures (plots/style.py). Its vermilion marks the contradictory
// operations only.
constexpr std::array<const char*, 6> key_colors = {"#0072B2", "#009E73", "#E69F00",
                                                   "#CC79A7", "#56B4E9", "#8c8c8c"};

constexpr std::string_view style =
    ":root{--ground:#fff;--ink:#111;--soft:#666;--rule:#d9d9d9;--bad:#D55E00;--fail:#4d4d4d}\n"
    "@media(prefers-color-scheme:dark){:root{--ground:#16181b;--ink:#eee;--soft:#a5a5a5;--rule:#3a3d42;"
    "--bad:#ff8a3d;--fail:#c4c4c4}}\n"
    "body{background:var(--ground);color:var(--ink);font:15px/1.45 'DejaVu "
    "Sans',sans-serif;margin:24px;max-width:"
    "1400px}\nh1{font-size:20px}h2{font-size:16px;margin-top:28px}.wide{overflow-x:auto}\n"
    "p.bad{border-left:4px solid var(--bad);padding:4px 12px}.soft{color:var(--soft)}\n"
    "table{border-collapse:collapse;font-size:13px}td,th{padding:2px 12px 2px "
    "0;text-align:left;border-bottom:1px solid "
    "var(--rule)}\ntr.bad td{color:var(--bad);font-weight:bold}\ncode{font:13px 'DejaVu Sans Mono',monospace;"
    "overflow-wrap:anywhere}\n"
    "svg text{fill:var(--ink);font:11px 'DejaVu Sans Mono',monospace}svg .soft{fill:var(--soft)}svg "
    ".name{font-size:"
    "11.5px}\nsvg .bad{fill:var(--bad);font-weight:bold}svg .fail{fill:var(--fail)}\n";

std::string microseconds(Nanos at) { return fmt::format("{:.3f}", static_cast<double>(at) / 1000); }

std::string_view meaning(FuzzVerdict verdict) {
  switch (verdict) {
    case FuzzVerdict::violated:
      return "Each operation should seem to take effect at one instant between its beginning and its end. "
             "For the "
             "marked ones there is no such order.";
    case FuzzVerdict::corrupt:
      return "A GET returned bytes that no client ever wrote.";
    case FuzzVerdict::stuck:
      return "After the last failure was over and repaired, a key could still not be read or written.";
    case FuzzVerdict::unsound:
      return "When nothing was under way any more, the tables were not what they should be.";
    case FuzzVerdict::deadlock:
      return "Operations were outstanding, and nothing was left to happen.";
    case FuzzVerdict::overtime:
      return "Operations were still under way long after the last failure was over.";
    case FuzzVerdict::undecided:
      return "The checker gave up before it had an answer.";
    case FuzzVerdict::holds:
      return "Nothing is wrong with this run.";
    case FuzzVerdict::error:
      return "The run could not be made.";
  }
  return "";
}

std::string tooltip(const DrawnOperation& o) {
  const Operation& op = *o.operation;
  return fmt::format("{}\nkey {}\nfrom {} us to {}\nby client {}", o.label, op.key,
                     microseconds(op.invoke_ns),
                     op.return_ns ? microseconds(*op.return_ns) + " us" : "never answered", op.client);
}

class Drawing {
 public:
  explicit Drawing(const Layout& layout)
      : l_(layout),
        clients_top_(top + node_height * static_cast<double>(layout.nodes.size()) +
                     (layout.nodes.empty() ? 0 : 14)),
        bottom_(clients_top_ + lane_height * static_cast<double>(layout.lanes.size())) {}

  std::string svg() {
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 "
        "{0:.0f} {1:.0f}\" "
        "role=\"img\" aria-label=\"operations by client over time\">\n",
        left + l_.width + 30, bottom_ + 22);
    axis();
    failures();
    for (std::size_t i = 0; i < l_.lanes.size(); ++i) lane(i);
    for (const DrawnOperation& o : l_.operations) bar(o);
    return out_ + "</svg>\n";
  }

 private:
  void axis() {
    double last = -1e9;
    for (const auto& [at, x] : l_.ticks) {
      if (x - last < 78) continue;
      last = x;
      out_ += fmt::format(
          "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.0f}\" y2=\"{2:.0f}\" stroke=\"var(--rule)\"/><text "
          "class=\"soft\" "
          "x=\"{0:.1f}\" y=\"{3:.0f}\">{4}</text>\n",
          left + x, top - 8, bottom_, top - 14, microseconds(at) + " us");
    }
  }

  void failures() {
    std::vector<double> label_end(l_.nodes.size(), 0);
    for (std::size_t i = 0; i < l_.nodes.size(); ++i) {
      out_ += fmt::format("<text class=\"name\" x=\"4\" y=\"{:.0f}\">{}</text>\n",
                          top + node_height * static_cast<double>(i) + 15, escaped(l_.nodes[i]));
    }
    for (const DrawnFailure& f : l_.failures) {
      const double y = top + node_height * static_cast<double>(f.node);
      const double width = std::max(2.0, f.to - f.from);
      const double text = std::max(left + f.from + 5, label_end[f.node]);
      label_end[f.node] = text + 6.8 * static_cast<double>(f.label.size()) + 8;
      out_ += fmt::format(
          "<g><title>{5} at {6} us</title><rect x=\"{0:.1f}\" y=\"{1:.0f}\" width=\"{2:.1f}\" height=\"20\" "
          "fill=\"var(--fail)\" fill-opacity=\"0.22\"/><line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.0f}\" "
          "y2=\"{3:.0f}\" "
          "stroke=\"var(--fail)\" stroke-width=\"1.5\" stroke-dasharray=\"5 3\"/><text class=\"fail\" "
          "x=\"{4:.1f}\" "
          "y=\"{7:.0f}\">{5}</text></g>\n",
          left + f.from, y, width, bottom_, text, escaped(f.label), microseconds(f.at), y + 14);
    }
  }

  void lane(std::size_t i) {
    const double y = clients_top_ + lane_height * static_cast<double>(i);
    out_ += fmt::format(
        "<text class=\"name\" x=\"4\" y=\"{0:.0f}\">{1}</text><line x1=\"{2:.0f}\" x2=\"{3:.0f}\" "
        "y1=\"{4:.1f}\" "
        "y2=\"{4:.1f}\" stroke=\"var(--rule)\"/>\n",
        y + 30, escaped(l_.lanes[i]), left, left + l_.width + 20, y + 18 + bar_height / 2);
  }

  void bar(const DrawnOperation& o) {
    const double y = clients_top_ + lane_height * static_cast<double>(o.lane) + 18;
    const char* color = key_colors[std::min(o.key, key_colors.size() - 1)];
    const bool is_open = o.operation->outcome == Outcome::unknown || !o.operation->return_ns;
    out_ += fmt::format(
        "<g><title>{0}</title><rect x=\"{1:.1f}\" y=\"{2:.0f}\" width=\"{3:.1f}\" height=\"{4:.0f}\" "
        "rx=\"2\" fill=\"{5}\" "
        "fill-opacity=\"0.45\" stroke=\"{6}\" stroke-width=\"{7}\"{8}/><text{9} x=\"{1:.1f}\" "
        "y=\"{10:.0f}\">{11}</text>"
        "</g>\n",
        escaped(tooltip(o)), left + o.from, y, std::max(3.0, o.to - o.from), bar_height, color,
        o.contradicts ? "var(--bad)" : color, o.contradicts ? "3" : "1",
        is_open ? " stroke-dasharray=\"4 3\"" : "", o.contradicts ? " class=\"bad\"" : "", y - 4,
        escaped(o.label));
  }

  const Layout& l_;
  const double clients_top_, bottom_;
  std::string out_;
};

// The key's initial value in the history; empty if the history has none.
std::string beginning_of(const std::string& key, const std::vector<Operation>& history) {
  for (const Operation& o : history) {
    if (o.client == check::preload_client && o.key == key && o.kind != OpKind::lost)
      return o.kind == OpKind::put ? o.value.value_or("") : "absent";
  }
  return {};
}

// A sentence for each key that has a contradictory operation and an initial value, such as "At the beginning
// B was init."
std::string beginnings(const Layout& l, const std::vector<Operation>& history) {
  std::string text;
  for (std::size_t i = 0; i < l.keys.size(); ++i) {
    const bool is_meant = std::ranges::any_of(
        l.operations, [&](const DrawnOperation& o) { return o.contradicts && o.key == i; });
    const std::string beginning = beginning_of(l.keys[i], history);
    if (is_meant && !beginning.empty())
      text += fmt::format(" At the beginning {} was {}.", key_letter(i), beginning);
  }
  return text;
}

std::string keys_table(const Layout& l, const std::vector<Operation>& history) {
  std::string out = "<table><tr><th>key</th><th>name</th><th>at the beginning</th></tr>\n";
  for (std::size_t i = 0; i < l.keys.size(); ++i) {
    std::string beginning = beginning_of(l.keys[i], history);
    if (beginning.empty()) beginning = "not said";
    out += fmt::format(
        "<tr><td><b style=\"color:{}\">&#9632;</b> {}</td><td><code>{}</code></td><td>{}</td></tr>\n",
        key_colors[std::min(i, key_colors.size() - 1)], key_letter(i), escaped(l.keys[i]),
        escaped(beginning));
  }
  return out + "</table>\n";
}

std::string operations_table(const Layout& l) {
  std::string out =
      "<table><tr><th>client</th><th>operation</th><th>from (us)</th><th>to (us)</th><th>outcome</th></tr>\n";
  for (const DrawnOperation& o : l.operations) {
    const Operation& op = *o.operation;
    out += fmt::format("<tr{}><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                       o.contradicts ? " class=\"bad\"" : "", op.client, escaped(o.label),
                       microseconds(op.invoke_ns), op.return_ns ? microseconds(*op.return_ns) : "never",
                       name(op.outcome));
  }
  return out + "</table>\n";
}

// Replaces the names of keys in a text by the letters that stand for the keys in the drawing.
std::string with_letters(std::string text, const Layout& l) {
  for (std::size_t i = 0; i < l.keys.size(); ++i) {
    const std::string& key = l.keys[i];
    for (std::size_t at = text.find(key); key.size() > 3 && at != std::string::npos;
         at = text.find(key, at)) {
      text.replace(at, key.size(), key_letter(i));
      at += key_letter(i).size();
    }
  }
  return text;
}

std::string reading_aid(const Layout& l, bool has_contradiction) {
  std::string text =
      "A bar is an operation, from its beginning to its answer, in the row of its client (n3.0: worker 0 of "
      "node 3); its colour is its "
      "key's. "
      "Behind the colon stands the answer: for a GET the value that was read. A value is named after its "
      "writer "
      "(w3.1: the first PUT of client 3; init: there from the beginning). A dashed bar was never answered, "
      "or may or may "
      "not have taken effect.";
  if (has_contradiction) text += " The operations that contradict each other have a thick frame.";
  if (!l.failures.empty())
    text +=
        " Grey bands are failures, in the row of their node; dashed lines are where they and repairs begin.";
  text += " The axis is no ruler: long spans are drawn short. Point at a bar for its details.";
  if (l.left_out > 0) text += fmt::format(" {} further operations are not drawn.", l.left_out);
  return text;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += (static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7F ? ' ' : c;
    }
  }
  return out;
}

std::string draw_page(const Replay& r, const FuzzFinding& finding) {
  const FuzzScenario& s = r.scenario;
  const Layout layout = lay_out(s, finding.history, finding.sub_history);
  const std::string title =
      fmt::format("{}{}: {}", r.protocol, r.mutant.empty() ? "" : ", known-bad variant " + r.mutant,
                  name(finding.verdict));
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\">\n"
      "<meta name=\"color-scheme\" content=\"light "
      "dark\">\n<title>{0}</title>\n<style>\n{1}</style>\n</head>\n<body>\n"
      "<h1>{0}</h1>\n<p>{2}</p>\n",
      escaped(title), style, escaped(meaning(finding.verdict)));
  if (!finding.reason.empty())
    out += fmt::format("<p class=\"bad\">{}</p>\n", escaped(with_letters(finding.reason, layout) + "." +
                                                            beginnings(layout, finding.history)));
  if (!r.cause.empty()) out += fmt::format("<p>Cause: {}</p>\n", escaped(r.cause));
  out += "<div class=\"wide\">\n" + Drawing(layout).svg() + "</div>\n";
  out +=
      fmt::format("<p class=\"soft\">{}</p>\n", escaped(reading_aid(layout, !finding.sub_history.empty())));
  out += "<h2>Keys</h2>\n" + keys_table(layout, finding.history);
  out += "<h2>Operations</h2>\n<div class=\"wide\">\n" + operations_table(layout) + "</div>\n";
  out += fmt::format(
      "<h2>Scenario</h2>\n<p><code>{}</code></p>\n<p class=\"soft\">Trace hash {:016x}, {} events, {:.6f} s "
      "of virtual time; first drawn from seed {}.</p>\n</body>\n</html>\n",
      escaped(s.describe()), finding.trace_hash, finding.events, finding.virtual_s, r.seed);
  return out;
}

}  // namespace loch::fuzz
