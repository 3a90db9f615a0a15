// Snappy, as pages of Parquet are packed with it: its raw form, without frames (google/snappy, format_description.txt).
#pragma once

#include <cstdint>

namespace collapsar {

// Whether `packed` is Snappy for exactly `length` bytes, which then stand in `unpacked`. Any bytes may come: nothing
// outside of the two is read or written.
bool unpackSnappy(const std::uint8_t* packed, std::int64_t packedLength, std::uint8_t* unpacked, std::int64_t length);

}  // namespace collapsar
