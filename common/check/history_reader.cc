// Reads a history in JSON Lines; a binary history, which begins with the binary magic, is left to
// BinaryReader. Errors name the file and the line.
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>

#include "common/base/check.h"
#include "common/check/binary_reader.h"
#include "common/check/history.h"

namespace loch::check {
namespace {

constexpr std::size_t line_bytes_max = 1 << 20;
constexpr std::size_t chunk_bytes = 256 * 1024;

enum Field : unsigned { f_client, f_op, f_key, f_value, f_invoke, f_return, f_outcome, field_count };
constexpr std::array<std::string_view, field_count> field_names = {
    "client", "op", "key", "value", "invoke_ns", "return_ns", "outcome"};

// Parses one flat JSON object. On bad input every method returns false and sets `wanted_` to what was
// expected at offset `at_`.
class LineParser {
 public:
  explicit LineParser(std::string_view text) : text_(text) {}

  bool parse(Operation* out) {
    unsigned seen = 0;
    if (!punctuation('{', "\"{\"")) return false;
    for (unsigned n = 0; n < field_count; ++n) {
      unsigned field = 0;
      if (n > 0 && !punctuation(',', "\",\" and another field")) return false;
      if (!field_name(&field)) return false;
      if ((seen & (1U << field)) != 0) return expected(fmt::format("\"{}\" only once", field_names[field]));
      seen |= 1U << field;
      if (!punctuation(':', "\":\"")) return false;
      where_ = field_names[field];
      if (!value_of(field, out)) return false;
      where_ = {};
    }
    if (!punctuation('}', "\"}\" after the seven fields")) return false;
    skip_blanks();
    return at_ == text_.size() || expected("nothing after \"}\"");
  }

  // The error message of a failed parse, such as "field "op": expected …" or "column 17: expected …".
  [[nodiscard]] std::string complaint() const {
    if (!where_.empty()) return fmt::format("field \"{}\": expected {}", where_, wanted_);
    return fmt::format("column {}: expected {}", at_ + 1, wanted_);
  }

 private:
  bool expected(std::string what) {
    wanted_ = std::move(what);
    return false;
  }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
  }

  bool punctuation(char c, std::string_view what) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != c) return expected(std::string(what));
    ++at_;
    return true;
  }

  bool field_name(unsigned* field) {
    skip_blanks();
    const std::size_t start = at_;
    if (!string(&scratch_)) return expected("a field name in quotes");
    for (*field = 0; *field < field_count; ++*field) {
      if (field_names[*field] == scratch_) return true;
    }
    at_ = start;
    return expected("one of client, op, key, value, invoke_ns, return_ns, outcome");
  }

  bool value_of(unsigned field, Operation* out) {
    skip_blanks();
    std::int64_t number = 0;
    switch (field) {
      case f_client:
        if (!integer(&number)) return false;
        if (number < std::numeric_limits<std::int32_t>::min() ||
            number > std::numeric_limits<std::int32_t>::max())
          return expected("a 32-bit integer");
        out->client = static_cast<std::int32_t>(number);
        return true;
      case f_op:
        return string(&scratch_) && one_of_kinds(&out->kind);
      case f_key:
        return string(&out->key);
      case f_value:
        if (null()) return out->value.reset(), true;
        return string(&out->value.emplace()) || expected("a string or null");
      case f_invoke:
        return integer(&out->invoke_ns);
      case f_return:
        if (null()) return out->return_ns.reset(), true;
        return integer(&out->return_ns.emplace()) || expected("an integer of nanoseconds or null");
      default:
        return string(&scratch_) && one_of_outcomes(&out->outcome);
    }
  }

  bool one_of_kinds(OpKind* out) {
    for (const OpKind kind :
         {OpKind::get, OpKind::put, OpKind::remove, OpKind::insert_if_absent, OpKind::lost}) {
      if (scratch_ == name(kind)) return *out = kind, true;
    }
    return expected("get, put, delete, insert_if_absent or lost");
  }

  bool one_of_outcomes(Outcome* out) {
    for (const Outcome o :
         {Outcome::ok, Outcome::not_found, Outcome::failed, Outcome::unknown, Outcome::exists}) {
      if (scratch_ == name(o)) return *out = o, true;
    }
    return expected("ok, not_found, failed, unknown or exists");
  }

  bool null() {
    if (text_.substr(at_, 4) != "null") return false;
    at_ += 4;
    return true;
  }

  bool integer(std::int64_t* out) {
    const char* const begin = text_.data() + at_;
    const auto [end, status] = std::from_chars(begin, text_.data() + text_.size(), *out);
    if (status != std::errc{}) return expected("an integer");
    at_ += static_cast<std::size_t>(end - begin);
    return true;
  }

  bool string(std::string* out) {
    out->clear();
    if (at_ >= text_.size() || text_[at_] != '"') return expected("a string in quotes");
    for (++at_; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '"') return ++at_, true;
      if (static_cast<unsigned char>(c) < 0x20) return expected("control characters escaped as \\u00XX");
      if (c != '\\') {
        out->push_back(c);
      } else if (!escape(out)) {
        return false;
      }
    }
    return expected("a closing quote");
  }

  // Decodes an escape sequence that begins at a backslash; leaves at_ on the last character of the
  // sequence.
  bool escape(std::string* out) {
    constexpr std::string_view from = "\"\\/bfnrt";
    constexpr std::string_view to = "\"\\/\b\f\n\r\t";
    if (++at_ >= text_.size()) return expected("a character after the backslash");
    if (const std::size_t i = from.find(text_[at_]); i != std::string_view::npos) {
      out->push_back(to[i]);
      return true;
    }
    unsigned code = 0;
    const char* const digits = text_.data() + at_ + 1;
    if (text_[at_] != 'u' || text_.size() - at_ < 5) return expected("a JSON escape");
    const auto [end, status] = std::from_chars(digits, digits + 4, code, 16);
    if (status != std::errc{} || end != digits + 4) return expected("four hexadecimal digits after \\u");
    if (code > 0xFF) return expected("an ASCII name (escapes up to \\u00ff)");
    out->push_back(static_cast<char>(code));  // a single byte, which append_line() writes as \u00XX
    at_ += 4;
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string_view where_;
  std::string wanted_;
  std::string scratch_;
};

}  // namespace

