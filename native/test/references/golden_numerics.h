// test/golden/numerics.json: rows of scores as bit patterns, with their log-sum-exp, entropy, target log-prob and
// argmax in more digits than a long double has.
#pragma once

#include <cctype>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace collapsar::test {

// As much of JSON as numerics.json has: an array of flat objects of strings, integers and arrays of either.
struct GoldenCase {
  std::string name, dtype;
  std::vector<std::uint64_t> bits;
  std::string logSumExp, entropy, target, targetLogProb;
  std::int32_t argmax = -1;  // where the case has a NaN there is none
};

class GoldenReader {
 public:
  explicit GoldenReader(std::string text) : text_(std::move(text)) {}

  std::vector<GoldenCase> read() {
    std::vector<GoldenCase> cases;
    take('[');
    while (!taken(']')) {
      if (!cases.empty()) take(',');
      cases.push_back(object());
    }
    return cases;
  }

 private:
  GoldenCase object() {
    GoldenCase out;
    take('{');
    for (bool first = true; !taken('}'); first = false) {
      if (!first) take(',');
      const std::string key = scalar();
      take(':');
      if (key == "bits") {
        take('[');
        while (!taken(']')) {
          if (!out.bits.empty()) take(',');
          out.bits.push_back(std::stoull(scalar()));
        }
        continue;
      }
      const std::string value = scalar();
      if (key == "name") out.name = value;
      if (key == "dtype") out.dtype = value;
      if (key == "logsumexp") out.logSumExp = value;
      if (key == "entropy") out.entropy = value;
      if (key == "target") out.target = value;
      if (key == "target_logprob") out.targetLogProb = value;
      if (key == "argmax" && value != "null") out.argmax = std::stoi(value);
    }
    return out;
  }
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) at_++;
  }
  bool taken(char c) {
    skip();
    if (at_ >= text_.size()) throw std::runtime_error("numerics.json ends early");
    if (text_[at_] != c) return false;
    at_++;
    return true;
  }
  void take(char c) {
    if (!taken(c)) throw std::runtime_error("numerics.json is not as expected");
  }
  std::string scalar() {
    const bool quoted = taken('"');
    const std::size_t begin = at_;
    at_ = text_.find_first_of(quoted ? "\"" : ",]}", at_);
    const std::string value = text_.substr(begin, at_ - begin);
    if (quoted) at_++;
    return value;
  }

  std::string text_;
  std::size_t at_ = 0;
};

inline std::vector<GoldenCase> goldenNumerics() {
  const std::string here = __FILE__;
  const std::string directory = here.find('/') == std::string::npos ? "." : here.substr(0, here.find_last_of('/'));
  const std::string path = directory + "/../../../test/golden/numerics.json";
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + " cannot be read");
  std::stringstream text;
  text << file.rdbuf();
  return GoldenReader(text.str()).read();
}

}  // namespace collapsar::test
