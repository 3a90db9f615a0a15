// Cuts the file into pieces of whole rows, or rows into pieces of whole leaves; one thread reads and sums a piece. The
// bits are sumTokens': kernels sum leaves of 4096 tokens, and leaves are added in order.
#include "sum_file_tokens.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "engine/simd/kernel_table.h"
#include "values.h"

namespace collapsar {
namespace {

// A gap between valid tokens that is skipped rather than read: a read more costs as much as copying some 4 KiB.
constexpr std::int64_t kGapBytes = 6 << 10;
constexpr std::int64_t kPieceRows = 4096;  // rows of few tokens in a piece
constexpr int kBatchLeaves = 256;          // handed to the kernel at once
constexpr std::int64_t kBlockRows = 64;    // of the transposed copy to the result
constexpr std::int64_t kBlockPrompts = 8;

class FileTokenSummer {
 public:
  FileTokenSummer(const FileScores& scores, JobControl& control)
      : scores_(scores),
        control_(control),
        kernels_(kernels()),
        dtype_(static_cast<int>(scores.dtype)),
        size_(static_cast<std::int64_t>(sizeOf(scores.dtype))),
        rowBytes_(scores.tokens * size_),
        segments_(scores.prompts * scores.rows),
        reader_(scores.fd),
        sums_(static_cast<std::size_t>(segments_)) {
    std::int64_t longest = 0, tokens = 0;
    for (std::int64_t row = 0; row < scores.rows; row++) {
      longest = std::max(longest, scores.lengths[row]);
      tokens += scores.lengths[row];
    }
    control.totalUnits.store(tokens * scores.prompts, std::memory_order_relaxed);
    if (rowBytes_ <= kPieceBytes) {
      pieceRows_ = rowBytes_ == 0 ? kPieceRows : std::min(kPieceRows, kPieceBytes / rowBytes_);
      pieces_ = (segments_ + pieceRows_ - 1) / pieceRows_;
    } else {
      // Of a row's pieces the leaves' sums are kept, to be added in order when all are there.
      piecesOfRow_ = (longest * size_ + kPieceBytes - 1) / kPieceBytes;
      pieces_ = segments_ * piecesOfRow_;
      leafSums_.resize(static_cast<std::size_t>(pieces_ * leavesOfPiece()));
    }
  }

  Outcome sum(ThreadPool& pool) {
    reader_.expectSequential(scores_.offset, segments_ * rowBytes_);
    return pool.run(pieces_, control_, [&](std::int64_t piece, int) {
      if (pieceRows_ > 0) {
        const std::int64_t first = piece * pieceRows_;
        sumRows(first, std::min(first + pieceRows_, segments_));
      } else {
        sumPart(piece);
      }
    });
  }

  // To `out`, in blocks: the sums come prompt by prompt and are wanted row by row.
  Outcome put(const TokenSums& out, ThreadPool& pool) {
    const std::int64_t rowBlocks = (scores_.rows + kBlockRows - 1) / kBlockRows;
    return pool.run(rowBlocks, control_, [&](std::int64_t block, int) {
      const std::int64_t firstRow = block * kBlockRows, endRow = std::min(firstRow + kBlockRows, scores_.rows);
      if (pieceRows_ == 0) addLeaves(firstRow, endRow);
      for (std::int64_t first = 0; first < scores_.prompts; first += kBlockPrompts) {
        const std::int64_t end = std::min(first + kBlockPrompts, scores_.prompts);
        for (std::int64_t row = firstRow; row < endRow; row++) {
          for (std::int64_t prompt = first; prompt < end; prompt++) {
            const std::int64_t column = out.columnOf != nullptr ? out.columnOf[prompt] : prompt;
            out.sums[row * out.columns + column] = canonical(sums_[prompt * scores_.rows + row]);
          }
        }
      }
    });
  }

