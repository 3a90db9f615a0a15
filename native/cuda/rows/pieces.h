// How rows are cut among thread groups, so that every multiprocessor has work until the end. Many rows: one group each.
// The last partial wave of blocks, or all rows where there are few, is cut by columns, and a second kernel merges the
// pieces in order.
#pragma once

#include "host_device.h"

namespace collapsar::cuda {

struct RowPieces {
  int32_t rows;       // that there is work for, at most kMostRows (portions.h)
  int32_t wholeRows;  // the first so many are one piece each
  int32_t pieces;     // of each of the others
  int32_t pieceColumns;

  COLLAPSAR_BOTH int32_t units() const { return wholeRows + (rows - wholeRows) * pieces; }
  COLLAPSAR_BOTH int32_t cutUnits() const { return units() - wholeRows; }
};

constexpr int64_t kLeastPieceBytes = 1 << 15;  // less than this, and starting a block takes as long as reading

constexpr int64_t kMostPiecesInWaves = 8;  // with room for more in one wave, it is full enough

// groupsAtOnce: how many groups the device holds at a time.
inline RowPieces cutRows(int64_t rows, int64_t columns, int64_t elementBytes, int64_t groupsAtOnce) {
  RowPieces cut{static_cast<int32_t>(rows), static_cast<int32_t>(rows), 1, static_cast<int32_t>(columns)};
  if (rows == 0 || columns == 0) return cut;
  const int64_t most = columns * elementBytes / kLeastPieceBytes;
  const int64_t left = rows % groupsAtOnce;
  if (most < 2 || left == 0) return cut;
  // Past so many waves, what the last one loses is below a percent.
  if (rows / groupsAtOnce >= 100) return cut;
  // As many as one wave has room for; of a wave with room for few, more may be better, in several waves. A wave that is
  // nearly full is cut in two all the same: its rows would else all end at once.
  int64_t pieces = groupsAtOnce / left;
  if (pieces < 2) pieces = 2;
  if (pieces > most) pieces = most;
  const auto timeOf = [&](int64_t count) {
    const int64_t waves = (left * count + groupsAtOnce - 1) / groupsAtOnce;
    return waves * (columns * elementBytes / count + kLeastPieceBytes);
  };
  for (int64_t more = pieces + 1; more <= most && more <= kMostPiecesInWaves; more++) {
    if (timeOf(more) < timeOf(pieces)) pieces = more;
  }
  const int64_t align = 64;  // columns: whole vectors of every type, if the row starts with one
  const int64_t width = ((columns + pieces - 1) / pieces + align - 1) / align * align;
  pieces = (columns + width - 1) / width;
  if (pieces < 2) return cut;
  cut.wholeRows = static_cast<int32_t>(rows - left);
  cut.pieces = static_cast<int32_t>(pieces);
  cut.pieceColumns = static_cast<int32_t>(width);
  return cut;
}

}  // namespace collapsar::cuda
