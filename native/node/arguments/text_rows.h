// A step's texts as arguments (src/engine/operations/texts/text-rows.ts), which two operations share.
#pragma once

#include <cstdint>
#include <vector>

#include "arguments.h"
#include "engine/texts/texts.h"

namespace collapsar {

class TextsArgument {
 public:
  // Takes bytes: Uint8Array | undefined, ids: IntegerArray | undefined, offsets: Float64Array.
  // bytes: engine memory, or copied.
  // The names are what the caller calls them.
  void take(Job& job, Arguments& arguments, const char* textsName, const char* idsName);

  Texts texts() const;  // pointers into this object
  std::int64_t count() const { return static_cast<std::int64_t>(offsets_.size()) - 1; }

 private:
  const std::uint8_t* bytes_ = nullptr;
  std::vector<std::int64_t> ids_, offsets_;
};

class TextRowsArgument {
 public:
  // Takes the rows' texts, groups: IntegerArray, the groups' ids, prompts: IntegerArray | undefined and, if given, the
  // prompts' texts.
  void take(Job& job, Arguments& arguments);

  TextRows rows() const;  // pointers into this object

 private:
  TextsArgument texts_, groupIds_, promptTexts_;
  std::vector<std::int32_t> groups_, prompts_;
  bool hasPrompts_ = false;
};

}  // namespace collapsar
