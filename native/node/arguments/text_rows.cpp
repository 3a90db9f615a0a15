#include "text_rows.h"

#include <limits>
#include <string>

#include "engine/texts/text_figures.h"

namespace collapsar {

void TextsArgument::take(Job& job, Arguments& arguments, const char* textsName, const char* idsName) {
  const Napi::Value bytes = arguments.next(), ids = arguments.next(), offsets = arguments.next();
  const char* const name = bytes.IsUndefined() ? idsName : textsName;
  constexpr std::int64_t kMostId = std::int64_t{1} << 53;
  std::int64_t size = 0;
  if (bytes.IsUndefined()) {
    ids_ = integers64(ids, name, 0, kMostId);
    size = static_cast<std::int64_t>(ids_.size());
  } else {
    std::size_t held = 0;
    bytes_ = holdBytes(job, bytes, name, &held);
    size = static_cast<std::int64_t>(held);
  }
  if (size > kMostTextEntries) {
    rejectArgument(arguments.env(), name,
                   std::to_string(size) + " bytes or ids in one step, at most " + std::to_string(kMostTextEntries) +
                       " are possible: give a part of its rows");
  }
  offsets_ = integers64(offsets, name, 0, size);
}

Texts TextsArgument::texts() const {
  static constexpr std::uint8_t kNone = 0;
  const std::uint8_t* const bytes = bytes_ == nullptr && ids_.empty() ? &kNone : bytes_;
  return {bytes, ids_.data(), offsets_.data(), count()};
}

void TextRowsArgument::take(Job& job, Arguments& arguments) {
  texts_.take(job, arguments, "rows.texts", "rows.tokens");
  const Napi::Value groups = arguments.next();
  groupIds_.take(job, arguments, "rows.groups", "rows.groups");
  groups_ = integers32(groups, "rows.groups", 0, static_cast<std::int32_t>(groupIds_.count() - 1));
  expectCount(arguments.env(), "rows.groups", groups_.size(), texts_.count(), "row");
  const Napi::Value prompts = arguments.next();
  hasPrompts_ = !prompts.IsUndefined();
  if (!hasPrompts_) return;
  promptTexts_.take(job, arguments, "rows.prompts", "rows.promptTokens");
  prompts_ = integers32(prompts, "rows.prompts", -1, static_cast<std::int32_t>(promptTexts_.count() - 1));
  expectCount(arguments.env(), "rows.prompts", prompts_.size(), texts_.count(), "row");
}

TextRows TextRowsArgument::rows() const {
  TextRows rows{texts_.texts(), groups_.data(), groupIds_.texts(), nullptr, {}};
  if (!hasPrompts_) return rows;
  rows.prompts = prompts_.data();
  rows.promptTexts = promptTexts_.texts();
  return rows;
}

}  // namespace collapsar