  // Reads rows whose sum is suspicious once more, which all but always ends with the first.
  InvalidToken findInvalid() {
    char* const buffer = reader_.buffer(scores_.offset);
    if (buffer == nullptr) return {};
    for (std::int64_t segment = 0; segment < segments_; segment++) {
      if (!suspicious(sums_[segment])) continue;
      const std::int64_t prompt = segment / scores_.rows, row = segment % scores_.rows;
      const std::int64_t bytes = scores_.lengths[row] * size_;
      for (std::int64_t begin = 0; begin < bytes; begin += kPieceBytes) {
        const std::int64_t count = std::min(kPieceBytes, bytes - begin);
        if (control_.cancelled.load(std::memory_order_relaxed)) return {};
        if (!reader_.read(buffer, count, scores_.offset + segment * rowBytes_ + begin)) return {};
        for (std::int64_t at = 0; at < count; at += size_) {
          if (suspicious(tokenAt(scores_.dtype, buffer + at, 0))) return {prompt, row, (begin + at) / size_};
        }
      }
    }
    return {};
  }

  ReadFailure failure() const { return reader_.failure(); }

 private:
  std::int64_t leavesOfPiece() const { return kPieceBytes / size_ / kLeafTokens; }

  // Segments [first, end): a buffer holds them as the file does, gaps included.
  void sumRows(std::int64_t first, std::int64_t end) {
    char* const buffer = reader_.buffer(scores_.offset + first * rowBytes_);
    if (buffer == nullptr) return;
    const std::int64_t tokens = readRows(first, end, buffer);
    if (tokens < 0) return;
    scores_.tokens <= kLeafTokens ? sumLeaves(first, end, buffer) : sumLongRows(first, end, buffer);
    control_.doneUnits.fetch_add(tokens, std::memory_order_relaxed);
  }

  // Returns the number of valid tokens; < 0 if reading failed.
  std::int64_t readRows(std::int64_t first, std::int64_t end, char* buffer) {
    const std::int64_t* const lengths = scores_.lengths;
    const std::int64_t rows = scores_.rows, rowBytes = rowBytes_, size = size_;
    std::int64_t runBegin = 0, runEnd = 0, tokens = 0;
    const auto readRun = [&] {
      return reader_.read(buffer + runBegin, runEnd - runBegin, scores_.offset + first * rowBytes + runBegin);
    };
    std::int64_t row = first % rows;
    for (std::int64_t begin = 0; begin < (end - first) * rowBytes;
         begin += rowBytes, row = row + 1 < rows ? row + 1 : 0) {
      const std::int64_t length = lengths[row];
      if (length == 0) continue;
      if (begin - runEnd > kGapBytes || runEnd == 0) {
        if (!readRun()) return -1;
        runBegin = begin;
      }
      runEnd = begin + length * size;
      tokens += length;
    }
    return readRun() ? tokens : -1;
  }

  // Rows of one leaf at most, whose sums go straight to where they belong.
  void sumLeaves(std::int64_t first, std::int64_t end, const char* buffer) {
    const std::int64_t* const rowLengths = scores_.lengths;
    const std::int64_t rows = scores_.rows, tokens = scores_.tokens;
    std::int64_t starts[kBatchLeaves], lengths[kBatchLeaves];
    std::int64_t row = first % rows;
    for (std::int64_t segment = first; segment < end; segment += kBatchLeaves) {
      const std::int64_t leaves = std::min<std::int64_t>(kBatchLeaves, end - segment);
      for (std::int64_t i = 0; i < leaves; i++, row = row + 1 < rows ? row + 1 : 0) {
        starts[i] = (segment - first + i) * tokens;
        lengths[i] = rowLengths[row];
      }
      kernels_.sumNearSegments[dtype_](buffer, starts, lengths, leaves, &sums_[segment]);
    }
  }

