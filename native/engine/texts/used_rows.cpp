// Rows of the same text and prompt are interchangeable, so which of them is which copy cannot matter.
#include "used_rows.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace collapsar {

namespace {

struct Keyed {
  std::uint64_t key;
  std::int64_t row;    // in the step
  std::int32_t group;  // rank of its id
  std::int64_t copy;
};

std::uint64_t finishedKey(std::uint64_t key, std::string_view id, std::int64_t copy) {
  key = fnvOf(key, '\n');
  for (const char c : id) {
    if (c == '\\' || c == '\n') key = fnvOf(key, '\\');
    key = fnvOf(key, static_cast<std::uint8_t>(c == '\n' ? 'n' : c));
  }
  key = fnvOf(key, '\n');
  char digits[24];
  const char* const end = std::to_chars(digits, digits + sizeof digits, copy).ptr;
  for (const char* digit = digits; digit < end; digit++) key = fnvOf(key, static_cast<std::uint8_t>(*digit));
  return mixed(key);
}

// Groups by the rank of their ids.
std::vector<std::int32_t> ranksOf(const Texts& ids) {
  const auto idOf = [&](std::int32_t group) {
    return std::string_view(reinterpret_cast<const char*>(ids.bytes) + ids.offsets[group],
                            static_cast<std::size_t>(ids.offsets[group + 1] - ids.offsets[group]));
  };
  std::vector<std::int32_t> order(static_cast<std::size_t>(ids.count)), ranks(order.size());
  for (std::size_t i = 0; i < order.size(); i++) order[i] = static_cast<std::int32_t>(i);
  std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return idOf(a) < idOf(b); });
  for (std::size_t i = 0; i < order.size(); i++)
    ranks[static_cast<std::size_t>(order[i])] = static_cast<std::int32_t>(i);
  return ranks;
}

// Runs of rows with the same tokens, whatever their prompt: use(begin, end), rows of a prompt side by side.
template <typename Use>
void eachEqualText(std::vector<Keyed>& rows, const TokenHashes& tokens, Use use) {
  std::sort(rows.begin(), rows.end(), [&](const Keyed& a, const Keyed& b) {
    const std::uint64_t keyA = tokens.key(a.row), keyB = tokens.key(b.row);
    if (keyA != keyB) return keyA < keyB;
    if (!tokens.equal(a.row, b.row)) return tokens.compare(a.row, b.row) < 0;
    return a.group < b.group;
  });
  for (auto begin = rows.begin(); begin < rows.end();) {
    auto end = begin + 1;
    while (end < rows.end() && tokens.equal(begin->row, end->row)) end++;
    use(begin, end);
    begin = end;
  }
}

}  // namespace