Result<Operation> parse_line(std::string_view text, std::string_view file, std::size_t line) {
  Operation operation;
  LineParser parser(text);
  if (!parser.parse(&operation)) {
    return fail(ErrorCode::invalid_argument, fmt::format("{}:{}: {}", file, line, parser.complaint()));
  }
  if (const std::string why = why_impossible(view(operation)); !why.empty()) {
    return fail(ErrorCode::invalid_argument, fmt::format("{}:{}: field {}", file, line, why));
  }
  return operation;
}

HistoryReader::HistoryReader(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {
  const int first = std::getc(file);
  if (first != EOF) std::ungetc(first, file);
  if (first == static_cast<unsigned char>(binary_magic.front()))
    binary_ = std::make_unique<BinaryReader>(path_, file);
}

HistoryReader::~HistoryReader() = default;
HistoryReader::HistoryReader(HistoryReader&&) noexcept = default;
HistoryReader& HistoryReader::operator=(HistoryReader&&) noexcept = default;

void HistoryReader::select(std::uint32_t part, std::uint32_t parts) {
  part_ = part;
  parts_ = parts;
  if (binary_) binary_->select(part, parts);
}

Result<HistoryReader> HistoryReader::open(std::string path) {
  std::FILE* const file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) {
    return fail(ErrorCode::invalid_argument, fmt::format("{}: cannot read: {}", path, std::strerror(errno)));
  }
  return HistoryReader(std::move(path), file);
}

Result<HistoryReader> HistoryReader::over(std::string name, std::string_view text) {
  // fmemopen() refuses an empty buffer, hence one byte in its place. Opened for reading, it does not
  // modify the buffer, so the const_cast is safe.
  static char nothing[] = "";
  std::FILE* const file = text.empty() ? ::fmemopen(nothing, 1, "r")
                                       : ::fmemopen(const_cast<char*>(text.data()), text.size(), "r");
  if (file == nullptr) return fail(ErrorCode::exhausted, fmt::format("{}: {}", name, std::strerror(errno)));
  if (text.empty()) std::fseek(file, 0, SEEK_END);
  return HistoryReader(std::move(name), file);
}

Result<bool> HistoryReader::fill_line() {
  text_.clear();
  for (;;) {
    if (chunk_at_ == chunk_size_) {
      chunk_.resize(chunk_bytes);
      chunk_at_ = 0;
      chunk_size_ = std::fread(chunk_.data(), 1, chunk_.size(), file_.get());
      if (std::ferror(file_.get()) != 0) {
        return fail(ErrorCode::invalid_argument,
                    fmt::format("{}: cannot read: {}", path_, std::strerror(errno)));
      }
      if (chunk_size_ == 0) break;
    }
    const char* const begin = chunk_.data() + chunk_at_;
    const std::size_t left = chunk_size_ - chunk_at_;
    const char* const newline = static_cast<const char*>(std::memchr(begin, '\n', left));
    const std::size_t length = newline != nullptr ? static_cast<std::size_t>(newline - begin) : left;
    if (text_.size() + length > line_bytes_max) {
      return fail(ErrorCode::invalid_argument, fmt::format("{}:{}: expected a line of at most {} bytes",
                                                           path_, line_ + 1, line_bytes_max));
    }
    text_.append(begin, length);
    chunk_at_ += length;
    if (newline != nullptr) {
      ++chunk_at_;
      return true;
    }
  }
  if (text_.empty()) return false;
  return fail(
      ErrorCode::invalid_argument,
      fmt::format("{}:{}: expected a line that ends in a newline: the file was cut short", path_, line_ + 1));
}

Result<const OperationView*> HistoryReader::advance() {
  if (binary_) return binary_->advance();
  for (;;) {
    LOCH_ASSIGN(const bool there, fill_line());
    if (!there) return nullptr;
    ++line_;
    LOCH_ASSIGN(operation_, parse_line(text_, path_, line_));
    view_ = view(operation_);
    if (parts_ == 1 || operation_.kind == OpKind::lost || hash_of_name(operation_.key) % parts_ == part_)
      return &view_;
  }
}

Result<std::optional<Operation>> HistoryReader::next() {
  LOCH_ASSIGN(const OperationView* const found, advance());
  if (found == nullptr) return std::optional<Operation>{};
  Operation operation{found->client, found->kind,      found->outcome,  std::string(found->key),
                      std::nullopt,  found->invoke_ns, found->return_ns};
  if (found->value) operation.value = std::string(*found->value);
  return std::optional<Operation>{std::move(operation)};
}

}  // namespace loch::check
