// Lines of JSON -> where the fields wanted stand in each, and long texts among them, without escapes. A line that is in
// any way unusual is only marked: whoever asks reads it with all care (src/logs/rollouts/json-lines/json-fields.ts),
// so that here is nothing to say about errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace collapsar {

// What is said of each line: where it begins and ends (without its LF), whether it was read, and of each field.
constexpr int kLineInts = 3;
// Where its value begins and ends; where its text begins and ends in `texts`. −1 where there is none.
constexpr int kFieldInts = 4;

// Strings of fewer bytes are left as they stand.
constexpr std::int64_t kLongText = 128;

// bytes: valid UTF-8 wherever a line is to be trusted. texts: room for as many bytes. Lines are added to `out`.
void scanJsonLines(const std::uint8_t* bytes, std::int64_t length, const std::vector<std::string>& names,
                   std::uint8_t* texts, std::vector<std::int32_t>& out);

}  // namespace collapsar