UsedRows usedRows(const TextRows& step, const TokenHashes& tokens) {
  UsedRows used;
  const std::vector<std::int32_t> ranks = ranksOf(step.groupIds);
  std::vector<std::int64_t> sizes(ranks.size());  // filled rows of each group
  bool allKnown = step.prompts != nullptr;
  for (std::int64_t row = 0; row < step.texts.count; row++) {
    if (tokens.count(row) == 0) continue;
    sizes[static_cast<std::size_t>(step.groups[row])]++;
    if (allKnown && step.prompts[row] < 0) allKnown = false;
  }
  const auto groupsOf = [&](std::int64_t least) {
    return std::count_if(sizes.begin(), sizes.end(), [&](std::int64_t size) { return size >= least; });
  };
  used.byPrompts = groupsOf(2) < 2;
  const auto fails = [&](TextProblem problem) {
    used.problem = problem;
    return used;
  };
  if (groupsOf(1) < 2) return fails(TextProblem::TooFewPrompts);
  if (used.byPrompts && !allKnown) return fails(TextProblem::TooFewRows);

  std::vector<Keyed> rows;
  for (std::int64_t row = 0; row < step.texts.count; row++) {
    const auto group = static_cast<std::size_t>(step.groups[row]);
    if (tokens.count(row) == 0 || sizes[group] < (used.byPrompts ? 1 : 2)) continue;
    rows.push_back({0, row, ranks[group], 0});
  }
  used.rows = static_cast<std::int64_t>(rows.size());

  eachEqualText(rows, tokens, [&](auto begin, auto end) {
    const bool across = begin->group != (end - 1)->group;
    if (across) used.duplicatesAcross += end - begin;
    for (auto row = begin; row < end;) {
      auto next = row + 1;
      while (next < end && next->group == row->group) next++;
      if (next - row > 1) used.duplicates += next - row;
      for (std::int64_t copy = 0; row < next; row++, copy++) {
        const std::int32_t group = step.groups[row->row];
        const auto* const id = reinterpret_cast<const char*>(step.groupIds.bytes) + step.groupIds.offsets[group];
        const auto size = static_cast<std::size_t>(step.groupIds.offsets[group + 1] - step.groupIds.offsets[group]);
        row->copy = copy;
        row->key = finishedKey(tokens.key(row->row), {id, size}, copy);
      }
    }
  });
  std::sort(rows.begin(), rows.end(), [&](const Keyed& a, const Keyed& b) {
    if (a.key != b.key) return a.key < b.key;
    if (const int order = tokens.compare(a.row, b.row)) return order < 0;
    return a.group != b.group ? a.group < b.group : a.copy < b.copy;
  });

  // Prompt by prompt, in each by place: a stable sort keeps the order of keys.
  const auto count = rows.size();
  std::vector<std::int64_t> byPrompt(count);
  for (std::size_t i = 0; i < count; i++) byPrompt[i] = static_cast<std::int64_t>(i);
  std::stable_sort(byPrompt.begin(), byPrompt.end(), [&](std::int64_t a, std::int64_t b) {
    return rows[static_cast<std::size_t>(a)].group < rows[static_cast<std::size_t>(b)].group;
  });
  used.atPosition.resize(count);
  std::int32_t lastGroup = -1;
  for (std::size_t at = 0; at < count; at++) {
    const auto position = static_cast<std::size_t>(byPrompt[at]);
    const Keyed& row = rows[position];
    if (row.group != lastGroup) {
      used.firstRow.push_back(static_cast<std::int64_t>(at));
      lastGroup = row.group;
    }
    used.row.push_back(row.row);
    used.prompt.push_back(static_cast<std::int32_t>(used.firstRow.size() - 1));
    used.position.push_back(static_cast<std::int64_t>(position));
    used.atPosition[position] = static_cast<std::int64_t>(at);
  }
  used.prompts = static_cast<std::int64_t>(used.firstRow.size());
  used.firstRow.push_back(used.rows);

  // One text a group, known for every used row.
  used.promptsKnown = step.prompts != nullptr;
  for (std::size_t at = 0; at < count && used.promptsKnown; at++) {
    const std::int32_t text = step.prompts[used.row[at]];
    const auto prompt = static_cast<std::size_t>(used.prompt[at]);
    if (used.promptText.size() <= prompt) used.promptText.push_back(text);
    used.promptsKnown = text >= 0 && used.promptText[prompt] == text;
  }
  if (!used.promptsKnown) used.promptText.clear();
  if (used.byPrompts && !used.promptsKnown) return fails(TextProblem::PromptsDiffer);

  std::int64_t folds = used.byPrompts ? 1 : kMostFolds;
  for (std::size_t j = 0; j + 1 < used.firstRow.size() && !used.byPrompts; j++) {
    folds = std::min(folds, used.firstRow[j + 1] - used.firstRow[j]);
  }
  used.folds = static_cast<int>(folds);
  for (std::size_t at = 0; at < count; at++) {
    const auto prompt = static_cast<std::size_t>(used.prompt[at]);
    const std::int64_t size = used.firstRow[prompt + 1] - used.firstRow[prompt];
    const std::int64_t fold = used.place(static_cast<std::int64_t>(at)) % folds;
    const std::int64_t inFold = (size - fold + folds - 1) / folds;
    used.fold.push_back(static_cast<std::uint8_t>(fold));
    used.weight.push_back(
        1.0 / (static_cast<double>(used.prompts) * static_cast<double>(folds) * static_cast<double>(inFold)));
  }
  return used;
}

}  // namespace collapsar
