// A row's columns [begin, end) as 16-byte vectors of memory. Of the two at the ends only the row's elements are read;
// -inf stands for the others. A group of kLanes threads takes kChunkVectors vectors a lane at a time; the next chunk is
// on its way while the present one is used: 64 bytes a thread in flight.
#pragma once

#include "cuda/kernel_launch.h"
#include "vector_loads.cuh"

namespace collapsar::cuda {

constexpr int kChunkVectors = 4;

// Where the next chunk of a thread comes to lie: vectors of a block's threads side by side, in shared memory.
struct NextChunk {
  Vector* first;

  __device__ explicit NextChunk(Vector* ofBlock) : first(ofBlock + threadIdx.x) {}
  __device__ Vector& operator[](int j) const { return first[j * kBlockThreads]; }

  __device__ __forceinline__ void take(Vector (&v)[kChunkVectors]) const {
    awaitCopies();
    COLLAPSAR_UNROLLED
    for (int j = 0; j < kChunkVectors; j++) v[j] = (*this)[j];
  }

  // A chunk of whole vectors, the lane's first at `from`.
  template <int kLanes>
  __device__ __forceinline__ void start(const Vector* from) const {
    COLLAPSAR_UNROLLED
    for (int j = 0; j < kChunkVectors; j++) startCopy(&(*this)[j], from + j * kLanes);
  }
};
constexpr int kNextChunkVectors = kChunkVectors * kBlockThreads;

template <class T>
struct RowVectors {
  static constexpr int kPerVector = Element<T>::kPerVector;

  // No more than this is kept: registers are short, and the rest is needed at the row's ends alone.
  const T* row;  // column 0
  int begin, end;
  int shift;  // so many of the first vector's elements lie before `begin`

  __device__ RowVectors(const T* rowData, int beginColumn, int endColumn)
      : row(rowData),
        begin(beginColumn),
        end(endColumn),
        shift(static_cast<int>(reinterpret_cast<uintptr_t>(rowData + beginColumn) % kVectorBytes / sizeof(T))) {}

  __device__ unsigned elements() const { return static_cast<unsigned>(shift) + static_cast<unsigned>(end - begin); }
  // With those at the ends; none of no columns.
  __device__ int vectors() const {
    return end == begin ? 0 : static_cast<int>((elements() + (kPerVector - 1)) / kPerVector);
  }
  __device__ int firstWhole() const { return shift == 0 ? 0 : 1; }
  __device__ int endWhole() const { return static_cast<int>(elements() / kPerVector); }

  __device__ int64_t columnOf(int vector) const {
    return static_cast<int64_t>(begin) - shift + static_cast<int64_t>(vector) * kPerVector;
  }

  template <int kLanes>
  __device__ int chunks() const {
    return (vectors() + kLanes * kChunkVectors - 1) / (kLanes * kChunkVectors);
  }

  // Which vector of the row is the lane's number j of a chunk.
  template <int kLanes>
  __device__ static int vectorOf(int chunk, int j, int lane) {
    return (chunk * kChunkVectors + j) * kLanes + lane;
  }

  template <int kLanes, bool kKept>
  __device__ void load(int chunk, int lane, Vector (&v)[kChunkVectors]) const {
    const int first = chunk * kChunkVectors * kLanes;
    const Vector* const base = reinterpret_cast<const Vector*>(row + (begin - shift));
    if (first >= firstWhole() && first + kChunkVectors * kLanes <= endWhole()) {
      const Vector* const from = base + vectorOf<kLanes>(chunk, 0, lane);
      COLLAPSAR_UNROLLED
      for (int j = 0; j < kChunkVectors; j++) v[j] = loadVector<kKept>(from + j * kLanes);
      return;
    }
    COLLAPSAR_UNROLLED
    for (int j = 0; j < kChunkVectors; j++) {
      const int vector = vectorOf<kLanes>(chunk, j, lane);
      if (vector >= firstWhole() && vector < endWhole()) {
        v[j] = loadVector<kKept>(base + vector);
      } else {
        v[j] = nothing<T>();
        if (vector < vectors()) loadCut(columnOf(vector), v[j]);
      }
    }
  }

  // The same on its way to shared memory.
  template <int kLanes>
  __device__ void start(int chunk, int lane, const NextChunk& next) const {
    const int first = chunk * kChunkVectors * kLanes;
    const Vector* const base = reinterpret_cast<const Vector*>(row + (begin - shift));
    if (first >= firstWhole() && first + kChunkVectors * kLanes <= endWhole()) {
      return next.template start<kLanes>(base + vectorOf<kLanes>(chunk, 0, lane));
    }
    COLLAPSAR_ROLLED
    for (int j = 0; j < kChunkVectors; j++) {
      const int vector = vectorOf<kLanes>(chunk, j, lane);
      if (vector >= firstWhole() && vector < endWhole()) {
        startCopy(&next[j], base + vector);
      } else {
        Vector v = nothing<T>();
        if (vector < vectors()) loadCut(columnOf(vector), v);
        next[j] = v;
      }
    }
  }

  __device__ void loadCut(int64_t firstColumn, Vector& v) const {
    for (int e = 0; e < kPerVector; e++) {
      const int64_t column = firstColumn + e;
      if (column >= begin && column < end) put<T>(v, e, row[column]);
    }
  }

  // Elements that stand for none, over all lanes and chunks.
  template <int kLanes>
  __device__ int64_t filled() const {
    return static_cast<int64_t>(chunks<kLanes>()) * kLanes * kChunkVectors * kPerVector - (end - begin);
  }

  // The first column of a lane's chunk that holds `value`, above -inf, or a NaN if that is one; `end` if none does.
  template <int kLanes, class C>
  __device__ int firstIn(int chunk, int lane, C value) const {
    Vector v[kChunkVectors];
    load<kLanes, true>(chunk, lane, v);
    int at = kChunkVectors * kPerVector;
    COLLAPSAR_UNROLLED
    for (int j = kChunkVectors - 1; j >= 0; j--) {
      C x[kPerVector];
      unpack<T>(v[j], x);
      COLLAPSAR_UNROLLED
      for (int e = kPerVector - 1; e >= 0; e--) {
        if (x[e] == value || (x[e] != x[e] && value != value)) at = j * kPerVector + e;
      }
    }
    if (at == kChunkVectors * kPerVector) return end;
    return static_cast<int>(columnOf(vectorOf<kLanes>(chunk, at / kPerVector, lane)) + at % kPerVector);
  }
};

}  // namespace collapsar::cuda