  void sumLongRows(std::int64_t first, std::int64_t end, const char* buffer) {
    // Rows of more than a leaf have fewer than two leaves for each that a buffer holds.
    constexpr std::size_t kMost = 2 * kPieceBytes / sizeof(std::uint16_t) / kLeafTokens;
    std::int64_t starts[kMost] = {}, lengths[kMost] = {}, owners[kMost];
    double leafSums[kMost];
    int leaves = 0;
    std::int64_t row = first % scores_.rows;
    for (std::int64_t segment = first; segment < end; segment++, row = row + 1 < scores_.rows ? row + 1 : 0) {
      const std::int64_t start = (segment - first) * scores_.tokens, length = scores_.lengths[row];
      for (std::int64_t begin = 0; begin < length; begin += kLeafTokens) {
        starts[leaves] = start + begin;
        lengths[leaves] = std::min<std::int64_t>(kLeafTokens, length - begin);
        owners[leaves++] = segment;
      }
    }
    kernels_.sumNearSegments[dtype_](buffer, starts, lengths, leaves, leafSums);
    for (int i = 0; i < leaves; i++) sums_[owners[i]] += leafSums[i];
  }

  // One piece of a row that is longer than a piece.
  void sumPart(std::int64_t piece) {
    const std::int64_t segment = piece / piecesOfRow_, firstByte = piece % piecesOfRow_ * kPieceBytes;
    const std::int64_t bytes = std::min(kPieceBytes, scores_.lengths[segment % scores_.rows] * size_ - firstByte);
    if (bytes <= 0) return;
    const std::int64_t offset = scores_.offset + segment * rowBytes_ + firstByte;
    char* const buffer = reader_.buffer(offset);
    if (buffer == nullptr || !reader_.read(buffer, bytes, offset)) return;
    const std::int64_t tokens = bytes / size_;
    std::int64_t starts[kPieceBytes / sizeof(std::uint16_t) / kLeafTokens];
    std::int64_t lengths[sizeof starts / sizeof *starts];
    int leaves = 0;
    for (std::int64_t begin = 0; begin < tokens; begin += kLeafTokens) {
      starts[leaves] = begin;
      lengths[leaves++] = std::min<std::int64_t>(kLeafTokens, tokens - begin);
    }
    kernels_.sumNearSegments[dtype_](buffer, starts, lengths, leaves, &leafSums_[piece * leavesOfPiece()]);
    control_.doneUnits.fetch_add(tokens, std::memory_order_relaxed);
  }

  void addLeaves(std::int64_t firstRow, std::int64_t endRow) {
    for (std::int64_t prompt = 0; prompt < scores_.prompts; prompt++) {
      for (std::int64_t row = firstRow; row < endRow; row++) {
        const std::int64_t segment = prompt * scores_.rows + row;
        const std::int64_t leaves = (scores_.lengths[row] + kLeafTokens - 1) / kLeafTokens;
        const double* const sums = leafSums_.data() + segment * piecesOfRow_ * leavesOfPiece();
        sums_[segment] = std::accumulate(sums, sums + leaves, 0.0);
      }
    }
  }

  const FileScores& scores_;
  JobControl& control_;
  const KernelTable& kernels_;
  int dtype_;
  std::int64_t size_, rowBytes_, segments_;
  std::int64_t pieces_ = 0;
  std::int64_t pieceRows_ = 0;    // rows in a piece, or 0: pieces are parts of rows,
  std::int64_t piecesOfRow_ = 0;  // so many a row
  FileReader reader_;
  std::vector<double> sums_;      // [prompts, rows]: threads write side by side, not all over the result
  std::vector<double> leafSums_;  // [prompts, rows, piecesOfRow_, leavesOfPiece()]
};

}  // namespace

Outcome sumFileTokens(const FileScores& scores, const TokenSums& out, ThreadPool& pool, JobControl& control,
                      InvalidToken* firstInvalid, ReadFailure* failure) {
  *firstInvalid = {};
  *failure = {};
  FileTokenSummer summer(scores, control);
  if (summer.sum(pool) == Outcome::Cancelled) return Outcome::Cancelled;
  *failure = summer.failure();
  if (failure->offset >= 0) return Outcome::Done;
  if (summer.put(out, pool) == Outcome::Cancelled) return Outcome::Cancelled;
  *firstInvalid = summer.findInvalid();
  *failure = summer.failure();
  return control.cancelled.load(std::memory_order_relaxed) ? Outcome::Cancelled : Outcome::Done;
}

}  // namespace collapsar
