// Text is mostly short literals and short copies: where there is room behind them they are moved sixteen bytes at a
// time, and what is too much is written over by what comes next.
#include "snappy.h"

#include <cstring>

namespace collapsar {
namespace {

using Byte = std::uint8_t;

constexpr std::int64_t kStep = 16;
// Of one copy, with what is moved too much.
constexpr std::int64_t kCopyRoom = 64 + kStep;

// An integer of `bytes` bytes, the lowest first.
std::int64_t littleEndian(const Byte* at, int bytes) {
  std::int64_t value = 0;
  for (int i = 0; i < bytes; i++) value |= static_cast<std::int64_t>(at[i]) << (8 * i);
  return value;
}

// Bytes of `length` from `offset` before `to`; the two may overlap, and what is copied is then copied again.
void copyBack(Byte* to, std::int64_t offset, std::int64_t length, std::int64_t room) {
  const Byte* from = to - offset;
  if (room < kCopyRoom || offset < 8) {
    for (std::int64_t i = 0; i < length; i++) to[i] = from[i];
    return;
  }
  const std::int64_t step = offset < kStep ? 8 : kStep;
  for (std::int64_t done = 0; done < length; done += step) {
    // Of sixteen bytes all are there before the first of them is written.
    if (step == kStep) {
      std::memcpy(to + done, from + done, kStep);
    } else {
      std::memcpy(to + done, from + done, 8);
    }
  }
}

// The length at the beginning, in seven bits a byte; −1 where it is none.
std::int64_t takeLength(const Byte*& at, const Byte* end) {
  std::int64_t value = 0;
  for (int shift = 0; shift < 35 && at < end; shift += 7) {
    const Byte byte = *at++;
    value |= static_cast<std::int64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return -1;
}

}  // namespace

bool unpackSnappy(const std::uint8_t* packed, std::int64_t packedLength, std::uint8_t* unpacked, std::int64_t length) {
  const Byte* at = packed;
  const Byte* const end = packed + packedLength;
  if (takeLength(at, end) != length) return false;
  Byte* to = unpacked;
  Byte* const toEnd = unpacked + length;
  while (at < end) {
    const Byte tag = *at++;
    const std::int64_t left = end - at, room = toEnd - to;
    if ((tag & 3) == 0) {
      std::int64_t count = (tag >> 2) + 1;
      if (count <= kStep && left >= kStep && room >= kStep) {
        std::memcpy(to, at, kStep);
      } else {
        if (count > 60) {
          const int bytes = static_cast<int>(count - 60);
          if (left < bytes) return false;
          count = littleEndian(at, bytes) + 1;
          at += bytes;
        }
        if (count > end - at || count > room) return false;
        std::memcpy(to, at, static_cast<std::size_t>(count));
      }
      at += count;
      to += count;
      continue;
    }
    std::int64_t count, offset;
    if ((tag & 3) == 1) {
      if (left < 1) return false;
      count = ((tag >> 2) & 7) + 4;
      offset = ((tag >> 5) << 8) | *at++;
    } else {
      const int bytes = (tag & 3) == 2 ? 2 : 4;
      if (left < bytes) return false;
      count = (tag >> 2) + 1;
      offset = littleEndian(at, bytes);
      at += bytes;
    }
    if (offset == 0 || offset > to - unpacked || count > room) return false;
    copyBack(to, offset, count, room);
    to += count;
  }
  return to == toEnd;
}

}  // namespace collapsar
